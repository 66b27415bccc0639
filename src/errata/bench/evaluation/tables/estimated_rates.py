"""Estimates of the noise rate beside the true one."""

from collections.abc import Sequence
from typing import Any

from errata.bench.evaluation.rate_scores import rate_cells, rate_summary
from errata.bench.evaluation.tables.over_seeds import incomplete_note, least
from errata.bench.evaluation.tables.table import INCOMPLETE, Entry, Table, group_starts
from errata.bench.results import Results

COLUMNS = ("gathering", "estimate", "settings", "cells", "bias", "absolute error", "truth inside (%)", "width")


def noise_rates_table(results: Results, settings: Sequence[str] | None = None) -> Table:
    """How far estimates of the noise rate lie from the true one, in points, and how often their intervals hold it."""
    cells = rate_cells(results, settings)
    summary = rate_summary(cells)
    best = (100 * summary["absolute_error"]).groupby(summary["gathering"]).transform(least)
    return Table(
        title="Noise rates estimated without truth, in points from the true rate",
        columns=COLUMNS,
        rows=tuple(_row(row, is_best) for row, is_best in zip(summary.to_dict("records"), best, strict=True)),
        numbers=cells,
        labels=2,
        rules=frozenset(group_starts(summary["gathering"])),
        notes=(
            "Means over all settings and seeds. Truth inside: how many of the 95 % intervals hold the true rate; "
            "width: of the intervals.",
            "Bold: the least absolute error of a gathering.",
            *incomplete_note(cells),
        ),
    )


def _row(row: dict[Any, Any], is_best: bool) -> tuple[Entry, ...]:
    bias, error, inside, width = (100 * row[name] for name in ("bias", "absolute_error", "coverage", "width"))
    return (
        Entry(row["gathering"]),
        Entry(row["estimate"]),
        Entry(f"{row['settings']}" if row["complete"] else f"{row['settings']} {INCOMPLETE}", row["settings"]),
        Entry(f"{row['cells']}", row["cells"]),
        Entry(f"{bias:+z.2f}", bias),
        Entry(f"{error:.2f}", error, bold=is_best),
        Entry(f"{inside:.0f}", inside),
        Entry(f"{width:.2f}", width),
    )
