"""Histograms of the scores of right and wrong labels."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.bench.evaluation.summaries import display_name
from errata.bench.figures.figure_files import new_figure, setting_title
from errata.bench.results import SCORES, Results
from errata.core.metrics import fnr
from errata.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
BINS = 60
FEW = 128  # up to this many different values, each has its own bin
TAIL = 0.0005  # share of the scores at each end that goes to the outermost bins


def histogram_numbers(results: Results, setting: str, methods: Sequence[str], *, complete: bool) -> "pd.DataFrame":
    """Counts of right and wrong labels by score, for the first seed with stored scores.

    One row per method and bin, from `low` to `high`; the outermost bins contain everything beyond. `threshold` is the
    score at which the number of inspected samples equals the number of errors, `fnr_percent` the FNR there.
    """
    import pandas as pd

    found: dict[str, pd.DataFrame] = {}
    cells = [cell for cell in results.cells() if cell.setting == setting]
    stored = [cell for cell in cells if results.file(cell, SCORES).exists()]
    for cell in stored:
        if set(methods) <= set(found):
            break
        scores = results.scores(cell)
        wrong = scores["truth"].to_numpy(dtype=np.bool_)
        for method in set(methods) & set(scores.columns) - set(found):
            counted = _count(scores[method].to_numpy(dtype=np.float64), wrong)
            found[method] = counted.assign(setting=setting, complete=complete, method=method, seed=cell.seed)
    if not found:
        raise InputError(
            f"The per-sample scores of {setting} are not stored. `errata bench run` in a new folder creates them."
            if len(stored) < len(cells)
            else f"{setting} was not run with any of {', '.join(methods)}."
        )
    return pd.concat([found[method] for method in dict.fromkeys(methods) if method in found], ignore_index=True)


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
    """Bins of equal width without the tails; one bin per value if there are few values."""
    finite = scores[np.isfinite(scores)]
    values = np.unique(finite)
    if 1 < len(values) <= FEW:
        middles = (values[1:] + values[:-1]) / 2
        return np.concatenate(([2 * values[0] - middles[0]], middles, [2 * values[-1] - middles[-1]]))
    if len(values) <= 1:
        return np.array([-0.5, 0.5]) + (values[0] if len(values) else 0)
    low, high = np.quantile(finite, [TAIL, 1 - TAIL])
    return np.linspace(low, high, BINS + 1) if high > low else np.linspace(values[0], values[-1], BINS + 1)


def histogram_figure(numbers: "pd.DataFrame") -> "Figure":
    """One panel per method."""
    methods = numbers["method"].unique()
    columns = min(2, len(methods))
    rows = -(-len(methods) // columns)
    figure, panels = new_figure(4.6 * columns + 0.4, 2.5 * rows + 0.6, rows, columns)
    for axes, method in zip(panels.flat, methods, strict=False):
        _draw_histogram(axes, numbers[numbers["method"] == method])
    for axes in panels.flat[len(methods) :]:
        axes.remove()
    for axes in panels[:, 0]:
        axes.set_ylabel("% of right or of wrong", size=9)
    handles = panels.flat[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    seeds = ", ".join(map(str, numbers["seed"].unique()))
    figure.suptitle(f"{setting_title(numbers)}, seed {seeds}: scores, higher is more suspicious", size=10)
    return figure


def _draw_histogram(axes: Any, bins: "pd.DataFrame") -> None:
    """Shares of right and of wrong labels. The FNR is the share of the wrong labels below the threshold."""
    from matplotlib.ticker import MaxNLocator

    edges = np.append(bins["low"].to_numpy(), bins["high"].iloc[-1])
    for kind, colour, hatch in (("right", "tab:blue", None), ("wrong", "tab:orange", "////")):
        shares = 100 * bins[kind] / max(1, bins[kind].sum())
        axes.stairs(shares, edges, fill=True, color=colour, alpha=0.5, hatch=hatch, label=f"{kind} label")
        axes.stairs(shares, edges, color=colour, linewidth=1)
    threshold = np.clip(bins["threshold"].iloc[0], edges[0], edges[-1])
    axes.axvline(threshold, color="k", linestyle="--", linewidth=1, label="budget of the noise rate")
    axes.set_title(f"{display_name(bins['method'].iloc[0])}: FNR {bins['fnr_percent'].iloc[0]:.1f} %", size=10)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.margins(x=0.01)
