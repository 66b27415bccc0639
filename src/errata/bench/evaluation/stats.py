"""Statistical comparison of methods. Lower values are better, as for the FNR.

A *table* has one row per setting and one column per method, without gaps.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import friedmanchisquare, studentized_range, wilcoxon

Floats = NDArray[np.float64]
ALPHA = 0.05
DRAWS = 10_000
LEVEL = 0.95
FEWEST_SETTINGS, FEWEST_METHODS = 2, 3  # for the tests of Friedman and Nemenyi
_DECIMALS = 12  # means of equal values differ in the last bits and would not be ties


class RankComparison(NamedTuple):
    """Average ranks of methods over settings.

    numbers: one row per method, best first: mean rank and mean FNR with bootstrap intervals; `groups` has the numbers
    of its cliques, from 1.
    """

    numbers: pd.DataFrame
    cliques: list[tuple[str, ...]]
    settings: int
    friedman_p: float
    critical_difference: float


def ranks(table: pd.DataFrame) -> pd.DataFrame:
    """The rank of every method on every setting, 1 for the lowest. Ties share their mean rank."""
    return table.round(_DECIMALS).rank(axis=1, method="average")


def friedman(table: pd.DataFrame) -> float:
    """The p-value of Friedman's chi-square test with correction for ties."""
    rounded = table.round(_DECIMALS)
    if (rounded.nunique(axis=1) == 1).all():
        return 1.0  # only ties: their correction would divide by zero
    return float(friedmanchisquare(*(rounded[method] for method in rounded)).pvalue)


def nemenyi_critical_difference(methods: int, settings: int) -> float:
    """The smallest significant difference of average ranks, for all pairs of methods."""
    quantile = studentized_range.ppf(1 - ALPHA, methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6 * settings)))


def cliques(average_ranks: "pd.Series[float]", critical_difference: float) -> list[tuple[str, ...]]:
    """The largest groups of methods, best first, that do not differ significantly. Single methods form no group."""
    ordered = average_ranks.sort_values(kind="stable")
    values = ordered.to_numpy()
    ends = np.searchsorted(values, values + critical_difference, side="left")  # the critical difference is significant
    longest = [(0, int(ends[0]))]
    longest += [(start, int(end)) for start, (before, end) in enumerate(pairwise(ends), 1) if end > before]
    return [tuple(map(str, ordered.index[start:end])) for start, end in longest if end - start > 1]


def can_compare_ranks(table: pd.DataFrame) -> bool:
    """Whether there are enough settings and methods for `compare_ranks`."""
    return len(table) >= FEWEST_SETTINGS and len(table.columns) >= FEWEST_METHODS


def compare_ranks(table: pd.DataFrame) -> RankComparison:
    """Average ranks with bootstrap intervals, Friedman's test, and the cliques of Nemenyi's test."""
    ranked = ranks(table).mean().sort_values(kind="stable")
    difference = nemenyi_critical_difference(len(ranked), len(table))
    groups = cliques(ranked, difference)
    rank, fnr = bootstrap_interval(ranks(table)), 100 * bootstrap_interval(table)
    intervals = pd.concat([rank.add_prefix("rank_"), fnr.add_prefix("fnr_percent_")], axis=1)
    frame = intervals.loc[ranked.index].rename_axis("method").reset_index()
    p = friedman(table)
    numbers = frame.assign(
        groups=[" ".join(str(n) for n, group in enumerate(groups, 1) if name in group) for name in frame["method"]],
        settings=len(table),
        critical_difference=difference,
        friedman_p=p,
    )
    return RankComparison(numbers, groups, len(table), p, difference)


def p_text(p: float) -> str:
    """A p-value with its relation: `= 0.03` or `< 0.0001`."""
    return f"= {p:.2g}" if p >= 1e-4 else "< 0.0001"


def bootstrap_interval(table: pd.DataFrame) -> pd.DataFrame:
    """Mean, low and high of every method: the percentile interval of its mean over resampled settings."""
    values, settings = table.round(_DECIMALS), len(table)
    means = _times_drawn(settings, np.random.default_rng(0)) @ values.to_numpy() / settings
    low, high = percentile_interval(means)
    return pd.DataFrame({"mean": values.mean(), "low": low, "high": high}, index=values.columns)


def percentile_interval(draws: Floats, axis: int = 0) -> Floats:
    """The interval that contains the middle 95 % of the draws: low and high, as the first axis."""
    return np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=axis)


def paired_bootstrap(cells: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Every other method compared with the reference on resampled settings and seeds, the same for both methods.

    cells: one row per (setting, seed), without gaps. One row per method (index): difference, the mean over settings of
    method - reference; low and high of its percentile interval. With few settings the interval is too narrow; use
    `wilcoxon_p` then.
    """
    differences = _differences(cells, reference)
    settings = differences.index.get_level_values("setting")
    means = _cell_weights(settings) @ differences.to_numpy()
    low, high = percentile_interval(means)
    mean = differences.groupby(settings, sort=False).mean().mean()
    return pd.DataFrame({"difference": mean, "low": low, "high": high}, index=differences.columns)


def _differences(table: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Every other method minus the reference."""
    rounded = table.round(_DECIMALS)
    return rounded.drop(columns=reference).sub(rounded[reference], axis=0).round(_DECIMALS)


def _cell_weights(settings: "pd.Index[str]") -> Floats:
    """Weights (draws, cells) of the cells in the mean of every draw of settings and seeds. settings: of the cells."""
    names, rng = settings.unique(), np.random.default_rng(0)
    times = _times_drawn(len(names), rng)
    weights = np.empty((DRAWS, len(settings)))
    for place, name in enumerate(names):
        seeds = np.flatnonzero(settings == name)
        # The seeds of a setting that is drawn k times are resampled k times.
        drawn = rng.multinomial(times[:, place] * len(seeds), np.full(len(seeds), 1 / len(seeds)))
        weights[:, seeds] = drawn / (len(seeds) * len(names))
    return weights


def _times_drawn(items: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """How often each of n items is drawn in n draws with replacement, (draws, n)."""
    return rng.multinomial(items, np.full(items, 1 / items), size=DRAWS)


def wilcoxon_p(table: pd.DataFrame, reference: str) -> "pd.Series[float]":
    """P-values of every other method against the reference: two-sided Wilcoxon signed-rank test without ties."""
    differences = _differences(table, reference)
    return differences.apply(lambda column: float(wilcoxon(column[column != 0]).pvalue) if column.any() else 1.0)


def holm(p_values: ArrayLike) -> Floats:
    """P-values (n,) of n tests after Holm's step-down correction, in their order."""
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)))
    return adjusted
