"""Figures over all settings: a heat map of methods × settings, and the critical-difference diagram."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from errata.bench.evaluation import stats
from errata.bench.evaluation.summaries import complete_settings, display_name, fnr_cells, over_seeds, why_missing
from errata.bench.figures.setting_figures import new_figure
from errata.bench.results import Results
from errata.errors import InputError

MAX_RATIO = 8.0  # higher multiples of the best have the same colour
TICKS = (1, 1.5, 2, 3, 5, MAX_RATIO)


def fnr_by_setting(results: Results, numbers: pd.DataFrame) -> pd.DataFrame:
    """One row per setting and method: mean and population standard deviation over seeds, in percent.

    Further columns: seeds, ratio_to_best (of the setting), complete, and why the number is missing.
    """
    cells = fnr_cells(numbers)
    settings = cells.index.get_level_values("setting").unique()
    grid = pd.MultiIndex.from_product([settings, cells.columns], names=["setting", "method"])
    summary = over_seeds(numbers[numbers["metric"] == "fnr"], ["setting", "method"])
    table = summary.set_index(["setting", "method"]).reindex(grid).reset_index()
    table = table.rename(columns={"mean_percent": "fnr_percent"}).astype({"seeds": "Int64"})
    best = table.groupby("setting")["fnr_percent"].transform("min")
    with np.errstate(divide="ignore", invalid="ignore"):  # the ratio to a best FNR of 0 is infinite
        table["ratio_to_best"] = np.where(table["fnr_percent"] == best, 1.0, table["fnr_percent"] / best)
    seeds = sorted(set(numbers["seed"]))
    missing = [
        "" if there else why_missing(results, setting, method, seeds)
        for setting, method, there in zip(table["setting"], table["method"], table["seeds"].notna(), strict=True)
    ]
    complete = table["setting"].isin(complete_settings(numbers))
    return table.assign(seeds=table["seeds"].fillna(0), complete=complete, missing=missing)


def heat_figure(numbers: pd.DataFrame) -> Figure:
    """FNR in percent as text, its ratio to the best of the setting as colour; numbers of `fnr_by_setting`."""
    methods, settings = numbers["method"].unique(), numbers["setting"].unique()
    wide = numbers.pivot(index="method", columns="setting").reindex(methods)
    ratio, fnr = (wide[name][settings].to_numpy(np.float64) for name in ("ratio_to_best", "fnr_percent"))
    figure, ((axes,),) = new_figure(max(6.5, 3.4 + 0.38 * len(settings)), 2.8 + 0.235 * len(methods))
    missing = np.isnan(fnr)
    shown = np.ma.masked_array(np.minimum(ratio, MAX_RATIO), missing)
    mesh = axes.pcolormesh(shown, norm=LogNorm(1, MAX_RATIO), cmap="cividis_r", edgecolors="w", linewidth=0.5)
    axes.set_facecolor("0.92")  # visible where values are missing
    for row, column in np.ndindex(len(methods), len(settings)):
        _write_number(axes, row, column, float(fnr[row, column]), float(ratio[row, column]))
    complete = dict(zip(numbers["setting"], numbers["complete"], strict=True))
    names = [setting if complete[setting] else f"{setting} *" for setting in settings]
    axes.set_xticks(np.arange(len(settings)) + 0.5, names, rotation=45, ha="right", rotation_mode="anchor", size=9)
    axes.set_yticks(np.arange(len(methods)) + 0.5, [display_name(method) for method in methods], size=9)
    axes.tick_params(length=0)
    axes.invert_yaxis()
    bar = figure.colorbar(mesh, ax=axes, extend="max", shrink=0.6, label="FNR as a multiple of the setting's best")
    bar.set_ticks(TICKS, labels=[f"{tick:g} ×" for tick in TICKS])
    bar.minorticks_off()
    notes = ["FNR at the noise rate (%); best of a setting in bold"]
    notes += ["–: not measured"] if missing.any() else []
    notes += ["*: incomplete data"] if not all(complete.values()) else []
    figure.suptitle("; ".join(notes), size=10)
    return figure


def _write_number(axes: Any, row: int, column: int, fnr: float, ratio: float) -> None:
    """Write a number with three digits into its field, in bold if it is the best."""
    text = "–" if np.isnan(fnr) else f"{fnr:.2f}" if fnr < 9.995 else f"{fnr:.1f}" if fnr < 99.95 else f"{fnr:.0f}"
    colour = "0.4" if np.isnan(fnr) else "w" if ratio > MAX_RATIO**0.5 else "k"
    weight = "bold" if ratio == 1 else "normal"
    axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", size=8, color=colour, weight=weight)


def rank_comparison(numbers: pd.DataFrame) -> tuple[stats.RankComparison, dict[str, list[str]]]:
    """Ranks of the methods that all settings with complete data share, and what is left out, by reason."""
    complete = complete_settings(numbers)
    means = fnr_cells(numbers[numbers["setting"].isin(complete)]).groupby(level="setting", sort=False).mean()
    table = means.dropna(axis=1)
    if not stats.can_compare_ranks(table):
        needed = f"{stats.FEWEST_METHODS} methods on {stats.FEWEST_SETTINGS} settings with complete data"
        raise InputError(f"A critical difference needs at least {needed}, not {table.shape[1]} on {table.shape[0]}.")
    left_out = {
        "not run on all settings": means.columns.drop(table.columns).tolist(),
        "incomplete data": [name for name in numbers["setting"].unique() if name not in complete],
    }
    return stats.compare_ranks(table), {reason: names for reason, names in left_out.items() if names}


def critical_figure(compared: stats.RankComparison) -> Figure:
    """One row per method, best first: average rank, bars that join methods without significant difference, mean FNR."""
    rows, critical = compared.numbers, compared.critical_difference
    bars = max(1, len(compared.cliques))
    figure, ((left, middle, right),) = new_figure(
        9.2 + 0.09 * bars, 1.9 + 0.235 * len(rows), columns=3, sharey=True, width_ratios=(5, 0.12 * bars + 0.1, 4)
    )
    _draw_intervals(left, rows, "rank")
    _draw_intervals(right, rows, "fnr_percent")
    left.set_yticks(np.arange(len(rows)), [display_name(name) for name in rows["method"]], size=9)
    left.set_ylim(len(rows) - 0.3, -2.2)
    best = float(rows["rank_mean"].iloc[0])
    left.set(xlabel="average rank (1 is best)", xlim=(0.5, max(len(rows), best + critical) + 0.5))
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    left.errorbar(best + critical / 2, -1.1, xerr=critical / 2, color="k", capsize=4, linewidth=1.5)
    left.text(best + critical / 2, -1.35, f"critical difference {critical:.2f}", ha="center", va="bottom", size=9)
    right.set(xlabel="mean FNR at the noise rate (%)", xlim=(0, None))
    _draw_cliques(middle, compared.cliques, rows["method"].tolist())
    figure.suptitle(
        f"{len(rows)} methods on {compared.settings} settings; Friedman: p {stats.p_text(compared.friedman_p)}; "
        f"thin lines: 95 % bootstrap\nbars join methods that do not differ significantly (Nemenyi, α = {stats.ALPHA})",
        size=10,
    )
    return figure


def _draw_intervals(axes: Any, rows: pd.DataFrame, what: str) -> None:
    mean, low, high = (rows[f"{what}_{end}"].to_numpy() for end in ("mean", "low", "high"))
    where = np.arange(len(rows))
    axes.hlines(where, low, high, color="0.55", linewidth=1.2)
    axes.plot(mean, where, "o", color="tab:blue", markersize=5)
    axes.grid(axis="y", color="0.93")
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _draw_cliques(axes: Any, cliques: list[tuple[str, ...]], methods: list[str]) -> None:
    for position, clique in enumerate(cliques):
        rows = [methods.index(method) for method in clique]
        axes.plot([position] * 2, [min(rows) - 0.25, max(rows) + 0.25], color="k", linewidth=2.5)
    axes.set_xlim(-1, max(1, len(cliques)))
    axes.set_xticks([])
    axes.tick_params(axis="y", length=0)
    for side in axes.spines.values():
        side.set_visible(False)
