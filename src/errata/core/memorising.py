"""Signs that the features of a model have memorised labels, which need no truth.

The mean over a run knows many a wrong label as such. A model that memorises late comes round to it in the end; one that
has memorised throughout leaves few in doubt, and of these the features know the label already. Either way they put the
sample among those that bear the label rightly, and neighbours there only repeat it.
"""

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Floats, Labels
from errata.core.neighbourhood import Space, votes

Classes = NDArray[np.int64]

LATE = 0.19
"""Labels that a run came round to: 0.15 at most where features helped, 0.24 or more where a late end did harm."""
LATE_BY_SUMS = 1 / 6
"""The same by where the run is heading, which is all that running sums tell: 0.14 at most, and 0.18 or more."""
THROUGHOUT = 0.6
"""Neighbours that side with the label: about a half at most where features helped, 0.73 or more where nothing did."""


def features_have_memorised(
    mean: Classes, late: Classes, labels: Labels, space: Space, late_line: float = LATE
) -> bool:
    """Whether neighbours in the features should not be asked.

    mean, late: predicted classes (N,), by probabilities averaged over the run and over its last quarter, or where it is
    heading; late_line: how much it may come round to.
    """
    return come_round(mean, late, labels) > late_line or siding_with_labels(mean, labels, space) > THROUGHOUT


def heading_for(log_mean: Floats, log_ramp: Floats) -> Classes:
    """The classes (N,) whose probabilities are largest at the end of a straight line through those of all epochs.

    log_mean, log_ramp: logarithms (N, K) of the probabilities averaged over epochs 1, 2, 3, ... with equal weights, and
    with weights 1, 2, 3, ...; the line that fits best in the sense of least squares ends at 3 ramp - 2 mean.
    """
    return np.asarray((3 * np.exp(log_ramp) - 2 * np.exp(log_mean)).argmax(axis=1))


def come_round(mean: Classes, late: Classes, labels: Labels) -> float:
    """Of the labels (N,) that the mean of a run does not predict, how many more its late epochs do, as a share.

    More, that is without those that only the mean predicts.
    """
    unbelieved = int((mean != labels).sum())
    gained = int((late == labels).sum()) - int((mean == labels).sum())
    return gained / unbelieved if unbelieved else 0.0


def siding_with_labels(mean: Classes, labels: Labels, space: Space) -> float:
    """Of the samples whose label the mean does not predict, the share whose ten nearest in the features side with it.

    They side with what more of them bear, the label or what is predicted; with neither, where as many bear both.
    """
    differ = np.flatnonzero(mean != labels)
    if len(differ) == 0:
        return 0.0
    counts = votes(labels, space.nearest("features", 10)[differ], int(max(mean.max(), labels.max())) + 1)
    rows = np.arange(len(differ))
    sides = np.sign(counts[rows, labels[differ]] - counts[rows, mean[differ]])
    return float((1 + sides).mean() / 2)
