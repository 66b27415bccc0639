"""How sure an FNR is: intervals over the samples and the seeds that it was measured on.

Samples are drawn again from the rankings that the results keep; the budget of a draw is the number of errors in it. The
seeds of a setting share their samples, which a ranking no longer names, so that one draw of samples cannot be followed
through all seeds. Draws of different seeds are joined at equal quantiles instead, as if all seeds missed the same
errors: intervals come out somewhat wide, while independent draws would leave them much too narrow.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from errata.bench.evaluation.stats import LEVEL, percentile_interval
from errata.bench.plan import Cell
from errata.bench.results import Results
from errata.errors import InputError, StoreError

if TYPE_CHECKING:
    import pandas as pd

DRAWS = 1000
KEY = ["setting", "gathering", "method"]
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def fnr_intervals(
    results: Results,
    settings: Sequence[str] | None = None,
    *,
    draws: int = DRAWS,
    level: float = LEVEL,
    seed: int = 0,
) -> "pd.DataFrame":
    """FNR at the noise rate with its interval: a row a setting, gathering and method.

    Columns: these, the mean over seeds, low, high, how many seeds, and whether the data was complete. The interval of a
    single seed is that of its samples alone.
    """
    numbers = results.numbers()
    found = numbers[numbers["metric"] == "fnr"]
    if settings is not None:
        found = found[found["setting"].isin(settings)]
    summary = found.groupby(KEY, sort=False).agg(
        mean=("value", "mean"), seeds=("seed", "nunique"), complete=("complete", "all")
    )
    cells = {Cell(*key) for key in found[["setting", "gathering", "seed"]].itertuples(index=False, name=None)}
    drawn = fnr_draws(results, cells, draws=draws, seed=seed).loc[summary.index]
    low, high = percentile_interval(drawn.to_numpy(), level, axis=1)
    summary.insert(1, "low", low)
    summary.insert(2, "high", high)
    return summary.reset_index()


def fnr_draws(results: Results, cells: Iterable[Cell], *, draws: int = DRAWS, seed: int = 0) -> "pd.DataFrame":
    """Mean FNR over seeds of samples and seeds drawn again: a row a setting, gathering and method, a column a draw.

    The rows of different settings are independent of each other. What is drawn for a setting does not depend on which
    other settings there are.
    """
    import pandas as pd

    if draws < 1:
        raise InputError(f"an interval needs a draw or more, not {draws}")
    rows: dict[tuple[str, str, str], Floats] = {}
    for (setting, gathering), members in groupby(sorted(cells), key=lambda cell: (cell.setting, cell.gathering)):
        rng = np.random.default_rng([seed, crc32(f"{setting}/{gathering}".encode())])
        of_seeds: dict[str, list[Floats]] = {}
        for cell in members:
            for method, values in resampled_fnr(results.ranks(cell), draws, rng).items():
                of_seeds.setdefault(method, []).append(values)
        rows |= {(setting, gathering, method): _over_seeds(np.stack(seeds), rng) for method, seeds in of_seeds.items()}
    index = pd.MultiIndex.from_tuples(list(rows), names=KEY)
    return pd.DataFrame(np.array([*rows.values()]).reshape(len(rows), draws), index=index)


def resampled_fnr(ranking: "pd.DataFrame", draws: int, rng: np.random.Generator) -> dict[str, Floats]:
    """FNR (draws,) of every method of a cell when its samples are drawn again, at the number of errors drawn.

    Draws without a single error have no FNR and are drawn anew.
    """
    codes, methods = ranking["method"].factorize()
    order = np.argsort(codes, kind="stable")
    size, errors = (ranking[name].to_numpy(dtype=np.int64)[order] for name in ("size", "errors"))
    ends = np.cumsum(np.bincount(codes))
    wrong, right = _counts_above(errors), _counts_above(size - errors)
    found = _found(wrong, right, np.append(0, ends[:-1])[:, None], ends[:, None], draws, rng)
    return dict(zip(map(str, methods), 1 - found, strict=True))


def _found(wrong: Counts, right: Counts, low: Counts, high: Counts, draws: int, rng: np.random.Generator) -> Floats:
    """Share of the errors drawn that are found, (methods, draws).

    wrong, right: members above every group (groups + 1,). low, high: the groups of a method, (methods, 1).
    A draw is not spelt out sample by sample: the cut is found by bisection, and what is drawn of either half of the
    groups is binomial. That has the same distribution, in as many steps as the logarithm of the samples.
    """
    errors, samples = wrong[high] - wrong[low], wrong[high] - wrong[low] + right[high] - right[low]
    if (errors == 0).any():
        raise StoreError("a ranking without a single error has no FNR; the cell is to be run again")
    budget = _positive_binomial(samples, errors / samples, draws, rng)
    wrong_drawn, right_drawn, left = budget, samples - budget, budget
    found = np.zeros_like(budget)
    low, high = np.broadcast_to(low, budget.shape), np.broadcast_to(high, budget.shape)
    while (high - low > 1).any():
        middle = (low + high) // 2
        wrong_upper = _drawn_above(middle, wrong_drawn, wrong, low, high, rng)
        right_upper = _drawn_above(middle, right_drawn, right, low, high, rng)
        upper = wrong_upper + right_upper
        ends_there = upper >= left
        found = np.where(ends_there, found, found + wrong_upper)
        left = np.where(ends_there, left, left - upper)
        wrong_drawn = np.where(ends_there, wrong_upper, wrong_drawn - wrong_upper)
        right_drawn = np.where(ends_there, right_upper, right_drawn - right_upper)
        low, high = np.where(ends_there, low, middle), np.where(ends_there, middle, high)
    # The budget ends inside one group of equal scores, which come in no order.
    return np.asarray((found + left * wrong_drawn / (wrong_drawn + right_drawn)) / budget)


def _drawn_above(
    middle: Counts, drawn: Counts, above: Counts, low: Counts, high: Counts, rng: np.random.Generator
) -> Counts:
    """Of members drawn from groups low..high, how many are of the groups before `middle`."""
    share = (above[middle] - above[low]) / np.maximum(above[high] - above[low], 1)
    return rng.binomial(drawn, share)


def _positive_binomial(trials: Counts, share: Floats, draws: int, rng: np.random.Generator) -> Counts:
    """Binomial counts (methods, draws) of trials and share (methods, 1), none of them 0."""
    shape = (len(trials), draws)
    counts = rng.binomial(trials, share, size=shape)
    while (none := counts == 0).any():
        counts[none] = rng.binomial(np.broadcast_to(trials, shape)[none], np.broadcast_to(share, shape)[none])
    return counts


def _counts_above(counts: Counts) -> Counts:
    return np.append(0, np.cumsum(counts))


def _over_seeds(values: Floats, rng: np.random.Generator) -> Floats:
    """Means (draws,) over seeds drawn again, of the draws (seeds, draws) of each; in no order."""
    seeds, draws = values.shape
    times = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=draws).T
    return rng.permutation((times * np.sort(values, axis=1)).sum(axis=0) / seeds)
