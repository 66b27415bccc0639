"""The check that every batch goes through, compiled: it runs once a step of somebody's training."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.jit import compiled


@compiled
def is_welcome(
    rows: NDArray[np.int64], logits: NDArray[Any], seen: NDArray[np.bool_], position: NDArray[np.int64]
) -> bool:
    """Whether rows (n,) are known, new and distinct and their logits (n, K) finite; `position` (N,) is a scratchpad."""
    for i in range(len(rows)):
        row = rows[i]
        if row < 0 or row >= len(seen) or seen[row]:
            return False
        position[row] = i
    poison = 0.0
    for i in range(len(rows)):
        if position[rows[i]] != i:
            return False
        for k in range(logits.shape[1]):
            poison += logits[i, k] * 0.0
    return poison == 0.0
