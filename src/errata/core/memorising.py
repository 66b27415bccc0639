"""A sign that a model has memorised labels, which needs no truth.

The mean over a run knows many a wrong label as such. A model that memorises comes round to it in the end; then its
features put the sample among those that bear the label rightly, and neighbours there only repeat it.
"""

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Labels

MUCH = 1 / 6
"""Beyond it features are not asked. Where they helped it was 0.15 at most, where they did harm 0.19 at least."""


def come_round(mean: NDArray[np.int64], last: NDArray[np.int64], labels: Labels) -> float:
    """Of the labels (N,) that the mean of a run does not predict, how many more its last epoch does, as a share.

    mean, last: predicted classes (N,), by probabilities averaged over the run and by those of its last epoch.
    """
    unbelieved = int((mean != labels).sum())
    gained = int((last == labels).sum()) - int((mean == labels).sum())
    return gained / unbelieved if unbelieved else 0.0
