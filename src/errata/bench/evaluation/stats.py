"""Whether methods differ, and by how much. Lower values are better throughout, as an FNR is.

A *table* has a row a setting and a column a method, and no hole. *Cells* have a row a (setting, seed), and may have
holes: a method that was not run there.
"""

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
DRAWS = 10_000
LEVEL = 0.95
_DECIMALS = 12  # means of equal values differ in the last bits, and would not be ties


class Friedman(NamedTuple):
    """A test of whether any of the methods differs from the others."""

    statistic: float
    p: float


@dataclass(frozen=True)
class Paired:
    """One method against another on the same things.

    difference: the mean of first - second. effect: the matched-pairs rank-biserial correlation, 1 where the first is
    always lower, -1 where the second is. p: of the two-sided Wilcoxon signed-rank test, where ties count for nothing.
    """

    pairs: int
    wins: int
    ties: int
    losses: int
    difference: float
    effect: float
    p: float


def ranks(table: "pd.DataFrame") -> "pd.DataFrame":
    """The rank of every method on every setting, 1 for the lowest; methods that tie share the mean of their ranks."""
    return _whole(table).rank(axis=1, method="average")


def average_ranks(table: "pd.DataFrame") -> "pd.Series[float]":
    """The mean rank of every method over the settings."""
    return ranks(table).mean()


def friedman(table: "pd.DataFrame") -> Friedman:
    """Friedman's chi-square test, corrected for ties; of at least 3 methods on 2 settings."""
    from scipy.stats import friedmanchisquare

    if table.shape[0] < 2 or table.shape[1] < 3:
        raise InputError(
            f"Friedman's test needs 3 methods on 2 settings or more, not {table.shape[1]} on {table.shape[0]}"
        )
    whole = _whole(table)
    if (whole.nunique(axis=1) == 1).all():
        return Friedman(0.0, 1.0)  # nothing but ties: the correction for them would divide by zero
    statistic, p = friedmanchisquare(*(whole[method] for method in whole))
    return Friedman(float(statistic), float(p))


def nemenyi_critical_difference(methods: int, settings: int, alpha: float = 0.05) -> float:
    """How far apart average ranks must lie to differ at the level `alpha`, all pairs of methods considered."""
    from scipy.stats import studentized_range

    if methods < 2 or settings < 1:
        raise InputError(f"a critical difference needs 2 methods on a setting or more, not {methods} on {settings}")
    if not 0 < alpha < 1:
        raise InputError(f"alpha lies between 0 and 1, not at {alpha}")
    quantile = studentized_range.ppf(1 - alpha, methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6 * settings)))


def cliques(average_ranks: "pd.Series[float]", critical_difference: float) -> list[tuple[str, ...]]:
    """The largest groups of methods, best first, that cannot be told apart; a method on its own is in none."""
    ordered = average_ranks.sort_values(kind="stable")
    values = ordered.to_numpy()
    ends = np.searchsorted(values, values + critical_difference, side="left")  # a full difference is one
    longest = [(0, int(ends[0]))] if len(values) else []
    longest += [(start, int(end)) for start, (before, end) in enumerate(pairwise(ends), 1) if end > before]
    return [tuple(map(str, ordered.index[start:end])) for start, end in longest if end - start > 1]


def bootstrap_interval(
    table: "pd.DataFrame", *, draws: int = DRAWS, level: float = LEVEL, seed: int = 0
) -> "pd.DataFrame":
    """Mean, low and high of every method: the percentile interval of its mean when settings are drawn again."""
    import pandas as pd

    values = _whole(table)
    settings = len(values)
    # The mean of settings drawn with replacement: what matters of a draw is how often it holds each setting.
    means = _times_drawn(settings, draws, np.random.default_rng(seed)) @ values.to_numpy() / settings
    low, high = percentile_interval(means, level)
    return pd.DataFrame({"mean": values.mean(), "low": low, "high": high}, index=values.columns)


def percentile_interval(draws: Floats, level: float = LEVEL, axis: int = 0) -> tuple[Floats, Floats]:
    """The middle part of draws, low and high, that holds `level` of them."""
    if not draws.shape[axis] or not 0 < level < 1:
        raise InputError(f"an interval needs a draw and a level between 0 and 1, not {draws.shape[axis]} and {level}")
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=axis)
    return low, high


