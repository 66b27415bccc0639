"""Scores of right and of wrong labels: how far a method keeps them apart."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.bench.evaluation.tables.over_seeds import shown_method
from errata.bench.figures.drawing import new_figure, setting_title
from errata.bench.plan import Cell
from errata.bench.results import Results
from errata.core.metrics import fnr
from errata.errors import InputError, StoreError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
BINS = 60
FEW = 128  # values that have a bin each
TAIL = 0.0005  # the share of scores at each end that goes to the outermost bins


def histogram_numbers(results: Results, setting: str, methods: Sequence[str], *, complete: bool) -> "pd.DataFrame":
    """Counts of right and wrong labels by score, of the first seed that kept its per-sample scores.

    A row a method and bin, from `low` to `high`; the outermost bins hold all that lies beyond. `threshold` is the
    score down to which as many samples are inspected as are wrong, `fnr_percent` what is missed then.
    """
    import pandas as pd

    found: dict[str, pd.DataFrame] = {}
    left_behind = False
    for cell in results.cells():
        if cell.setting != setting or set(methods) <= set(found):
            continue
        scores = _scores(results, cell)
        if scores is None:
            left_behind = True
            continue
        wrong = scores["truth"].to_numpy(dtype=np.bool_)
        for method in set(methods) & set(scores.columns) - set(found):
            counted = _count(scores[method].to_numpy(dtype=np.float64), wrong)
            found[method] = counted.assign(setting=setting, complete=complete, method=method, seed=cell.seed)
    if not found:
        raise InputError(
            f"the per-sample scores of {setting} were left behind; `errata bench run` makes them again"
            if left_behind
            else f"{setting} was not run with any of {', '.join(methods)}"
        )
    return pd.concat([found[method] for method in dict.fromkeys(methods) if method in found], ignore_index=True)


def _scores(results: Results, cell: Cell) -> "pd.DataFrame | None":
    """The scores of a cell, unless they were left behind."""
    try:
        return results.scores(cell)
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def _count(scores: Floats, wrong: NDArray[np.bool_]) -> "pd.DataFrame":
    import pandas as pd

    edges = _edges(scores)
    inside = np.clip(scores, edges[0], edges[-1])
    errors = int(wrong.sum())
    return pd.DataFrame(
        {
            "low": edges[:-1],
            "high": edges[1:],
            "right": np.histogram(inside[~wrong], edges)[0],
            "wrong": np.histogram(inside[wrong], edges)[0],
            "threshold": np.sort(scores)[len(scores) - errors],
            "fnr_percent": 100 * fnr(scores, wrong),
        }
    )


def _edges(scores: Floats) -> Floats:
    """Bins of equal width over all but the tails; around each value where there are few."""
    values = np.unique(scores[np.isfinite(scores)])
    if 1 < len(values) <= FEW:
        middles = (values[1:] + values[:-1]) / 2
        return np.concatenate(([2 * values[0] - middles[0]], middles, [2 * values[-1] - middles[-1]]))
    if len(values) <= 1:
        return np.array([-0.5, 0.5]) + (values[0] if len(values) else 0)
    low, high = np.quantile(scores[np.isfinite(scores)], [TAIL, 1 - TAIL])
    return np.linspace(low, high, BINS + 1) if high > low else np.linspace(values[0], values[-1], BINS + 1)


def histogram_figure(numbers: "pd.DataFrame") -> "Figure":
    """A panel a method."""
    methods = numbers["method"].unique()
    columns = min(2, len(methods))
    rows = -(-len(methods) // columns)
    figure, panels = new_figure(4.6 * columns + 0.4, 2.5 * rows + 0.6, rows, columns)
    for axes, method in zip(panels.flat, methods, strict=False):
        _histogram(axes, numbers[numbers["method"] == method])
    for axes in panels.flat[len(methods) :]:
        axes.remove()
    for axes in panels[:, 0]:
        axes.set_ylabel("% of right or of wrong", size=9)
    handles = panels.flat[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    seeds = ", ".join(map(str, numbers["seed"].unique()))
    figure.suptitle(f"{setting_title(numbers)}, seed {seeds}: scores, higher is more suspicious", size=10)
    return figure


def _histogram(axes: Any, bins: "pd.DataFrame") -> None:
    """Shares of each kind: what is missed is the part of the wrong that lies below the threshold."""
    from matplotlib.ticker import MaxNLocator

    edges = np.append(bins["low"].to_numpy(), bins["high"].iloc[-1])
    for kind, colour, hatch in (("right", "tab:blue", None), ("wrong", "tab:orange", "////")):
        shares = 100 * bins[kind] / max(1, bins[kind].sum())
        axes.stairs(shares, edges, fill=True, color=colour, alpha=0.5, hatch=hatch, label=f"{kind} label")
        axes.stairs(shares, edges, color=colour, linewidth=1)
    threshold = np.clip(bins["threshold"].iloc[0], edges[0], edges[-1])
    axes.axvline(threshold, color="k", linestyle="--", linewidth=1, label="budget of the noise rate")
    axes.set_title(f"{shown_method(bins['method'].iloc[0])}: FNR {bins['fnr_percent'].iloc[0]:.1f} %", size=10)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.margins(x=0.01)
