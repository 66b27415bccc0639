"""How well the noise rate is estimated without truth: bias, absolute error, coverage and width of the interval."""

from collections.abc import Sequence

import pandas as pd

from errata.bench.evaluation.result_table import ResultTable, TableEntry, mark_incomplete
from errata.bench.evaluation.summaries import incomplete_note, is_lowest
from errata.bench.plan import usual_settings
from errata.bench.results import RATE_METRICS, Results
from errata.errors import StoreError

KEY = ["setting", "gathering", "seed", "method", "complete", "samples", "noisy"]


def noise_rates_table(results: Results, settings: Sequence[str] | None = None) -> ResultTable:
    """Errors of the estimated noise rates in percentage points, and the coverage of their intervals."""
    cells = rate_cells(results, settings)
    summary = rate_summary(cells)
    best = (100 * summary["absolute_error"]).groupby(summary["gathering"]).transform(is_lowest)
    rows = []
    for row, is_best in zip(summary.to_dict("records"), best, strict=True):
        bias, error, coverage, width = (100 * row[name] for name in ("bias", "absolute_error", "coverage", "width"))
        rows.append(
            [
                row["gathering"],
                row["estimate"],
                TableEntry(mark_incomplete(f"{row['settings']}", row["complete"]), row["settings"]),
                TableEntry(f"{row['cells']}", row["cells"]),
                TableEntry(f"{bias:+z.2f}", bias),
                TableEntry(f"{error:.2f}", error, bold=is_best),
                coverage,
                width,
            ]
        )
    return ResultTable(
        title="Noise rates estimated without truth: errors in percentage points",
        columns=("gathering", "estimate", "settings", "cells", "bias", "absolute error", "coverage (%)", "width"),
        rows=rows,
        numbers=cells,
        labels=2,
        digits={"coverage (%)": 0, "width": 2},
        grouped=True,
        notes=(
            "Means over all settings and seeds. Coverage: share of the 95 % intervals that contain the true rate. "
            "Width: of the intervals.",
            "Bold: the lowest absolute error of a gathering.",
            incomplete_note(cells),
        ),
    )


def rate_cells(results: Results, settings: Sequence[str] | None = None) -> pd.DataFrame:
    """One row per cell and estimate: rate, low, high, true_rate, error, covered.

    The estimate is for all samples of a training; the true rate is that of the samples whose truth is known.
    """
    numbers = results.numbers()
    stored = numbers[numbers["metric"].isin(RATE_METRICS.values())]
    stored = stored[stored["setting"].isin(usual_settings(set(stored["setting"])) if settings is None else settings)]
    if stored.empty:
        raise StoreError(f"No noise-rate estimates in {results.folder}. Cells of `errata bench run` contain them.")
    wide = stored.pivot(index=KEY, columns="metric", values="value").reset_index().rename_axis(columns=None)
    names = {"method": "estimate"} | {metric: column for column, metric in RATE_METRICS.items()}
    cells = wide.rename(columns=names)
    true = cells.pop("noisy") / cells.pop("samples")
    return cells.assign(
        true_rate=true, error=cells["rate"] - true, covered=(cells["low"] <= true) & (true <= cells["high"])
    )


def rate_summary(cells: pd.DataFrame) -> pd.DataFrame:
    """One row per gathering and estimate, over all cells: bias, absolute_error, coverage, width of the interval."""
    sized = cells.assign(size=cells["error"].abs(), width=cells["high"] - cells["low"])
    summary = sized.groupby(["gathering", "estimate"]).agg(
        settings=("setting", "nunique"),
        complete=("complete", "all"),
        cells=("error", "size"),
        bias=("error", "mean"),
        absolute_error=("size", "mean"),
        coverage=("covered", "mean"),
        width=("width", "mean"),
    )
    return summary.reset_index().sort_values(["gathering", "absolute_error"], kind="stable", ignore_index=True)