def paired_bootstrap(
    cells: "pd.DataFrame", reference: str, *, draws: int = DRAWS, level: float = LEVEL, seed: int = 0
) -> "pd.DataFrame":
    """Every other method against the reference when settings, and in each its seeds, are drawn again for both at once.

    Cells without a hole. A row a method (index): difference, the mean over settings of method - reference; low and high
    of its percentile interval; p, two-sided, of the draws on the other side of no difference. From few settings little
    can be drawn, and interval and p are too sure: then Wilcoxon's p over settings is the one to settle a matter by.
    """
    import pandas as pd

    _check_reference(cells, reference)
    whole = _whole(cells)
    differences = whole.drop(columns=reference).sub(whole[reference], axis=0).round(_DECIMALS)
    places = differences.index.get_level_values("setting")
    means = _cell_weights(places, draws, seed) @ differences.to_numpy()
    low, high = percentile_interval(means, level)
    side = np.minimum((means <= 0).sum(axis=0), (means >= 0).sum(axis=0))
    columns = {
        "difference": differences.groupby(places, sort=False).mean().mean(),
        "low": low,
        "high": high,
        "p": np.minimum(1, 2 * (side + 1) / (draws + 1)),  # the data themselves are a draw: p is never 0
    }
    return pd.DataFrame(columns, index=differences.columns)


def _cell_weights(settings: "pd.Index[str]", draws: int, seed: int) -> Floats:
    """What every cell, of these settings, counts in the mean of every draw of settings and seeds: (draws, cells)."""
    names, rng = settings.unique(), np.random.default_rng(seed)
    times = _times_drawn(len(names), draws, rng)
    weights = np.empty((draws, len(settings)))
    for place, name in enumerate(names):
        seeds = np.flatnonzero(settings == name)
        # A setting that is drawn k times has its seeds drawn k times over.
        drawn = rng.multinomial(times[:, place] * len(seeds), np.full(len(seeds), 1 / len(seeds)))
        weights[:, seeds] = drawn / (len(seeds) * len(names))
    return weights


def _times_drawn(things: int, draws: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """How often each of n things is among n drawn with replacement, (draws, n)."""
    if draws < 1:
        raise InputError(f"an interval needs a draw or more, not {draws}")
    return rng.multinomial(things, np.full(things, 1 / things), size=draws)


def paired(first: ArrayLike, second: ArrayLike) -> Paired:
    """Compare values (n,) of two methods on the same n things."""
    from scipy.stats import rankdata, wilcoxon

    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.shape != other.shape or one.ndim != 1 or not len(one):
        raise InputError(f"a paired comparison needs as many values of both, not shapes {one.shape} and {other.shape}")
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        raise InputError("a paired comparison needs finite values")
    difference = np.round(one - other, _DECIMALS)
    apart = difference[difference != 0]
    sizes = rankdata(np.abs(apart))
    effect = -float(np.sum(np.sign(apart) * sizes) / sizes.sum()) if len(apart) else 0.0
    return Paired(
        pairs=len(one),
        wins=int((apart < 0).sum()),
        ties=len(one) - len(apart),
        losses=int((apart > 0).sum()),
        difference=float(difference.mean()),
        effect=effect,
        p=float(wilcoxon(apart).pvalue) if len(apart) else 1.0,
    )


def compare_with(cells: "pd.DataFrame", reference: str) -> "pd.DataFrame":
    """Every other method against the reference, over cells and over settings (means of seeds).

    A row a method and what it is compared over: that, and the fields of `Paired`, with p after Holm's correction as
    `p_holm`. The seeds of a setting share data and noise: its cells are not independent, so that p over cells is too
    small, and p over settings is the one to settle a matter by. Methods that share no cell with the reference are
    left out.
    """
    import pandas as pd

    _check_reference(cells, reference)
    rows = []
    for method in cells.columns.drop(reference):
        shared = cells[[method, reference]].dropna()
        if shared.empty:
            continue
        for over, pairs in (("cells", shared), ("settings", shared.groupby(level="setting").mean())):
            rows.append({"method": method, "over": over, **asdict(paired(pairs[method], pairs[reference]))})
    if not rows:
        raise InputError(f"no method shares a cell with {reference}")
    compared = pd.DataFrame(rows)
    return compared.assign(p_holm=compared.groupby("over")["p"].transform(lambda p: holm(p.to_numpy())))


def holm(p_values: ArrayLike) -> Floats:
    """P-values (n,) of n tests after Holm's step-down correction, in their order."""
    values = np.asarray(p_values, dtype=np.float64)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise InputError(f"p-values are numbers (n,) between 0 and 1, not {p_values!r}")
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)))
    return adjusted


def _check_reference(cells: "pd.DataFrame", reference: str) -> None:
    if reference not in cells:
        raise InputError(f"there is no method {reference!r} to compare with; there are {', '.join(cells.columns)}")


def _whole(table: "pd.DataFrame") -> "pd.DataFrame":
    """The table rounded so that ties are ties, refused if it is empty or has a hole."""
    if table.empty:
        raise InputError("there is no method or no setting to compare")
    hole = np.argwhere(~np.isfinite(table.to_numpy(dtype=np.float64)))
    if len(hole):
        row, column = hole[0]
        raise InputError(f"{table.columns[column]} has no value on {table.index[row]}")
    return table.round(_DECIMALS)
