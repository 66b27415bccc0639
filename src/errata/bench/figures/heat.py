"""Methods × settings: how far each method is from the best of a setting."""

from typing import TYPE_CHECKING, Any

import numpy as np

from errata.bench.evaluation.tables.over_seeds import shown_method
from errata.bench.figures.drawing import new_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

FARTHEST = 8.0  # times the best: what is farther has the same colour
TICKS = (1, 1.5, 2, 3, 5, FARTHEST)


def heat_figure(numbers: "pd.DataFrame") -> "Figure":
    """FNR in percent as text, its ratio to the setting's best as colour; numbers of `measured.fnr_by_setting`."""
    from matplotlib.colors import LogNorm

    methods, settings = numbers["method"].unique(), numbers["setting"].unique()
    wide = numbers.pivot(index="method", columns="setting").reindex(methods)
    ratio, fnr = (wide[name][settings].to_numpy(np.float64) for name in ("ratio_to_best", "fnr_percent"))
    figure, ((axes,),) = new_figure(max(6.5, 3.4 + 0.38 * len(settings)), 2.8 + 0.235 * len(methods))
    missing = np.isnan(fnr)
    shown = np.ma.masked_array(np.minimum(ratio, FARTHEST), missing)
    mesh = axes.pcolormesh(shown, norm=LogNorm(1, FARTHEST), cmap="cividis_r", edgecolors="w", linewidth=0.5)
    axes.set_facecolor("0.92")  # what is masked is seen through
    for row, column in np.ndindex(len(methods), len(settings)):
        _write(axes, row, column, float(fnr[row, column]), float(ratio[row, column]))
    whole = dict(zip(numbers["setting"], numbers["complete"], strict=True))
    names = [setting if whole[setting] else f"{setting} *" for setting in settings]
    axes.set_xticks(np.arange(len(settings)) + 0.5, names, rotation=45, ha="right", rotation_mode="anchor", size=9)
    axes.set_yticks(np.arange(len(methods)) + 0.5, [shown_method(method) for method in methods], size=9)
    axes.tick_params(length=0)
    axes.invert_yaxis()
    bar = figure.colorbar(mesh, ax=axes, extend="max", shrink=0.6, label="FNR as a multiple of the setting's best")
    bar.set_ticks(TICKS, labels=[f"{tick:g} ×" for tick in TICKS])
    bar.minorticks_off()
    notes = ["FNR at the noise rate (%); best of a setting in bold"]
    notes += ["–: not measured"] if missing.any() else []
    notes += ["*: incomplete data"] if not all(whole.values()) else []
    figure.suptitle("; ".join(notes), size=10)
    return figure


def _write(axes: Any, row: int, column: int, fnr: float, ratio: float) -> None:
    """A number into its field: legible on its colour, bold if none is better."""
    text, colour = ("–", "0.4") if np.isnan(fnr) else (_percent(fnr), "w" if ratio > FARTHEST**0.5 else "k")
    weight = "bold" if ratio == 1 else "normal"
    axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", size=8, color=colour, weight=weight)


def _percent(value: float) -> str:
    """Three digits at most, so that it fits its cell."""
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
