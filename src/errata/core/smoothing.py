"""Blend what a model says of a sample with what it says of the sample's neighbours."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Floats, as_numpy
from errata.core.jit import BLOCK_ELEMENTS, over_blocks
from errata.errors import InputError

_OFF_ONE = 0.01  # by so much a row of float16 log-probabilities may miss a sum of 1


def smooth(log_probabilities: Any, neighbours_index: Any, own: float) -> Floats:
    """The blend (N, K) of log-probabilities (N, K): own · log p + (1 - own) · log(mean p over the neighbours (N, k)).

    Rows of the blend do not sum to 1: what a measure asks of them, differences between classes, needs no more. A class
    that a sample itself gives no probability at all stays at -inf, unless only the neighbours count (own = 0).
    """
    if not 0 <= own <= 1:
        raise InputError(f"own must be between 0 (neighbours only) and 1 (the sample only), not {own}")
    logs = _check_logs(log_probabilities)
    neighbours = _check_neighbours(neighbours_index, len(logs))
    probabilities = np.exp(logs)
    _check_sums(probabilities)
    if own == 1:
        return logs.copy()
    from errata.core._smoothing_kernels import log_means

    blended = np.empty_like(logs)

    def work(block: slice) -> None:
        log_means(logs, probabilities, neighbours[block], blended[block])
        if own > 0:  # not 0 · -inf
            blended[block] *= 1 - own
            blended[block] += own * logs[block]

    over_blocks(len(logs), max(1, BLOCK_ELEMENTS // logs.shape[1]), work)
    return blended


def _check_logs(log_probabilities: Any) -> Floats:
    logs = as_numpy(log_probabilities)
    if logs.ndim != 2 or 0 in logs.shape:
        raise InputError(f"log-probabilities must have shape (samples, classes), not {logs.shape}")
    if logs.dtype.kind != "f":
        raise InputError(f"log-probabilities must be floating-point numbers, not {logs.dtype}")
    return np.ascontiguousarray(logs, dtype=np.float64)


def _check_sums(probabilities: Floats) -> None:
    sums = probabilities.sum(axis=1)
    refused = ~(np.abs(sums - 1) <= _OFF_ONE)
    if refused.any():
        row = int(np.argmax(refused))
        raise InputError(
            f"the probabilities of sample {row} sum to {sums[row]:g}, not 1; "
            "pass log-probabilities, such as log_softmax of logits"
        )


def _check_neighbours(neighbours_index: Any, samples: int) -> NDArray[np.integer[Any]]:
    index = as_numpy(neighbours_index)
    if index.ndim != 2 or len(index) != samples or index.shape[1] == 0:
        raise InputError(f"neighbours must have shape ({samples}, k), one row for each sample, not {index.shape}")
    if index.dtype.kind not in "iu":
        raise InputError(f"neighbours must be row numbers, not {index.dtype}")
    refused = ((index < 0) | (index >= samples)).any(axis=1)
    if refused.any():
        raise InputError(f"sample {int(np.argmax(refused))} has a neighbour outside rows 0..{samples - 1}")
    return index
