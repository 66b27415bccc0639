"""Which methods differ over all settings: average ranks, Nemenyi's critical difference, bootstrap intervals."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from errata.bench.evaluation import stats
from errata.bench.evaluation.tables.over_seeds import shown_method
from errata.bench.figures.drawing import new_figure
from errata.bench.figures.measured import complete_settings, fnr_cells
from errata.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ALPHA = 0.05


@dataclass(frozen=True, eq=False)
class Standing:
    """How methods stand over settings.

    numbers: a row a method, best first: average rank and mean FNR with their bootstrap intervals, and in `groups` the
    cliques it belongs to, counted from 1. left_out: which settings and methods are not in it, and why.
    """

    numbers: "pd.DataFrame"
    settings: tuple[str, ...]
    cliques: list[tuple[str, ...]]
    friedman: stats.Friedman
    critical_difference: float
    left_out: dict[str, list[str]]


def standing(numbers: "pd.DataFrame") -> Standing:
    """Of the methods that every setting with complete data has, on those settings."""
    whole = complete_settings(numbers)
    means = fnr_cells(numbers[numbers["setting"].isin(whole)]).groupby(level="setting", sort=False).mean()
    table = means.dropna(axis=1)
    if table.shape[0] < 2 or table.shape[1] < 3:
        raise InputError(
            "a critical difference needs 3 methods that 2 settings with complete data share; "
            f"there are {table.shape[1]} on {table.shape[0]}"
        )
    left_out = {
        "not run on all settings": means.columns.drop(table.columns).tolist(),
        "incomplete data": [name for name in numbers["setting"].unique() if name not in whole],
    }
    return standing_of(table, {reason: names for reason, names in left_out.items() if names})


def standing_of(table: "pd.DataFrame", left_out: dict[str, list[str]]) -> Standing:
    """Of FNR without a hole, a row a setting and a column a method; `left_out` is kept as it is."""
    import pandas as pd

    ranked = stats.average_ranks(table).sort_values(kind="stable")
    difference = stats.nemenyi_critical_difference(len(ranked), len(table), ALPHA)
    cliques = stats.cliques(ranked, difference)
    rank, fnr = stats.bootstrap_interval(stats.ranks(table)), 100 * stats.bootstrap_interval(table)
    columns = {f"rank_{name}": rank[name] for name in rank} | {f"fnr_percent_{name}": fnr[name] for name in fnr}
    frame = pd.DataFrame(columns).loc[ranked.index].rename_axis("method").reset_index()
    groups = [" ".join(str(n) for n, clique in enumerate(cliques, 1) if name in clique) for name in frame["method"]]
    test = stats.friedman(table)
    return Standing(
        frame.assign(
            groups=groups,
            settings=len(table),
            critical_difference=difference,
            friedman_statistic=test.statistic,
            friedman_p=test.p,
        ),
        tuple(map(str, table.index)),
        cliques,
        test,
        difference,
        left_out,
    )


def critical_figure(found: Standing) -> "Figure":
    """A row a method, best first: average rank, bars that join those that cannot be told apart, mean FNR."""
    from matplotlib.ticker import MaxNLocator

    rows = found.numbers
    bars = max(1, len(found.cliques))
    figure, ((left, middle, right),) = new_figure(
        9.2 + 0.09 * bars, 1.9 + 0.235 * len(rows), columns=3, sharey=True, width_ratios=(5, 0.12 * bars + 0.1, 4)
    )
    _intervals(left, rows, "rank")
    _intervals(right, rows, "fnr_percent")
    left.set_yticks(np.arange(len(rows)), [shown_method(name) for name in rows["method"]], size=9)
    left.set_ylim(len(rows) - 0.3, -2.2)
    ruler = float(rows["rank_mean"].iloc[0])
    farthest = max(len(rows), ruler + found.critical_difference)
    left.set(xlabel="average rank (1 is best)", xlim=(0.5, farthest + 0.5))
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.set(xlabel="mean FNR at the noise rate (%)", xlim=(0, None))
    _ruler(left, ruler, found.critical_difference)
    _join(middle, found, rows["method"].tolist())
    p = f"= {found.friedman.p:.2g}" if found.friedman.p >= 1e-4 else "< 0.0001"
    figure.suptitle(
        f"{len(rows)} methods on {len(found.settings)} settings; Friedman: p {p}; thin lines: 95 % bootstrap\n"
        f"bars join methods that cannot be told apart (Nemenyi, α = {ALPHA})",
        size=10,
    )
    return figure


def _intervals(axes: Any, rows: "pd.DataFrame", what: str) -> None:
    mean, low, high = (rows[f"{what}_{end}"].to_numpy() for end in ("mean", "low", "high"))
    where = np.arange(len(rows))
    axes.hlines(where, low, high, color="0.55", linewidth=1.2)
    axes.plot(mean, where, "o", color="tab:blue", markersize=5)
    axes.grid(axis="y", color="0.93")
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _ruler(axes: Any, start: float, length: float) -> None:
    axes.errorbar(start + length / 2, -1.1, xerr=length / 2, color="k", capsize=4, linewidth=1.5)
    axes.text(start + length / 2, -1.35, f"critical difference {length:.2f}", ha="center", va="bottom", size=9)


def _join(axes: Any, found: Standing, methods: list[str]) -> None:
    for position, clique in enumerate(found.cliques):
        rows = [methods.index(method) for method in clique]
        axes.plot([position] * 2, [min(rows) - 0.25, max(rows) + 0.25], color="k", linewidth=2.5)
    axes.set_xlim(-1, max(1, len(found.cliques)))
    axes.set_xticks([])
    axes.tick_params(axis="y", length=0)
    for side in axes.spines.values():
        side.set_visible(False)
