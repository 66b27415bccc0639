"""The early window: how much of a run counts where its model ends by memorising labels.

A model learns what samples have in common first and single labels by heart later. Two witnesses, neither of which needs
any truth, tell where that begins.

The labels of a sample's neighbours are no labels of its own: how well its mean prediction foretells them rises while
the model learns, and falls once it memorises. They are asked only where a majority of them bear one label, and only if
such places are clearly more than chance would make: neighbours that are of other classes prefer predictions that say
little.

Where they cannot be asked, the run itself tells. A sample that is hard is long undecided and then learned; only a model
that memorises turns against what it was convinced of. While the last part of a run does so for many samples, that part
is left out. A class that is learned late looks the same, so none may lose most of its labels.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Floats, Labels
from errata.core.memorising import predicted_after_all
from errata.core.neighbourhood import Space, votes

SHARES = (1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0)
"""The shares of a run that are tried, from its first epoch on."""
ASKED = 10
BEYOND_CHANCE = 0.2  # how far the share of samples with a majority must be on the way from what chance makes it to all
NOTHING = 1e-9  # of the probabilities of a share, beyond what rounding leaves of a part in which a sample was not seen
CONVINCED, HARDLY = 0.6, 0.2  # the probability of another class is larger, and that of the label smaller
TURNED = 0.1
"""Of the labels that a model was convinced to be wrong, the share that it came round to: 0.1 at most where it only
learned, beyond where it memorised."""
NO_SURER = -30.0  # so that one sample of which a model is wrongly sure does not decide


def ends(epochs: int) -> list[int]:
    """Where the shares of a run of so many epochs end, each epoch at most once."""
    return sorted({max(1, round(share * epochs)) for share in SHARES})


def best_share(log_sums: NDArray[Any], labels: Labels, space: Space) -> int:
    """Which of P shares of a run counts, from logarithms of the probabilities (N, P, K) summed over each.

    The one that foretells neighbours' labels best, where there are any to ask, and else the one before the model turns
    against its convictions. Neighbours are sought in the inputs, as features have been learned with the labels.
    """
    told = _foretelling_best(log_sums, labels, space) if "inputs" in space.points else None
    return _before_turning(log_sums, labels) if told is None else told


def _foretelling_best(log_sums: NDArray[Any], labels: Labels, space: Space) -> int | None:
    """The share that foretells neighbours' labels best, of equal ones the longest; None if these are as by chance."""
    from scipy.special import log_softmax

    shares, classes = log_sums.shape[1:]
    near = space.nearest("inputs", ASKED)
    told = np.flatnonzero(votes(labels, near, classes).max(axis=1) > near.shape[1] / 2)
    chance = _by_chance(labels, near.shape[1])
    if len(told) / len(labels) < chance + BEYOND_CHANCE * (1 - chance):
        return None
    foretold = [_foretold(log_softmax(log_sums[told, share], axis=1), labels[near[told]]) for share in range(shares)]
    whole: int = shares - 1
    return whole - int(np.argmax(foretold[::-1]))


def _before_turning(log_sums: NDArray[Any], labels: Labels) -> int:
    """The longest share whose last part turns against few of the convictions that the model had before."""
    mean, added = predicted(log_sums)
    share = len(mean) - 1
    while share > 0 and turned(log_sums[:, share - 1], added[share], labels) > TURNED:
        if _forgets_a_class(mean[share - 1] == labels, added[-1] == labels, labels):
            break
        share -= 1
    return share


def turned(log_sums: NDArray[Any], late: Labels, labels: Labels) -> float:
    """Of the samples whose label a model was convinced to be wrong, the share whose label it predicts later.

    log_sums: logarithms of the probabilities (N, K) summed until then; late: the classes (N,) predicted later. 0 where
    the model was convinced of too few to tell.
    """
    from scipy.special import softmax

    before = softmax(log_sums, axis=1)
    convinced = (before.max(axis=1) > CONVINCED) & (before[np.arange(len(labels)), labels] < HARDLY)
    return predicted_after_all(convinced, late, labels)


def predicted(log_sums: NDArray[Any]) -> tuple[Labels, Labels]:
    """Classes (P, N) by the mean over each share, and by the part that it adds to the share before.

    Of a sample that was not seen in a part, what was predicted until then.
    """
    samples, shares, classes = log_sums.shape
    mean, added = np.empty((2, shares, samples), dtype=np.int64)
    before = np.zeros((samples, classes))
    for share in range(shares):
        until_now = np.exp(log_sums[:, share].astype(np.float64))
        part = until_now - before
        seen = part.max(axis=1) > NOTHING * until_now.max(axis=1)
        mean[share] = until_now.argmax(axis=1)
        added[share] = np.where(seen, part.argmax(axis=1), mean[share])
        before = until_now
    return mean, added


def _forgets_a_class(shorter: NDArray[np.bool_], late: NDArray[np.bool_], labels: Labels) -> bool:
    """Whether the shorter share predicts less than half as many labels (N,) of a class as the end of the run does."""
    left, known = (np.bincount(labels, weights=believed) for believed in (shorter, late))
    return bool((left < known / 2).any())


def _by_chance(labels: Labels, asked: int) -> float:
    """The share of samples with a majority among their neighbours if these were drawn at random."""
    from scipy.stats import binom

    return float(binom.sf(asked // 2, asked, np.bincount(labels) / len(labels)).sum())


def _foretold(log_probabilities: NDArray[Any], around: Labels) -> float:
    """The mean logarithm of the probability that rows (n, K) give to the labels (n, k) around them."""
    given: Floats = np.take_along_axis(log_probabilities, around, axis=1)
    return float(np.maximum(given, NO_SURER).mean(dtype=np.float64))
