"""Bounds on the number of wrong labels that hold however often someone looks: a confidence sequence by betting.

Each possible number T of wrong labels is tested by a product of factors, one per random draw: the wealth of a gambler
who starts with 1 and bets against T. Under T, the mean of the next draw is known, because the draw is uniform among the
samples that nobody has judged yet. So the wealth is a martingale, and exceeds 1 / risk at any time with probability
`risk` at most (Ville's inequality). The values of T whose wealth has ever exceeded it are excluded (Waudby-Smith and
Ramdas, 2024, for sampling without replacement).

The wealth is split among several bets. They differ in size and in the outcome they bet on: the verdict (0 or 1), or the
verdict minus a part of p_wrong, which varies less where p_wrong is accurate. With an inaccurate p_wrong, the interval
is wider, and its coverage is still guaranteed.
"""

from typing import NamedTuple

import numpy as np

from errata.core.checks import Floats
from errata.core.exact_bounds import Counts


class Bet(NamedTuple):
    """A bet on every draw. weight: its share of the money. size: as a part of the largest bet that cannot lose more.

    assistance: which part of p_wrong is subtracted from the verdict.
    """

    assistance: float
    size: float
    weight: float


# Chosen on digits with 5 % wrong labels, Satellite with 20 % and Adult with 1 and 20 %, for narrow intervals after 30
# to 300 draws. The first bet is the best one if no draw is wrong, so it has most of the money.
UPPER_BETS = tuple(
    Bet(assistance, size, share * weight)
    for assistance, share in ((0.0, 0.6), (0.5, 0.2), (1.0, 0.2))
    for size, weight in (
        (1, 0.4),
        (0.75, 0.1),
        (0.5, 0.1),
        (0.3, 0.1),
        (0.17, 0.1),
        (0.1, 0.1),
        (0.05, 0.05),
        (0.02, 0.05),
    )
)
LOWER_BETS = (
    *(Bet(0.0, size, 1 / 12) for size in (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)),
    *(Bet(1.0, size, 1 / 8) for size in (0.8, 0.4, 0.2, 0.1)),
)


class RandomDraws(NamedTuple):
    """The n random draws of a review in the order of their verdicts, and what was known just before each.

    p_range: the lowest and highest p_wrong of all samples. wrong (n,): 1 if the label was judged wrong, else 0.
    p_wrong (n,): the model's probability of that. known_wrong (n,): how many labels had been judged wrong before.
    unknown (n,): how many samples nobody had judged. p_unknown (n,): the sum of p_wrong over these.
    """

    p_range: tuple[float, float]
    wrong: Floats
    p_wrong: Floats
    known_wrong: Floats
    unknown: Floats
    p_unknown: Floats


def highest_total(draws: RandomDraws, fewest: int, most: int, risk: float) -> int:
    """The largest total number of wrong labels between `fewest` and `most` that no look at the draws excludes."""
    low, high = fewest, most
    while len(draws.wrong) and low < high:
        middle = (low + high + 1) // 2
        low, high = (low, middle - 1) if _excluded(draws, middle, risk, upper=True) else (middle, high)
    return high


def lowest_total(draws: RandomDraws, fewest: int, most: int, risk: float) -> int:
    """The smallest total number of wrong labels between `fewest` and `most` that no look at the draws excludes."""
    low, high = fewest, most
    while len(draws.wrong) and low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if _excluded(draws, middle, risk, upper=False) else (low, middle)
    return low


def _excluded(draws: RandomDraws, total: int, risk: float, *, upper: bool) -> bool:
    """Whether the wealth of the gambler who bets against `total` ever reached 1 / risk."""
    return bool(log_wealth(draws, total, upper=upper).max() >= -np.log(risk))


def log_wealth(draws: RandomDraws, total: int | Counts, *, upper: bool) -> Floats:
    """The logarithm (n,) of the wealth after each draw, of a gambler who starts with 1 and bets against `total`.

    upper: bet that the total is smaller; the wealth grows with `total`, so bisection finds the bound. Otherwise, bet
    that it is larger; the wealth falls. For R reviews at once, pass columns (R, 1, n) of draws and totals
    (R, 1, 1): the result is (R, n).
    """
    bets = UPPER_BETS if upper else LOWER_BETS
    assistance, size, weight = (np.array(column)[:, None] for column in zip(*bets, strict=True))
    rate, p_mean = (total - draws.known_wrong) / draws.unknown, draws.p_unknown / draws.unknown
    surplus = draws.wrong - rate - assistance * (draws.p_wrong - p_mean)  # the outcome minus its mean under `total`
    mean, (p_low, p_high) = rate - assistance * p_mean, draws.p_range
    # The largest surplus (or deficit) that a sample could have: a bet of size 1 loses everything there.
    room = 1 - assistance * p_low - mean if upper else mean + assistance * p_high
    gain = np.divide(-surplus if upper else surplus, room, out=np.zeros(surplus.shape), where=room > 1e-12)
    with np.errstate(divide="ignore"):
        paths = np.log(np.maximum(1 + size * gain, 0)).cumsum(axis=-1) + np.log(weight)
    highest = np.maximum(paths.max(axis=-2), -1e9)  # not infinite if every bet is lost
    with np.errstate(divide="ignore"):
        return np.asarray(highest + np.log(np.exp(paths - highest[..., None, :]).sum(axis=-2)))
