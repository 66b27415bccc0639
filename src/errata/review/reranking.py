"""Rank the samples again after some verdicts, without training.

`errata.core.recalibration` corrects the level of p_wrong by the random part; this changes the order, by the verified
labels of neighbours. Both fit the same kind of curve.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from errata.core.recalibration import logistic_weights

SMALLEST = 1e-4  # probabilities are at least this far from 0 and 1
NEIGHBOURS = 10
# The prior: log odds = 0 + 1 * (log odds of p_wrong) + 2 * (disagreement of verified neighbours), as if nothing was
# judged yet, with these standard deviations.
PRIOR = np.array([0.0, 1.0, 2.0])
DEVIATIONS = np.array([2.0, 0.5, 1.0])


@dataclass(frozen=True, eq=False)
class JudgedLabels:
    """The verdicts so far: rows (n,) of the samples, and the class (n,) that each has according to its reviewer.

    A class that no sample was labelled with has a number of its own, beyond those of the given labels.
    """

    rows: NDArray[np.int64]
    classes: NDArray[np.int64]


def reranked(
    p_wrong: NDArray[np.float64],
    labels: NDArray[np.int64],
    judged: JudgedLabels,
    near: NDArray[np.int32] | None = None,
) -> NDArray[np.float64]:
    """The probability (N,) that each label is wrong, given the verdicts.

    p_wrong (N,): the estimate before any verdict. labels (N,): the given classes. near (N, k): the nearest neighbours
    of every sample, or None. A logistic curve is fitted to the verdicts on the log odds of p_wrong and on how far
    verified neighbours contradict the label. Without verdicts the order is that of p_wrong.
    """
    clipped = np.clip(p_wrong, SMALLEST, 1 - SMALLEST)
    features = np.column_stack([np.ones(len(labels)), logit(clipped), _contradiction(labels, judged, near)])
    wrong = (judged.classes != labels[judged.rows]).astype(np.float64)
    weights = logistic_weights(features[judged.rows], wrong, PRIOR, DEVIATIONS)
    probabilities: NDArray[np.float64] = expit(features @ weights)
    return probabilities


def _contradiction(
    labels: NDArray[np.int64], judged: JudgedLabels, near: NDArray[np.int32] | None
) -> NDArray[np.float64]:
    """Between -1 (verified neighbours have the given label) and 1 (they have others), (N,); 0 without neighbours."""
    if near is None or near.shape[1] == 0 or not len(judged.rows):
        return np.zeros(len(labels))
    verified = np.full(len(labels), -1)
    verified[judged.rows] = judged.classes
    classes = verified[near]
    known = classes >= 0
    equal = ((classes == labels[:, None]) & known).sum(axis=1)
    count = known.sum(axis=1)
    share: NDArray[np.float64] = (count - 2 * equal) / (count + 1)
    return share
