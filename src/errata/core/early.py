"""The early window: how much of a run counts where its model ends by memorising labels.

A model learns what samples have in common first and single labels by heart later. The labels of a sample's neighbours
are no labels of its own: how well its mean prediction foretells them rises while the model learns, and falls once it
memorises. So they tell, without any truth, up to which epoch the mean knows most. They are asked only where a majority
of them bear one label, and only if such places are clearly more than chance would make: neighbours that are of other
classes prefer predictions that say little.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Floats, Labels
from errata.core.neighbourhood import Space, votes

SHARES = (1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0)
"""The shares of a run that are tried, from its first epoch on."""
ASKED = 10
BEYOND_CHANCE = 0.2  # how far the share of samples with a majority must be on the way from what chance makes it to all
NO_SURER = -30.0  # so that one sample of which a model is wrongly sure does not decide


def ends(epochs: int) -> list[int]:
    """Where the shares of a run of so many epochs end, each epoch at most once."""
    return sorted({max(1, round(share * epochs)) for share in SHARES})


def best_share(log_probabilities: NDArray[Any], labels: Labels, space: Space) -> int:
    """Which of P shares of a run foretells neighbours' labels best, from mean log-probabilities (N, P, K) over each.

    The last one, which is the whole run, where nobody can tell: neighbours are sought in the inputs, as features have
    been learned with the labels.
    """
    shares, classes = log_probabilities.shape[1:]
    whole: int = shares - 1
    if "inputs" not in space.points:
        return whole
    near = space.nearest("inputs", ASKED)
    told = np.flatnonzero(votes(labels, near, classes).max(axis=1) > near.shape[1] / 2)
    chance = _by_chance(labels, near.shape[1])
    if len(told) / len(labels) < chance + BEYOND_CHANCE * (1 - chance):
        return whole
    foretold = [_foretold(log_probabilities[told, share], labels[near[told]]) for share in range(shares)]
    return whole - int(np.argmax(foretold[::-1]))


def _by_chance(labels: Labels, asked: int) -> float:
    """The share of samples with a majority among their neighbours if these were drawn at random."""
    from scipy.stats import binom

    return float(binom.sf(asked // 2, asked, np.bincount(labels) / len(labels)).sum())


def _foretold(log_probabilities: NDArray[Any], around: Labels) -> float:
    """The mean logarithm of the probability that rows (n, K) give to the labels (n, k) around them."""
    given: Floats = np.take_along_axis(log_probabilities, around, axis=1)
    return float(np.maximum(given, NO_SURER).mean(dtype=np.float64))
