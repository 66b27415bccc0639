"""How well the noise rate is estimated without truth: bias, error, and how often an interval holds the true rate."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from errata.bench.results import RATE_METRICS, Results
from errata.core.rates import NoiseRate, median_estimate
from errata.errors import StoreError

if TYPE_CHECKING:
    import pandas as pd

KEY = ["setting", "gathering", "seed", "method", "complete", "samples", "noisy"]


def rate_cells(results: Results, settings: Sequence[str] | None = None) -> "pd.DataFrame":
    """A row a cell and estimate: rate, low and high, the true rate, the error, and whether the interval holds it.

    Estimated is the rate of all samples of a training, true is that of the samples whose truth is known.
    """
    numbers = results.numbers()
    kept = numbers[numbers["metric"].isin(RATE_METRICS.values())]
    if settings is not None:
        kept = kept[kept["setting"].isin(settings)]
    if kept.empty:
        raise StoreError(
            f"{results.folder} holds no estimates of noise rates here; cells that `errata bench run` makes have them"
        )
    wide = kept.pivot(index=KEY, columns="metric", values="value").reset_index().rename_axis(columns=None)
    cells = wide.rename(columns={"method": "estimate"} | {metric: column for column, metric in RATE_METRICS.items()})
    cells = _taken_together(cells)
    true = cells.pop("noisy") / cells.pop("samples")
    return cells.assign(
        true_rate=true, error=cells["rate"] - true, covered=(cells["low"] <= true) & (true <= cells["high"])
    )


def _taken_together(cells: "pd.DataFrame") -> "pd.DataFrame":
    """With the interval of `together` made anew from the other estimates: cells may be older than its rule."""
    anew = cells.copy()
    for _, estimates in cells.groupby(["setting", "gathering", "seed"]):
        others = estimates[estimates["estimate"] != "together"]
        places = estimates.index.difference(others.index)
        if len(places) and len(others):
            rates = others[["rate", "low", "high"]].itertuples(index=False)
            of_cell = median_estimate([NoiseRate(rate, low, high, None, "") for rate, low, high in rates])
            anew.loc[places, ["low", "high"]] = of_cell.low, of_cell.high
    return anew


def rate_summary(cells: "pd.DataFrame") -> "pd.DataFrame":
    """A row a gathering and estimate, over all cells: bias, absolute_error, coverage and width of the interval."""
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
