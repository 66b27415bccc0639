"""The mean over neighbours, compiled."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.jit import compiled

Floats = NDArray[np.float64]

_TINY = 1e-250  # a sum above this has lost nothing that counts to terms too small for float64


@compiled
def log_means(logs: Floats, probabilities: Floats, neighbours: NDArray[Any], means: Floats) -> None:
    """Logarithm of the mean probability (n, K) over the neighbours (n, k) of n of all N samples."""
    count, classes = neighbours.shape[1], logs.shape[1]
    for i in range(len(neighbours)):
        row = means[i]
        row[:] = 0
        for j in neighbours[i]:
            theirs = probabilities[j]
            for c in range(classes):
                row[c] += theirs[c]
        for c in range(classes):
            if row[c] > _TINY:
                row[c] = np.log(row[c] / count)
                continue
            largest = -np.inf
            for j in neighbours[i]:
                largest = max(largest, logs[j, c])
            if largest == -np.inf:
                row[c] = -np.inf
                continue
            total = 0.0
            for j in neighbours[i]:
                total += np.exp(logs[j, c] - largest)
            row[c] = largest + np.log(total / count)
