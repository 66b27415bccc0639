"""The early window: how many epochs of a run EarlyProb uses; all of them if the model does not memorise labels.

A model first learns what samples have in common, and memorises single labels later. Candidate windows start at the
first epoch and end at one of FRACTIONS of the run. Two rules choose one window for the whole run; neither needs true
labels.

1. With held-out predictions h (errata.core.pooling): how well the mean prediction over a window agrees with them, as
   the mean over samples of sum_c h(c) log p(c). This rises while the model learns and falls when it memorises labels
   that models without the sample do not predict. The best window is used; of equal ones, the longest. If h hardly
   predicts labels better than their frequencies do, rule 2 is used: h would favour windows with uncertain predictions.
2. From the run alone: start with the whole run. While the last part of the window reverses confident rejections of the
   epochs before it (errata.core.memorising), use the next shorter window. A class that is learned late causes the
   same signal. So stop if, for some class, the shorter window would predict fewer than half as many given labels as the
   last part of the run does.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from errata.core._confident_kernels import exact_sum
from errata.core.checks import Floats, Labels
from errata.core.memorising import Counts, predicted_classes, reversal_counts, reverses
from errata.core.pooling import held_out_pool
from errata.core.sample_context import SampleContext

FRACTIONS = (1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0)
"""The parts of a run that are candidate windows."""
INFORMATIVE_LOSS = 0.8
"""Held-out predictions are used if their log loss is at most this share of the loss of guessing."""
LOWEST_LOG_PROBABILITY_OF_RUN = -30.0
"""Lower values are raised to this one, so that a single sample that is confidently wrong does not decide."""


def window_ends(epochs: int) -> list[int]:
    """The ends of the candidate windows of a run, as numbers of epochs; each once."""
    return sorted({max(1, round(fraction * epochs)) for fraction in FRACTIONS})


def choose_window(log_sums: NDArray[Any], labels: Labels, context: SampleContext) -> int:
    """Which of P candidate windows to use, from 0 to P - 1.

    log_sums: logarithms of the probabilities (N, P, K) summed over each window. Features are not used, because they
    have been trained on the labels.
    """
    held_out = held_out_pool(labels, log_sums.shape[2], context)
    chosen = None if held_out is None else closest_window(*held_out_sums(log_sums, labels, held_out))
    return before_reversals(*window_counts(log_sums, labels)) if chosen is None else chosen


def loss_of_guessing(sizes: Counts) -> float:
    """The log loss of predicting every label by its frequency, from the sizes of the classes (K,)."""
    from scipy.stats import entropy

    return float(entropy(sizes))


def held_out_sums(log_sums: NDArray[Any], labels: Labels, held_out: Floats) -> tuple[NDArray[Any], Counts]:
    """What rule 1 needs of held-out log-probabilities (N, K). Both results of parts of a run can be added.

    (P + 1,), fractions: the sum over samples of the agreement of each window, and the sum of the log losses of the
    labels. (K,): the sizes of the classes.
    """
    probabilities = np.exp(held_out)
    agreement = [
        exact_sum((probabilities * np.maximum(log_softmax(window, axis=1), LOWEST_LOG_PROBABILITY_OF_RUN)).sum(axis=1))
        for window in log_sums.transpose(1, 0, 2).astype(np.float64)
    ]
    loss = -exact_sum(held_out[np.arange(len(labels)), labels])
    return np.array([*agreement, loss], dtype=object), np.bincount(labels, minlength=log_sums.shape[2])


def closest_window(sums: NDArray[Any], sizes: Counts) -> int | None:
    """The window of rule 1, from the `held_out_sums` of all samples; None if held-out predictions know too little."""
    *agreement, loss = (float(total / int(sizes.sum())) for total in sums)
    if loss > INFORMATIVE_LOSS * loss_of_guessing(sizes):
        return None
    last: int = len(agreement) - 1
    return last - int(np.argmax(agreement[::-1]))


def window_counts(log_sums: NDArray[Any], labels: Labels) -> tuple[Counts, Counts, Counts]:
    """The counts over all samples that rule 2 uses. Counts of parts of a run can be added.

    (P, 2): the `reversal_counts` of the part that each window adds to the one before; 0 for the first. (P, K): how many
    labels of each class the mean over each window predicts. (K,): the same for the last part.
    """
    mean_classes, added_classes = predicted_classes(log_sums)
    classes = log_sums.shape[2]
    reversals = [
        reversal_counts(log_sums[:, window - 1], added_classes[window], labels) if window else np.zeros(2, np.int64)
        for window in range(len(mean_classes))
    ]
    *predicted, late = (
        np.bincount(labels[predictions == labels], minlength=classes)
        for predictions in (*mean_classes, added_classes[-1])
    )
    return np.array(reversals), np.array(predicted), late


def before_reversals(reversals: Counts, predicted: Counts, late: Counts) -> int:
    """The window of rule 2, from the `window_counts` of all samples."""
    window = len(reversals) - 1
    while window > 0 and reverses(reversals[window]):
        if (predicted[window - 1] < late / 2).any():  # the shorter window loses a class
            break
        window -= 1
    return window
