"""Malformed folders of `errata find`: summary.json, the ranking, confusions, conflicts and dynamics."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from torture.cases import Case, Expected
from torture.hostile import like_command
from torture.victims import command
from torture.written_folders import NOT_JSON, Change, copied, damaged, remove, text, values

ESTIMATE = {"rate": 0.1, "low": 0.0, "high": 0.2}
SUMMARIES: list[tuple[str, dict[str, Any], Expected]] = [
    ("no estimate", {"estimate": ...}, "refused"),
    ("an estimate of null", {"estimate": None}, "refused"),
    ("an estimate that is a list", {"estimate": [1]}, "refused"),
    ("an estimate with unknown parts", {"estimate": {"odd": 1}}, "refused"),
    ("an incomplete estimate", {"estimate": {"rate": 0.1}}, "refused"),
    ("a rate of text", {"estimate": {**ESTIMATE, "rate": "x", "count": 1, "how": ""}}, "refused"),
    ("a source that is a text", {"source": "data.csv"}, "either"),
    ("a source without a path", {"source": {"label": "label"}}, "either"),
    (
        "a source with a path of null",
        {"source": {"path": None, "label": "label", "text": None, "id": None, "skip_bad": False}},
        "either",
    ),
    (
        "a source that is gone",
        {"source": {"path": "../gone.csv", "label": "label", "text": None, "id": None, "skip_bad": False}},
        "either",
    ),
    ("no settings", {"settings": ...}, "either"),
    ("settings of null", {"settings": None}, "either"),
]


def _table(file: str, edit: Callable[[Any], Any]) -> Change:
    """Change the ranking with pandas."""

    def change(folder: Path) -> None:
        import pandas as pd

        edit(pd.read_parquet(folder / file)).to_parquet(folder / file)

    return change


RANKINGS: list[tuple[str, Callable[[Any], Any], Expected]] = [
    *(
        (f"without {name}", lambda table, name=name: table.drop(columns=name), "refused")
        for name in ("id", "label", "p_wrong", "rank")
    ),
    ("without suggestions", lambda table: table.drop(columns="suggested"), "refused"),
    ("without scores", lambda table: table.drop(columns="score"), "refused"),
    ("without rows", lambda table: table.head(0), "refused"),
    ("with too few rows", lambda table: table.head(5), "refused"),
    ("with ranks of infinity", lambda table: table.assign(rank=np.inf), "refused"),
    ("with ranks of text", lambda table: table.assign(rank="first"), "refused"),
    ("with p_wrong of text", lambda table: table.assign(p_wrong="x"), "refused"),
    ("with p_wrong of NaN", lambda table: table.assign(p_wrong=np.nan), "refused"),
    ("with repeated ids", lambda table: table.assign(id=0), "refused"),
    ("with labels of null", lambda table: table.assign(label=None), "refused"),
    ("with other columns too", lambda table: table.assign(colour="red"), "read"),
]


def _open_and_report() -> None:
    import errata

    found = errata.Found.open("errata-out")
    found.write_report("report.html")
    print(len(found.ranking), len(found.conflicts), len(found.confusions))


def cases() -> Iterator[Case]:
    """All malformed results of find."""
    prepare = partial(copied, "errata-out")
    works: dict[str, Callable[[], object]] = {
        "opened": like_command(_open_and_report),
        "exported": command("export", "errata-out", "--to", "cleanlab", "--out", "exported"),
        "exported for Label Studio": command("export", "errata-out", "--to", "label-studio", "--out", "exported"),
        "applied": command("apply", "data.csv", "--label", "label", "--top", "3", "--accept-suggested"),
    }
    changes: list[tuple[str, Change, Expected, str]] = [("whole", lambda folder: None, "read", "")]
    changes += [
        (
            f"summary with {name}",
            values("summary.json", **stored),
            expected,
            "gone.csv" if name == "a source that is gone" else "summary.json",
        )
        for name, stored, expected in SUMMARIES
    ]
    changes += [
        (f"summary {name}", text("summary.json", content), "refused", "summary.json")
        for name, content in NOT_JSON.items()
    ]
    for file in ("summary.json", "ranking.parquet"):
        changes += [(name, change, "refused", file) for name, change in damaged(file)]
    changes += [
        (f"ranking {name}", _table("ranking.parquet", edit), expected, "ranking.parquet")
        for name, edit, expected in RANKINGS
    ]
    file, header = "conflicts.csv", "group,id,label"
    contents: list[tuple[str, str, Expected]] = [
        ("with only a header", f"{header}\n", "read"),
        ("with other columns", "x,y\n1,2\n", "refused"),
        ("with a value too many", f"{header}\n1,2,3,4\n1,2,3\n", "refused"),
        ("that is not UTF-8", f"{header}\n\udcff,2,3\n", "refused"),
        ("with an open quote", f'{header}\n"1,2,3\n', "refused"),
    ]
    changes += [
        (f"{file} {name}", text(file, content.encode("utf-8", "surrogateescape")), expected, file)
        for name, content, expected in contents
    ]
    changes += [("conflicts.csv empty", text("conflicts.csv", b""), "refused", "conflicts.csv")]
    changes += [
        (f"dynamics/{name}", change, "refused", "dynamics") for name, change in damaged("dynamics/manifest.json")
    ]
    changes += [("dynamics missing", remove("dynamics"), "refused", "dynamics")]
    for number, (name, change, expected, file) in enumerate(changes):
        for used, work in works.items():
            # All changes are opened; the other commands take turns, so that each meets every kind of change.
            if used == "opened" or number == 0 or number % 3 == list(works).index(used) - 1:
                outcome = expected if used == "opened" or number == 0 else "either"
                yield Case(f"errata-out {used}: {name}", prepare(change), work, outcome, says=file)
