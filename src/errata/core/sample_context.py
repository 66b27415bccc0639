"""What is known about all samples besides their logits and labels; the steps of a method get it as `context`.

Features and inputs, in which neighbours are searched, and held-out predictions.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from errata.core._neighbour_points import Neighbours
from errata.core.checks import Floats, check_points
from errata.core.neighbours import METRICS, SpaceName, nearest

Result = TypeVar("Result")


class SampleContext:
    """What is known about all N samples besides their logits and labels; steps of a method use it.

    features: (N, D), activations of the trained model, compared by cosine distance. inputs: (N, D), scaled columns of a
    table or embeddings that the model was not trained on, compared by Euclidean distance. names: the files of the two,
    for messages. held_out: log-probabilities (N, K) of the labels by models that have not seen them. The result of a
    search for neighbours is kept; the search is repeated only if more neighbours are needed.
    """

    def __init__(
        self,
        features: NDArray[Any] | None = None,
        inputs: NDArray[Any] | None = None,
        names: Mapping[SpaceName, str] | None = None,
        held_out: Floats | None = None,
    ) -> None:
        arrays: dict[SpaceName, NDArray[Any] | None] = {"features": features, "inputs": inputs}
        self.points = {name: array for name, array in arrays.items() if array is not None}
        self.held_out = held_out
        self._names = names or {}
        self._searched: dict[SpaceName, Neighbours] = {}
        self._computed: dict[Hashable, Any] = {}

    @property
    def can_hold_out(self) -> bool:
        """Whether there are held-out predictions, or inputs to predict from."""
        return self.held_out is not None or "inputs" in self.points

    def finite_points(self, space: SpaceName) -> NDArray[Any]:
        """The points (N, D). If some are not finite, the error names them: values of files are not checked earlier."""
        points = self.points[space]
        check_points(self._names.get(space, space), points, len(points))
        return points

    def computed_once(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """The result of `compute`, which is called once per key: for results that depend on these samples only."""
        if key not in self._computed:
            self._computed[key] = compute()
        result: Result = self._computed[key]
        return result

    def nearest(self, space: SpaceName, k: int) -> NDArray[np.int32]:
        """Row numbers (N, k) of the k nearest samples of every sample; all others if there are fewer."""
        points = self.points[space]
        k = min(k, len(points) - 1)
        if k == 0:
            return np.empty((1, 0), dtype=np.int32)
        result = self._searched.get(space)
        if result is None or result.index.shape[1] < k:
            result = self._searched[space] = nearest(points, k, METRICS[space], name=self._names.get(space, space))
        return result.index[:, :k]
