"""How cleanlab 2.9 turns a confident joint into whole numbers of samples to prune."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

ROWS_PER_BLOCK = 64


def cleanlab_calibrated(counts: Counts, class_counts: Counts) -> Counts:
    """Samples (K, K) by given and true label: rows keep their class sizes (K,), and every class keeps one sample."""
    return prune_counts(calibrated_counts(counts, class_counts))


def calibrated_counts(counts: Counts, class_counts: Counts) -> Counts:
    """Samples (K, K) by given and true label, in whole numbers; rows keep their class sizes (K,)."""
    return _round_keeping_row_sums(_scaled_to_class_counts(counts, class_counts))


def prune_counts(joint: NDArray[Any], least: int = 1, share: float = 1.0) -> Counts:
    """How many samples to keep in every class, on the diagonal, and to prune (K, K), by given and true label.

    joint (K, K): samples by given and true label. Every class keeps `least` or more; of the others a `share` is pruned.
    """
    kept = np.maximum(joint.diagonal(), least)
    others = np.maximum(np.count_nonzero(joint, axis=1) - 1, 1)
    taken_from_each = (kept - joint.diagonal()) / others
    pruned = np.maximum(joint - taken_from_each[:, None], 0)
    np.fill_diagonal(pruned, kept)
    if share != 1:
        lessened = pruned * share
        np.fill_diagonal(lessened, kept)
        np.fill_diagonal(lessened, kept + (pruned - lessened).sum(axis=1))
        pruned = lessened
    whole: Counts = pruned.astype(np.int64)
    return whole


def with_removals(pruned: Counts, class_counts: Counts, removals: NDArray[Any]) -> Counts:
    """What `prune_counts` gave, scaled so that `removals` (K,) samples are pruned of each class.

    Shares are taken by true label here, as cleanlab does: exact for each class on the diagonal, about so elsewhere.
    """
    by_true_label = np.ascontiguousarray(pruned.T)
    with np.errstate(divide="ignore", invalid="ignore"):  # a class without errors has none to scale
        shares = by_true_label / by_true_label.sum(axis=1)
        errors = shares.sum(axis=1) - shares.diagonal()
        scaled = (shares.T * removals / errors).T
    np.fill_diagonal(scaled, class_counts - removals)
    finite = np.isfinite(scaled)
    known = finite.all(axis=1)
    whole = np.where(finite, scaled, 0).round().astype(np.int64)
    whole[known] = _round_keeping_row_sums(scaled[known])
    return np.ascontiguousarray(whole.T)


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
