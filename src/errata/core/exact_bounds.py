"""Exact bounds on the number of wrong labels in a finite set, from a random sample of it without replacement."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.core.checks import Floats

Counts = NDArray[np.int64]
MOST_NUMBERS = 400  # numbers of wrong labels in the first of two sets that are tried


class Sampled(NamedTuple):
    """A set of `size` samples: `checked` random ones were judged, and `wrong` of the judged labels are wrong."""

    size: int
    checked: int
    wrong: int

    def swapped(self) -> "Sampled":
        """The same with right and wrong exchanged."""
        return Sampled(self.size, self.checked, self.checked - self.wrong)


def most_wrong(size: ArrayLike, checked: ArrayLike, wrong: ArrayLike, risk: ArrayLike) -> Counts:
    """The largest plausible number of wrong labels in a set of `size`, after a random sample of it was checked.

    checked: the size of the sample. wrong: the wrong labels in it. A number is plausible if it gives at most `wrong`
    wrong labels in the sample with a (hypergeometric) probability above `risk`. The true number is larger with
    probability `risk` at most. Arrays are broadcast.
    """
    levels = np.asarray(risk, dtype=np.float64)
    shape = np.broadcast_shapes(*(np.shape(value) for value in (size, checked, wrong, levels)))
    size, checked, wrong = (np.broadcast_to(np.asarray(value, np.int64), shape) for value in (size, checked, wrong))
    low, high = wrong, size - (checked - wrong)  # with `low` wrong labels, all of them are in the sample
    while (low < high).any():
        middle = (low + high + 1) // 2
        plausible = at_most(size, checked, wrong, middle) > levels
        low, high = np.where(plausible, middle, low), np.maximum(low, np.where(plausible, high, middle - 1))
    return np.asarray(low)


def fewest_wrong(size: ArrayLike, checked: ArrayLike, wrong: ArrayLike, risk: ArrayLike) -> Counts:
    """The smallest plausible number of wrong labels: the true number is smaller with probability `risk` at most."""
    size, checked, wrong = (np.asarray(value, np.int64) for value in (size, checked, wrong))
    return np.asarray(size - most_wrong(size, checked, checked - wrong, risk))


@lru_cache(maxsize=4096)
def most_wrong_of_two(first: Sampled, second: Sampled, risk: float) -> int:
    """The largest plausible number of wrong labels in two sets together, from a random sample of each.

    A pair of numbers is plausible if Fisher's combination of both exact p-values is above `risk`. This is narrower than
    one sample of the whole if nearly all labels of one set are wrong, and nearly all of the other right.
    """
    from scipy.stats import chi2

    product = np.exp(-chi2.isf(risk, 4) / 2)
    low, high = first.wrong, first.size - first.checked + first.wrong
    numbers = np.unique(np.linspace(low, high, MOST_NUMBERS).astype(np.int64))
    p_value = at_most(first.size, first.checked, first.wrong, numbers)
    # Between two of the numbers, the p-value is at most that of the lower one, and the number less than the upper one.
    upper = np.append(numbers[1:] - 1, high)[p_value > product]
    others = most_wrong(second.size, second.checked, second.wrong, product / p_value[p_value > product])
    return int((upper + others).max())


def fewest_wrong_of_two(first: Sampled, second: Sampled, risk: float) -> int:
    """The smallest plausible number of wrong labels in two sets together, as in `most_wrong_of_two`."""
    return first.size + second.size - most_wrong_of_two(first.swapped(), second.swapped(), risk)


def at_most(size: ArrayLike, checked: ArrayLike, wrong: ArrayLike, number: ArrayLike) -> Floats:
    """The probability of at most `wrong` wrong labels in a sample, if `number` of the whole set are wrong."""
    from scipy.stats import hypergeom

    return np.asarray(hypergeom.cdf(wrong, size, number, checked))


def checks_needed(size: int, checked: int, wrong: int, allowed: int, risk: float) -> int:
    """How many more checks, all with right labels, show that at most `allowed` labels of the others are wrong.

    size, checked, wrong: as in `most_wrong`. 0 if the bound already holds.
    """
    low, high = 0, size - checked
    while low < high:
        middle = (low + high) // 2
        bounded = int(most_wrong(size, checked + middle, wrong, risk)) - wrong <= allowed
        low, high = (low, middle) if bounded else (middle + 1, high)
    return low
