"""Where neighbours of samples are searched, and the votes of their labels."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Floats, Labels
from errata.core.neighbours import Neighbours, nearest

SpaceName = Literal["features", "inputs"]
METRICS: dict[SpaceName, Literal["cosine", "euclidean"]] = {"features": "cosine", "inputs": "euclidean"}


class NeighbourSpaces:
    """The spaces in which neighbours can be searched; each search is done once.

    features: (N, D), activations of the trained model, compared by cosine distance. inputs: (N, D), scaled columns of a
    table or embeddings that the model was not trained on, compared by Euclidean distance.
    """

    def __init__(self, features: NDArray[Any] | None = None, inputs: NDArray[Any] | None = None) -> None:
        arrays: dict[SpaceName, NDArray[Any] | None] = {"features": features, "inputs": inputs}
        self.points = {name: array for name, array in arrays.items() if array is not None}
        self._searched: dict[SpaceName, Neighbours] = {}

    def nearest(self, space: SpaceName, k: int) -> NDArray[np.int32]:
        """Row numbers (N, k) of the k nearest samples of every sample; all others if there are fewer."""
        points = self.points[space]
        k = min(k, len(points) - 1)
        if k == 0:
            return np.empty((1, 0), dtype=np.int32)
        result = self._searched.get(space)
        if result is None or result.index.shape[1] < k:
            result = self._searched[space] = nearest(points, k, METRICS[space])
        return result.index[:, :k]


def label_votes(labels: Labels, near: NDArray[np.int32], classes: int) -> Floats:
    """How many of the neighbours (n, k) of some samples have each label, (n, K); `labels` (N,) are of all samples."""
    counts = np.zeros((len(near), classes))
    every = np.arange(len(near))
    for neighbour in near.T:
        counts[every, labels[neighbour]] += 1
    return counts
