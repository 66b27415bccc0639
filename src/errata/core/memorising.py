"""Signs that the features of a model have memorised labels, which need no truth.

The mean over a run knows many a wrong label as such. A model that memorises comes round to it in the end, and its
features may put the sample among those that bear the label rightly: neighbours there only repeat it.

A model that still learns comes round to labels as well, to right ones that were hard. But it was undecided before,
while one that memorises takes back what it was sure of. Only both signs together tell. A model that memorised from
early on has ruled out too little to tell anything by, and its features are asked.
"""

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Floats, Labels

Classes = NDArray[np.int64]

LATE = 0.19
"""Labels that a run came round to: 0.15 at most in CNNs on CIFAR with many wrong labels, whose features help, and 0.22
or more in transformers, whose features do harm. Where few are wrong, a run that only learns goes beyond."""
LATE_BY_SUMS = 1 / 6
"""The same by where the run is heading, which is all that running sums tell: 0.14 at most, and 0.18 or more."""
RULED_OUT = 8.0  # times as likely as the label another class was
TAKEN_BACK = 0.03
"""Labels that were ruled out and are predicted in the end: 0.02 at most in runs that came round late and had only
learned, 0.04 or more in those transformers."""
ENOUGH = 10  # labels that were doubted, to tell anything by them


def features_have_memorised(
    before: Floats, mean: Classes, late: Classes, labels: Labels, late_line: float = LATE
) -> bool:
    """Whether neighbours in the features should not be asked.

    before: probabilities (N, K) of the earlier part of a run, rows up to a factor. mean, late: predicted classes (N,),
    by the mean over the run and by its last quarter, or where it is heading; late_line: how much it may come round to.
    """
    return come_round(mean, late, labels) > late_line and taken_back(before, late, labels) > TAKEN_BACK


def come_round(mean: Classes, late: Classes, labels: Labels) -> float:
    """Of the labels (N,) that the mean of a run does not predict, how many more its late epochs do, as a share.

    More, that is without those that only the mean predicts.
    """
    unbelieved = int((mean != labels).sum())
    gained = int((late == labels).sum()) - int((mean == labels).sum())
    return gained / unbelieved if unbelieved else 0.0


def taken_back(before: Floats, late: Classes, labels: Labels) -> float:
    """Of the labels (N,) that a run had ruled out, the share that is predicted late; 0 where these are too few to tell.

    before: probabilities (N, K), rows up to a factor.
    """
    return predicted_after_all(ruled_out(before, labels), late, labels)


def ruled_out(before: Floats, labels: Labels) -> NDArray[np.bool_]:
    """Than which labels (N,) another class was far likelier, by probabilities (N, K), rows up to a factor."""
    return np.asarray(before.max(axis=1) > RULED_OUT * before[np.arange(len(labels)), labels])


def predicted_after_all(doubted: NDArray[np.bool_], late: Classes, labels: Labels) -> float:
    """Of the labels (N,) that were doubted, the share that is predicted late; 0 where these are too few to tell."""
    return float((late == labels)[doubted].mean()) if doubted.sum() >= ENOUGH else 0.0


def on_the_line(log_mean: Floats, log_ramp: Floats, place: float) -> Floats:
    """Probabilities (N, K) at a place of a run, from 0 to 1, on a straight line through those of all epochs.

    log_mean, log_ramp: logarithms (N, K) of the probabilities averaged over epochs 1, 2, 3, ... with equal weights, and
    with weights 1, 2, 3, ...: the line that fits best in the sense of least squares needs no more. It may leave the
    range of probabilities: what is below 0 is 0.
    """
    mean, ramp = np.exp(log_mean), np.exp(log_ramp)
    return np.asarray(np.maximum(4 * mean - 3 * ramp + 6 * place * (ramp - mean), 0))
