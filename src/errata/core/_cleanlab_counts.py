"""How cleanlab 2.9 turns a confident joint into whole numbers of samples to prune."""

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

ROWS_PER_BLOCK = 64


def cleanlab_calibrated(counts: Counts, class_counts: Counts) -> Counts:
    """Samples (K, K) by given and true label: rows keep their class sizes (K,), and every class keeps one sample."""
    joint = _round_keeping_row_sums(_scaled_to_class_counts(counts, class_counts))
    kept = np.maximum(joint.diagonal(), 1)
    others = np.maximum(np.count_nonzero(joint, axis=1) - 1, 1)
    taken_from_each = (kept - joint.diagonal()) / others
    pruned: Counts = np.maximum(joint - taken_from_each[:, None], 0).astype(np.int64)
    np.fill_diagonal(pruned, kept)
    return pruned


def _scaled_to_class_counts(counts: Counts, class_counts: Counts) -> Floats:
    """The confident joint, with at least one correct sample in every class, scaled by class and then as a whole."""
    certain = counts.copy()
    np.fill_diagonal(certain, np.maximum(certain.diagonal(), 1))
    # Transposed, because the sum over all cells depends in its last bit on the order they lie in, and an exact half
    # is rounded up or down by that bit.
    by_true_label = np.ascontiguousarray(certain.T) / certain.sum(axis=1) * class_counts
    return np.ascontiguousarray((by_true_label / by_true_label.sum() * class_counts.sum()).T)


def _round_keeping_row_sums(values: Floats) -> Counts:
    """Nearest whole numbers; then in each row, as many of the worst rounded move by one as its rounded sum asks for."""
    from errata.core.jit import over_blocks

    rounded = values.round()
    missing = (values.sum(axis=1).round() - rounded.sum(axis=1)).astype(np.int64)

    def settle(rows: slice) -> None:
        for row in rows.start + np.flatnonzero(missing[rows]):
            worst = np.argsort(values[row] - rounded[row])  # not stable: which of equal cells moves is numpy's choice
            if missing[row] > 0:
                rounded[row, worst[-missing[row] :]] += 1
            else:
                rounded[row, worst[: -missing[row]]] -= 1

    over_blocks(len(values), ROWS_PER_BLOCK, settle)
    return rounded.astype(np.int64)
