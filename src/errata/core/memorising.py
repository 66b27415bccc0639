"""Has this run memorised its labels? The rule uses only the model's predictions, no true labels.

At the end, a model that memorises predicts wrong labels that it rejected before. Two things become unreliable:

1. The features. They place a mislabelled sample among correct samples of the wrong class, and its neighbours then
   confirm the wrong label. The features have memorised the labels if both statistics exceed their limits:
   - late fit: (labels predicted by late epochs - labels predicted by the mean over the run) / (labels that the
     mean does not predict);
   - label reversals: of the labels that the earlier epochs ruled out, the share that late epochs predict.
   The first is not enough. If few labels are wrong, most labels that the mean does not predict are correct but hard,
   and a model that still learns fits them late. But it was undecided about them before, and had not ruled them out.
2. The late epochs. They have memorised labels if the share of confident reversals exceeds its limit: of the labels
   that the earlier epochs confidently rejected, the share that the late epochs predict (`reversal_counts`).

If logits are stored, the late epochs are the last quarter of the run: the epochs after round(0.75 E). Of two epochs, it
is the second. Running sums have no quarters: there a straight line is fitted through the probabilities of all epochs.
Its value at the end of the run stands for the late epochs, its value at 1/4 of the run for the earlier ones.

A model that memorises from the start rejects too few labels to be recognised; its features are used.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from errata.core.checks import Floats, Labels

Classes = NDArray[np.int64]
Counts = NDArray[np.int64]

# All constants of the rule. The evidence is described in results/research/README.md; the runs are beside it: signs.csv,
# memorised/signs.csv, memorising.csv, learning.csv and learning-images.csv.
# "CNNs": cnn9 on CIFAR with 20 % wrong labels or more; its features help.
# "Transformers": on CIFAR-10 with 20 % symmetric noise, and on CIFAR-10N; their features do harm.
# "Learners": cnn9 on CIFAR-10 with 2 and 5 % wrong labels, which memorises nothing; its features help.

LATE_FIT_LIMIT = 0.19
"""Above this, the late fit by quarters is a sign of memorised features.

Measured: CNNs 0.15 at most, transformers 0.22 or more. Learners have 0.41 and 0.29, so a second sign is needed.
"""

LATE_FIT_LIMIT_OF_SUMS = 1 / 6
"""The same by the fitted line. Measured: CNNs 0.14 at most, transformers 0.18 or more."""

RULED_OUT_RATIO = 8.0
"""A label is ruled out if another class is more than this many times as likely."""

REVERSALS_LIMIT = 0.03
"""Above this, the share of label reversals is the second sign of memorised features.

Measured: learners 0.003 at most (by the fitted line 0.011), transformers 0.04 or more (0.07), and runs that
exceed LATE_FIT_LIMIT without memorising 0.02 at most.
"""

CONFIDENT_OTHER, CONFIDENT_LABEL = 0.6, 0.2
"""A label is confidently rejected if another class has a probability above the first and the label below the second."""

CONFIDENT_REVERSALS_LIMIT = 0.1
"""Above this, the share of confident reversals shows that late epochs have memorised labels.

