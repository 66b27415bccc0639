"""Reading the files of `errata find`. A StoreError names a file that is damaged, and what is wrong with it."""

import json
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.core.rates import NoiseRate
from errata.dynamics.files import load_json
from errata.dynamics.store import Dynamics
from errata.errors import StoreError
from errata.readers.file_access import file_errors
from errata.readers.whole_rows import rows_by_line
from errata.wording import listed, one_line

if TYPE_CHECKING:
    import pandas as pd

SUMMARY, RANKING, CONFLICTS, CONFUSIONS = "summary.json", "ranking", "conflicts.csv", "confusions.csv"
LARGEST = 1e300  # numbers in summary.json; NaN is not smaller
NONE = type(None)
REQUIRED: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("method", "model", "unit", "version"), (str,)),
    "epochs_used": (int,),
    "estimate": (dict,),
}
OPTIONAL: dict[str, tuple[type, ...]] = {
    "kind": (str,),
    **dict.fromkeys(("samples", "classes"), (int,)),
    **dict.fromkeys(("trust", "remarks", "notes"), (list,)),
    "seconds": (int, float),
    "held_out_loss": (int, float, NONE),
    "model_choice": (str, NONE),
    "settings": (dict,),
    **dict.fromkeys(("source", "origin"), (dict, NONE)),
    "random_part": (dict,),
}
RANDOM_PART: dict[str, tuple[type, ...]] = {"seed": (int,), "share": (int, float)}
ESTIMATE: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("rate", "low", "high"), (int, float)),
    "confidence": (int, float, NONE),
    "how": (str,),
}
SOURCE: dict[str, tuple[type, ...]] = {
    "path": (str,),
    **dict.fromkeys(("label", "id"), (str, NONE)),
    **dict.fromkeys(("text", "ignore"), (str, list, NONE)),
    **dict.fromkeys(("skip_bad", "merge_labels"), (bool,)),
}
NUMBERS = ("score", "label_probability", "suggested_probability", "p_wrong", "agree", "mean_loss")


def read_summary(folder: Path) -> dict[str, Any]:
    """The summary.json of a folder that `errata find` wrote."""
    path = folder / SUMMARY
    if not path.is_file():
        raise StoreError(f"{folder} has no {SUMMARY}: it is not a complete folder of `errata find`")
    summary = load_json(path)
    try:
        json.dumps(summary, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise StoreError(f"{path} is damaged: it holds half of a character") from error
    _check_entries(summary, REQUIRED, f"{path} is damaged:")
    _check_entries({**dict.fromkeys(OPTIONAL, ...), **summary}, OPTIONAL, f"{path} is damaged:")
    _check_entries(summary["estimate"], ESTIMATE, f"{path} is damaged: in its estimate,")
    if summary.get("source") is not None:
        _check_entries(
            {"ignore": None, "merge_labels": False, **summary["source"]}, SOURCE, f"{path} is damaged: in its source,"
        )
    if "random_part" in summary:
        _check_entries(summary["random_part"], RANDOM_PART, f"{path} is damaged: in its random_part,")
    if not 0 <= summary["estimate"]["rate"] <= 1:
        raise StoreError(f"{path} is damaged: the estimated rate is {summary['estimate']['rate']}, not 0 to 1")
    return summary


def read_estimate(summary: dict[str, Any]) -> NoiseRate:
    """The estimate in a summary."""
    return NoiseRate(**{field.name: summary["estimate"][field.name] for field in fields(NoiseRate)})


def read_ranking(folder: Path, dynamics: Dynamics) -> "pd.DataFrame":
    """The ranking of all samples of these dynamics, most suspicious first."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / f"{RANKING}.parquet"
    if not path.is_file():
        raise StoreError(f"{path} is {'a folder' if path.is_dir() else 'missing'}")
    with file_errors(path, "is not a complete Parquet file", (pa.ArrowException, OSError, ValueError)):
        ranking: pd.DataFrame = pq.read_table(path).to_pandas(ignore_metadata=True)
    missing = [name for name in ("id", "label", "suggested", "rank", *NUMBERS) if name not in ranking.columns]
    if missing:
        raise StoreError(f"{path} is damaged: it has no column {listed(missing)}")
    for name in ("rank", *NUMBERS):
        if ranking[name].dtype.kind not in "iuf":
            raise StoreError(f"{path} is damaged: column {name!r} holds {ranking[name].dtype}, not numbers")
    if ranking["rank"].tolist() != list(range(1, dynamics.samples + 1)):
        raise StoreError(f"{path} is damaged: it does not rank the {dynamics.samples:,} samples of the dynamics")
    if not ranking["p_wrong"].between(0, 1).all() or ranking["score"].isna().any():
        raise StoreError(f"{path} is damaged: a score or p_wrong is not a number, or not a probability")
    names = [str(dynamics.class_name(number)) for number in range(dynamics.num_classes)]
    recorded = dict(zip(map(str, dynamics.ids.tolist()), dynamics.labels.tolist(), strict=True))
    rows = zip(*(map(str, ranking[name].tolist()) for name in ("id", "label", "suggested")), strict=True)
    for id_, label, suggested in rows:
        if id_ not in recorded or names[recorded.pop(id_)] != label or suggested not in names:
            raise StoreError(f"{path} is damaged: sample {id_!r} is not as in the dynamics, or it occurs twice")
    return ranking


def read_conflicts(folder: Path, ranking: "pd.DataFrame") -> "pd.DataFrame":
    """The groups of samples with the same inputs and different labels; ids and labels in the types of the ranking."""
    import pandas as pd

    path = folder / CONFLICTS
    header, rows = rows_by_line(path)
    if header != ["group", "id", "label"]:
        raise StoreError(f"{path} is damaged: it must have the columns group, id, label")
    known = {"id": _by_text(ranking["id"]), "label": _by_text([*ranking["label"], *ranking["suggested"]])}
    table: dict[str, list[Any]] = {name: [] for name in header}
    for line, cells in rows.items():
        for name, text in zip(header, cells, strict=True):
            if name in known:
                value = known[name].get(text, known[name].get(text.removeprefix("'")))  # written with excel_safe
            else:
                value = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None
            if value is None:
                raise StoreError(f"{path} is damaged: line {line} has the {name} {one_line(repr(text))}")
            table[name].append(value)
    return pd.DataFrame(table)


def _check_entries(values: dict[str, Any], types: dict[str, tuple[type, ...]], problem: str) -> None:
    """Refuse entries that are missing or of another type. `...` stands for an entry that may be missing."""
    for name, allowed in types.items():
        if name not in values:
            raise StoreError(f"{problem} there is no {name!r}")
        value = values[name]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not ... and (
            type(value) not in allowed
            or (number and not -LARGEST <= value <= LARGEST)
            or (isinstance(value, list) and not all(isinstance(item, str) for item in value))
        ):
            raise StoreError(f"{problem} {name!r} is {one_line(repr(value))}")


def _by_text(values: Iterable[Any]) -> dict[str, Any]:
    """Values by their text."""
    return {str(value): value for value in dict.fromkeys(values)}
