"""The early window: how many epochs of a run are used if the model memorises labels at the end.

A model first learns what samples have in common, and memorises single labels later. Candidate windows start at the
first epoch and end at one of FRACTIONS of the run. Two rules choose one window for the whole run; neither needs true
labels.

1. With neighbours in the inputs: how well the mean prediction over a window predicts the labels of all 10 neighbours of
   a sample, as a mean log-probability. This rises while the model learns and falls when it memorises. The best window
   is used; of equal ones, the longest. Only samples count that have a majority label among their neighbours (more than
   half). If such samples are hardly more frequent than with random neighbours, the inputs carry no information about
   the classes, and rule 2 is used: neighbours of other classes would favour windows with uncertain predictions.
2. From the run alone: start with the whole run. While the last part of the window reverses confident rejections of the
   epochs before it (errata.core.memorising), use the next shorter window. A class that is learned late causes the
   same signal. So stop if, for some class, the shorter window would predict fewer than half as many given labels as the
   last part of the run does.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from errata.core.checks import Floats, Labels
from errata.core.memorising import predicted_classes, reverses_confident_rejections
from errata.core.neighbours import NeighbourSpaces, label_votes

FRACTIONS = (1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0)
"""The parts of a run that are candidate windows."""
NEIGHBOURS = 10
REQUIRED_EXCESS_OVER_CHANCE = 0.2
"""(share - chance) / (1 - chance) of the samples with a majority label must reach this."""
LOWEST_LOG_PROBABILITY = -30.0
"""Lower values are cut, so that one sample that is confidently wrong does not decide."""


def window_ends(epochs: int) -> list[int]:
    """The ends of the candidate windows of a run, as numbers of epochs; each once."""
    return sorted({max(1, round(fraction * epochs)) for fraction in FRACTIONS})


def choose_window(log_sums: NDArray[Any], labels: Labels, spaces: NeighbourSpaces) -> int:
    """Which of P candidate windows to use, from 0 to P - 1.

    log_sums: logarithms of the probabilities (N, P, K) summed over each window. Neighbours in the features are not
    used, because features have been trained on the labels.
    """
    chosen = _best_for_neighbours(log_sums, labels, spaces) if "inputs" in spaces.points else None
    return _before_reversals(log_sums, labels) if chosen is None else chosen


def _best_for_neighbours(log_sums: NDArray[Any], labels: Labels, spaces: NeighbourSpaces) -> int | None:
    """The window that predicts neighbours' labels best; None if too few samples have a majority label around them."""
    windows, classes = log_sums.shape[1:]
    near = spaces.nearest("inputs", NEIGHBOURS)
    rows = np.flatnonzero(label_votes(labels, near, classes).max(axis=1) > near.shape[1] / 2)
    chance = _majority_by_chance(labels, near.shape[1])
    if len(rows) / len(labels) < chance + REQUIRED_EXCESS_OVER_CHANCE * (1 - chance):
        return None
    fit = [_neighbour_fit(log_softmax(log_sums[rows, window], axis=1), labels[near[rows]]) for window in range(windows)]
    last: int = windows - 1
    return last - int(np.argmax(fit[::-1]))


def _neighbour_fit(log_probabilities: NDArray[Any], neighbour_labels: Labels) -> float:
    """The mean log-probability that rows (n, K) give to the labels (n, k) of their neighbours."""
    values: Floats = np.take_along_axis(log_probabilities, neighbour_labels, axis=1)
    return float(np.maximum(values, LOWEST_LOG_PROBABILITY).mean(dtype=np.float64))


def _majority_by_chance(labels: Labels, neighbours: int) -> float:
    """The share of samples with a majority label among their neighbours if these were drawn at random."""
    from scipy.stats import binom

    return float(binom.sf(neighbours // 2, neighbours, np.bincount(labels) / len(labels)).sum())


def _before_reversals(log_sums: NDArray[Any], labels: Labels) -> int:
    """The window of rule 2."""
    mean_classes, added_classes = predicted_classes(log_sums)
    window = len(mean_classes) - 1
    while window > 0 and reverses_confident_rejections(log_sums[:, window - 1], added_classes[window], labels):
        if _loses_a_class(mean_classes[window - 1] == labels, added_classes[-1] == labels, labels):
            break
        window -= 1
    return window


def _loses_a_class(shorter: NDArray[np.bool_], late: NDArray[np.bool_], labels: Labels) -> bool:
    """Whether the shorter window predicts less than half as many labels (N,) of a class as the end of the run does."""
    left, at_end = (np.bincount(labels, weights=predicted) for predicted in (shorter, late))
    return bool((left < at_end / 2).any())