Measured: runs that only learned have 0.1 at most, runs that memorised more. CONFIDENT_OTHER, CONFIDENT_LABEL and this
limit were chosen on four tables trained until they memorise, and on the transformers.
"""

FEWEST_REJECTED = 10
"""With fewer rejected labels, a share of them is too uncertain and counts as 0."""

UNSEEN = 1e-9
"""A sample whose summed probability grows by a smaller share than this in a part of a run was not recorded in it."""


class Memorisation(NamedTuple):
    """Which parts of a run have memorised labels: its features, its late epochs."""

    features: bool
    late_epochs: bool


def counts_of_logits(log_sums: NDArray[Any], labels: Labels) -> Counts:
    """What `from_counts` needs of some samples of a run whose logits are stored (6,).

    log_sums: (N, 2, K), logarithms of the probabilities summed over the first three quarters, and over all epochs
    (errata.core.aggregations.LastQuarter). A run of one epoch has no quarters and is (N, 1, K).
    """
    mean_classes, part_classes = predicted_classes(log_sums)
    before, late_classes = log_sums[:, 0], part_classes[-1]
    of_features = feature_counts(np.exp(before), mean_classes[-1], late_classes, labels)
    return np.concatenate([of_features, reversal_counts(before, late_classes, labels)])


def counts_of_sums(log_mean: Floats, log_ramp: Floats, labels: Labels) -> Counts:
    """What `from_counts` needs of some samples of running sums (6,). Arguments: see `fitted_line`.

    The last two counts are 0, as no epoch can be left out.
    """
    before, end = (fitted_line(log_mean, log_ramp, position) for position in (1 / 4, 1.0))
    of_features = feature_counts(before, log_mean.argmax(axis=1), end.argmax(axis=1), labels)
    return np.concatenate([of_features, np.zeros(2, np.int64)])


def from_counts(counts: Counts, late_fit_limit: float = LATE_FIT_LIMIT) -> Memorisation:
    """The rule, from counts (6,), which are the sums of those of all parts of a run.

    late_fit_limit: LATE_FIT_LIMIT_OF_SUMS for running sums.
    """
    features = late_fit_share(counts[:2]) > late_fit_limit and reversed_share(counts[2:4]) > REVERSALS_LIMIT
    return Memorisation(features, reverses(counts[4:]))


def feature_counts(before: Floats, mean_classes: Classes, late_classes: Classes, labels: Labels) -> Counts:
    """The counts (4,) of the late fit and of the label reversals: see `late_fit_share` and `reversed_share`.

    before: probabilities (N, K) of the earlier part of the run; rows need not be normalised. mean_classes,
    late_classes: classes (N,) predicted by the mean over the run and by its late part.
    """
    fit = fit_counts(mean_classes, late_classes, labels)
    return np.concatenate([fit, _counts(ruled_out(before, labels), late_classes, labels)])


def fit_counts(mean_classes: Classes, late_classes: Classes, labels: Labels) -> Counts:
    """How many labels the mean does not predict, and how many more the late part predicts than the mean: (2,)."""
    gained = int((late_classes == labels).sum()) - int((mean_classes == labels).sum())
    return np.array([(mean_classes != labels).sum(), gained])


def late_fit_share(counts: Counts) -> float:
    """From `fit_counts`: of the labels that the mean over a run does not predict, the share that its late part gains.

    Gains: labels that the late part predicts, minus those that the mean predicts. It may be negative.
    """
    unpredicted, gained = counts.tolist()
    return gained / unpredicted if unpredicted else 0.0


def ruled_out(before: Floats, labels: Labels) -> NDArray[np.bool_]:
    """True (N,) where another class is more than 8 times as likely as the label. Rows (N, K) need not be normalised."""
    return np.asarray(before.max(axis=1) > RULED_OUT_RATIO * before[np.arange(len(labels)), labels])


def reversal_counts(log_sums: NDArray[Any], late_classes: Classes, labels: Labels) -> Counts:
    """How many labels (N,) were confidently rejected, and how many of these are predicted late: (2,).

    log_sums: logarithms of the probabilities (N, K) summed over the earlier epochs. Counts of parts of a run can be
    added.
    """
    before = softmax(log_sums, axis=1)
    rejected = (before.max(axis=1) > CONFIDENT_OTHER) & (before[np.arange(len(labels)), labels] < CONFIDENT_LABEL)
    return _counts(rejected, late_classes, labels)


def reverses(counts: Counts) -> bool:
    """Whether the late part of a run must be left out, from its `reversal_counts`."""
    return reversed_share(counts) > CONFIDENT_REVERSALS_LIMIT


def _counts(rejected: NDArray[np.bool_], late_classes: Classes, labels: Labels) -> Counts:
    return np.array([rejected.sum(), (late_classes == labels)[rejected].sum()])


def reversed_share(counts: Counts) -> float:
    """Of the rejected labels, the share that is predicted late; 0 if there are too few of them."""
    rejected, predicted = counts.tolist()
    return predicted / rejected if rejected >= FEWEST_REJECTED else 0.0


def predicted_classes(log_sums: NDArray[Any]) -> tuple[Classes, Classes]:
    """Classes (P, N) predicted by the mean over each of P windows, and by the part that each adds to the one before.

    log_sums: logarithms of the probabilities (N, P, K) summed over windows that all start at the first epoch. A sample
    that was not recorded in a part has the class that was predicted until then.
    """
    samples, windows, classes = log_sums.shape
    mean_classes, added_classes = np.empty((2, windows, samples), dtype=np.int64)
    before = np.zeros((samples, classes))
    for window in range(windows):
        until_now = np.exp(log_sums[:, window].astype(np.float64))
        part = until_now - before
        recorded = part.max(axis=1) > UNSEEN * until_now.max(axis=1)
        mean_classes[window] = until_now.argmax(axis=1)
        added_classes[window] = np.where(recorded, part.argmax(axis=1), mean_classes[window])
        before = until_now
    return mean_classes, added_classes


def fitted_line(log_mean: Floats, log_ramp: Floats, position: float) -> Floats:
    """Probabilities (N, K) at a position of the run (0 to 1) on the least-squares line through those of all epochs.

    log_mean, log_ramp: logarithms (N, K) of the probabilities averaged with equal weights, and with weights 1, 2, 3,
    ...; the line needs nothing else. Values below 0 become 0.
    """
    mean, ramp = np.exp(log_mean), np.exp(log_ramp)
    return np.asarray(np.maximum(4 * mean - 3 * ramp + 6 * position * (ramp - mean), 0))
