"""Signs that the features of a model have memorised labels, which need no truth.

The mean over a run knows many a wrong label as such. A model that memorises late comes round to it in the end; one that
has memorised throughout leaves few in doubt, and of these the features know the label already. Either way they put the
sample among those that bear the label rightly, and neighbours there only repeat it.
"""

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Labels
from errata.core.neighbourhood import Space, votes
from errata.core.windows import Window

Classes = NDArray[np.int64]

LATE = 0.19
"""Labels that a run came round to: 0.15 at most where features helped, 0.23 or more where a late end did harm."""
THROUGHOUT = 0.6
"""Neighbours that side with the label: about a half at most where features helped, 0.73 or more where nothing did."""


def last_quarter(epochs: int) -> Window:
    """The epochs at the end of a run by which it is known what it came round to: one of them could be a wild one."""
    return epochs - max(1, epochs // 4), epochs - 1


def features_have_memorised(mean: Classes, late: Classes, labels: Labels, space: Space) -> bool:
    """Whether neighbours in the features should not be asked.

    mean, late: predicted classes (N,), by probabilities averaged over the run and over its last quarter.
    """
    return come_round(mean, late, labels) > LATE or siding_with_labels(mean, labels, space) > THROUGHOUT


def come_round(mean: Classes, late: Classes, labels: Labels) -> float:
    """Of the labels (N,) that the mean of a run does not predict, how many more its late epochs do, as a share."""
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
