"""How often two or more reviewers agree, and how far beyond chance: Cohen's and Fleiss' kappa, with intervals."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

DEVIATIONS = 1.959963984540054  # standard deviations of a 95 % interval


@dataclass(frozen=True)
class Kappa:
    """The agreement beyond chance: 1 is always, 0 is as often as by chance.

    low, high: a 95 % interval for many samples; None if all verdicts are equal or there are fewer than two samples, in
    which case the formula gives no width. name: Cohen or Fleiss. samples: judged by both. agreed: with equal verdicts.
    share_low, share_high: an exact 95 % interval (Clopper and Pearson) of the share of samples with equal verdicts,
    which always exists.
    """

    value: float
    low: float | None
    high: float | None
    name: str
    samples: int
    agreed: int
    share_low: float = field(init=False)
    share_high: float = field(init=False)

    def __post_init__(self) -> None:
        from scipy.stats import binomtest

        share = binomtest(self.agreed, self.samples).proportion_ci(0.95, method="exact")
        object.__setattr__(self, "share_low", float(share.low))
        object.__setattr__(self, "share_high", float(share.high))


def cohen_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> Kappa:
    """The agreement of two reviewers on the same samples (n,).

    The variance is that of Fleiss, Cohen and Everitt (1969), for kappas other than 0.
    """
    table = _contingency(first, second)
    shares = table / table.sum()
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    observed, chance = float(np.trace(shares)), float(rows @ columns)
    if chance == 1:
        return Kappa(1.0, None, None, "Cohen", len(first), len(first))
    value = (observed - chance) / (1 - chance)
    sums = rows[None, :] + columns[:, None]  # [i, j]: share of j by the first reviewer, of i by the second
    diagonal = (np.diag(shares) * (1 - (rows + columns) * (1 - value)) ** 2).sum()
    off = (shares * sums**2).sum() - (np.diag(shares) * np.diag(sums) ** 2).sum()
    variance = diagonal + (1 - value) ** 2 * off - (value - chance * (1 - value)) ** 2
    deviation = np.sqrt(max(variance, 0) / len(first)) / (1 - chance)
    return _with_interval(value, float(deviation), "Cohen", len(first), round(observed * len(first)))


def fleiss_kappa(ratings: Sequence[tuple[Hashable, ...]]) -> Kappa:
    """The agreement on samples with equally many verdicts each, not always by the same reviewers.

    ratings: the verdicts of each sample. The deviation is the jackknife's: each sample is left out once.
    """
    codes: dict[Hashable, int] = {}
    counts = np.zeros((len(ratings), len({verdict for verdicts in ratings for verdict in verdicts})))
    for sample, verdicts in enumerate(ratings):
        for verdict in verdicts:
            counts[sample, codes.setdefault(verdict, len(codes))] += 1
    value = _fleiss(counts)
    agreed = int((counts.max(axis=1) == counts.sum(axis=1)).sum())
    if agreed == len(ratings) or len(ratings) < 2:
        return Kappa(value, None, None, "Fleiss", len(ratings), agreed)
    left_out = np.array([_fleiss(np.delete(counts, sample, axis=0)) for sample in range(len(counts))])
    deviation = np.sqrt((len(counts) - 1) / len(counts) * ((left_out - left_out.mean()) ** 2).sum())
    return _with_interval(value, float(deviation), "Fleiss", len(ratings), agreed)


def _contingency(first: Sequence[Hashable], second: Sequence[Hashable]) -> NDArray[np.float64]:
    codes = {verdict: code for code, verdict in enumerate(dict.fromkeys([*first, *second]))}
    table = np.zeros((len(codes), len(codes)))
    for one, other in zip(first, second, strict=True):
        table[codes[one], codes[other]] += 1
    return table


def _fleiss(counts: NDArray[np.float64]) -> float:
    """Fleiss' kappa of the number of verdicts per sample and category (n, categories)."""
    per_sample = counts[0].sum()
    observed = ((counts * (counts - 1)).sum(axis=1) / (per_sample * (per_sample - 1))).mean()
    chance = ((counts.sum(axis=0) / counts.sum()) ** 2).sum()
    return 1.0 if chance == 1 else float((observed - chance) / (1 - chance))


def _with_interval(value: float, deviation: float, name: str, samples: int, agreed: int) -> Kappa:
    if agreed == samples or samples < 2:
        return Kappa(value, None, None, name, samples, agreed)
    low, high = max(-1.0, value - DEVIATIONS * deviation), min(1.0, value + DEVIATIONS * deviation)
    return Kappa(value, low, high, name, samples, agreed)
