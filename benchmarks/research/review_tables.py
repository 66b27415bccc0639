"""Tables of the simulated reviews in results/research/reviews.csv, which `benchmarks/reviews.py` measured."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

STORED = Path(__file__).parents[2] / "results" / "research" / "reviews.csv"
CASE = ["data", "samples", "wrong", "p_wrong"]
SKILLS, VERDICTS = ("100", "95", "90"), ("100", "300", "1000")


def coverage() -> list[list[str]]:
    """Coverage of the intervals after 300 verdicts, by share of right verdicts."""
    kinds = [f"{kind} covers {skill}" for skill in SKILLS for kind in ("one look", "any time")]
    titles = [f"{skill} %, {kind}" for skill in SKILLS for kind in ("one look", "any time")]
    return _table([*titles, "normal audit"], [*kinds, "normal audit covers"], 1)


def width() -> list[list[str]]:
    """Width of the intervals by number of verdicts."""
    kinds = [(verdicts, kind) for verdicts in VERDICTS for kind in ("one look", "any time", "audit")]
    return _table(
        [f"{int(count):,}, {kind}" for count, kind in kinds], [f"{kind} width {count}" for count, kind in kinds]
    )


def found() -> list[list[str]]:
    """True errors found per verdict, without and with re-ranking."""
    kinds = [(skill, kind) for skill in SKILLS for kind in ("found", "found reranked")]
    titles = [f"{skill} %, {'ranked again' if 're' in kind else 'first ranking'}" for skill, kind in kinds]
    return _table(titles, [f"{kind} {skill}" for skill, kind in kinds], 3)


def certificates() -> list[list[str]]:
    """Verdicts until a review is certified, next to the plain rule."""
    rows = [[*CASE, *(title for skill in SKILLS for title in (f"{skill} %: verdicts", "falsely")), "plain rule"]]
    for run in _runs():
        if run["wrong"] == 0:
            continue
        cells = []
        for skill in SKILLS:
            cells.append(f"{run[f'chosen {skill}']:,.0f} + {run[f'checks {skill}']:,.0f}")
            cells.append(f"{100 * (1 - run[f'rightly {skill}']):.0f} %")
        rows.append([*_case(run), *cells, f"{run['plain rule']:,.0f}"])
    return rows


def _runs() -> list[dict[str, float]]:
    return pd.read_csv(STORED).to_dict("records")


def _case(run: dict[str, float]) -> list[str]:
    return [str(run["case"]), *(f"{run[name]:,.0f}" for name in ("samples", "wrong", "expected"))]


def _table(titles: Sequence[str], columns: Sequence[str], digits: int = 0) -> list[list[str]]:
    rows = [[*_case(run), *(f"{run[name]:,.{digits}f}" for name in columns)] for run in _runs()]
    return [[*CASE, *titles], *rows]
