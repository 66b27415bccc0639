"""FNR at the noise rate, every number with its interval."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from errata.bench.evaluation.bootstrap import fnr_intervals
from errata.bench.evaluation.tables.over_seeds import (
    Absent,
    incomplete_note,
    not_run,
    order_methods,
    order_settings,
    shown_method,
)
from errata.bench.evaluation.tables.table import INCOMPLETE, Entry, Table
from errata.bench.results import Results

if TYPE_CHECKING:
    import pandas as pd


def intervals_table(results: Results, settings: Sequence[str] | None = None) -> Table:
    """FNR at the noise rate and from where to where it lies: methods × settings, samples and seeds drawn again."""
    numbers = fnr_intervals(results, settings)
    for name in ("mean", "low", "high"):
        numbers[f"{name}_percent"] = 100 * numbers.pop(name)
    columns = order_settings(numbers["setting"], settings)
    found = {(row["setting"], row["method"]): _entry(row) for row in numbers.to_dict("records")}
    gathering_of = dict(zip(numbers["method"], numbers["gathering"], strict=True))
    absent = Absent(results)
    rows = []
    for method in (name for name in order_methods(gathering_of) if name in gathering_of):
        shown = shown_method(method)
        entries = (
            found.get((setting, method)) or absent.entry(setting, gathering_of[method], shown) for setting in columns
        )
        rows.append((Entry(shown), *entries))
    return Table(
        title="FNR (%) at the noise rate, with 95 % intervals",
        columns=("method", *columns),
        rows=tuple(rows),
        numbers=numbers,
        notes=(
            "Mean over seeds, and in brackets where 95 % of the means lie when samples and seeds are drawn again.",
            *_single_note(numbers),
            *incomplete_note(numbers),
            *absent.notes(columns),
            *not_run(columns, settings),
        ),
    )


def _entry(row: dict[Any, Any]) -> Entry:
    text = f"{row['mean_percent']:.2f} ({row['low_percent']:.2f}–{row['high_percent']:.2f})"
    return Entry(text if row["complete"] else f"{text} {INCOMPLETE}", row["mean_percent"])


def _single_note(numbers: "pd.DataFrame") -> list[str]:
    """On cells whose interval says nothing of other seeds."""
    single = numbers.loc[numbers["seeds"] == 1, ["setting", "gathering"]].drop_duplicates().agg(", ".join, axis=1)
    return [f"One seed, an interval of its samples alone: {'; '.join(single)}"] if len(single) else []
