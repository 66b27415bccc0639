"""The two variants of confident learning, PAPER and CLEANLAB (2.9), as Rules for `confident_learning`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from errata.core._confident_kernels import exact_sum
from errata.core.checks import Floats
from errata.core.jit import over_blocks
from errata.core.random_part import GOLDEN, mix_bits

Counts = NDArray[np.int64]
Probabilities = NDArray[Any]  # (N, K) float32 or float64
Rows = NDArray[Any]  # row numbers, of the narrowest integer type that holds N

CLEANLAB_SLACK = 1e-6
CLASS_BLOCKS = 64
ROUNDED_ROWS = 64  # rows in a block


class Rules(NamedTuple):
    """The steps in which the paper and cleanlab differ."""

    spares_predicted: bool  # never flag a sample whose prediction is its label
    slack: float  # added to the label's probability before it is compared with the largest probability
    thresholds: Callable[[Probabilities, list[Rows]], Floats]
    calibrated: Callable[[Counts, Counts], NDArray[Any]]
    order: Callable[[NDArray[Any], Probabilities, Rows], NDArray[np.intp]]  # largest first, and between equal values
    margin_precision: type[np.floating[Any]]  # or that of P if it is higher


def over_classes(members: list[Rows], work: Callable[[int, Rows], None]) -> None:
    """Call `work` with every class that has samples, and their rows, on all cores."""

    def work_block(classes: slice) -> None:
        for k in range(classes.start, classes.stop):
            if len(members[k]):
                work(k, members[k])

    over_blocks(len(members), max(1, len(members) // CLASS_BLOCKS), work_block)


def _class_means(P: Probabilities, members: list[Rows], mean: Callable[..., Any], absent: float) -> list[Any]:
    means: list[Any] = [absent] * len(members)

    def average(k: int, rows: Rows) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # rows that are not finite are refused later
            means[k] = mean(P[rows, k])

    over_classes(members, average)
    return means


# The paper's formulas.


def _thresholds(P: Probabilities, members: list[Rows]) -> Floats:
    """Mean self-confidence (K,) of every class; infinite for a class without samples."""
    return np.array(_class_means(P, members, _exact_mean, absent=np.inf))


def _exact_mean(values: NDArray[Any]) -> float:
    """The mean, rounded once: independent of the order of rows, and equal to the values if all are equal."""
    return float(exact_sum(values) / len(values))


def _calibrated(counts: Counts, class_counts: Counts) -> Floats:
    """N·Q (K, K); a class without confident samples counts as clean."""
    confident = counts.sum(axis=1)
    at_least_one = counts + np.diag(confident == 0)
    calibrated: Floats = at_least_one * class_counts[:, None] / np.maximum(confident, 1)[:, None]
    return calibrated


def _hashed_order(values: NDArray[Any], P: Probabilities, rows: Rows) -> NDArray[np.intp]:
    """Largest value first; equal values by a hash of their probabilities, which does not depend on the order of rows.

    For samples with identical probabilities, a hash of the row number decides, because files are often sorted.
    """
    content, by_row = tie_hashes(P, rows, rows)
    return np.lexsort((by_row, content, -values))


def tie_hashes(P: Probabilities, rows: Rows, numbers: NDArray[Any]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """What decides between equal values: hashes of the probabilities of `rows`, and of their `numbers` in the run."""
    content = np.zeros(len(rows), np.uint64)
    for k in range(P.shape[1]):
        column = P[rows, k].astype(np.float64).view(np.uint64)
        content = mix_bits(content + column + GOLDEN)
    return content, mix_bits(numbers.astype(np.uint64) + GOLDEN)


# The steps of cleanlab 2.9.


def cleanlab_self_confidence(P: Probabilities, members: list[Rows]) -> NDArray[Any]:
    """Mean self-confidence (K,) of every class in the precision of P, at least twice the slack; 2 without samples."""
    # As in cleanlab, the integer 2 in the list converts float32 means to float64.
    means: NDArray[Any] = np.clip(_class_means(P, members, np.mean, absent=2), 2 * CLEANLAB_SLACK, None)
    return means


def _cleanlab_thresholds(P: Probabilities, members: list[Rows]) -> Floats:
    return (cleanlab_self_confidence(P, members) - CLEANLAB_SLACK).astype(np.float64)


def _cleanlab_order(values: NDArray[Any], P: Probabilities, rows: Rows) -> NDArray[np.intp]:
    """Largest value first; equal values in the order of numpy's default sort, as in cleanlab."""
    return np.argsort(-values)


def cleanlab_calibrated(counts: Counts, class_counts: Counts) -> Counts:
    """Counts (K, K) by given and true label whose rows sum to the class sizes (K,); each class keeps one sample."""
    return prune_counts(calibrated_counts(counts, class_counts))


def calibrated_counts(counts: Counts, class_counts: Counts) -> Counts:
    """Counts (K, K) by given and true label, in whole numbers; rows sum to the class sizes (K,)."""
    at_least_one = counts.copy()
    np.fill_diagonal(at_least_one, np.maximum(at_least_one.diagonal(), 1))
    # Transposed as in cleanlab: the last bit of the sum over all cells depends on their order in memory, and it decides
    # how an exact half is rounded.
    by_true_label = np.ascontiguousarray(at_least_one.T) / at_least_one.sum(axis=1) * class_counts
    scaled = np.ascontiguousarray((by_true_label / by_true_label.sum() * class_counts.sum()).T)
    return _round_keeping_row_sums(scaled)


def prune_counts(joint: NDArray[Any], least: int = 1, share: float = 1.0) -> Counts:
    """The numbers of samples (K, K) to prune, by given and true label, and to keep, on the diagonal.

    joint (K, K): counts by given and true label. Each class keeps at least `least` samples. Of the others, `share` is
    pruned.
    """
    keep = np.maximum(joint.diagonal(), least)
    others = np.maximum(np.count_nonzero(joint, axis=1) - 1, 1)
    less_for_each = (keep - joint.diagonal()) / others
    pruned = np.maximum(joint - less_for_each[:, None], 0)
    np.fill_diagonal(pruned, keep)
    if share != 1:
        reduced = pruned * share
        np.fill_diagonal(reduced, keep)
        np.fill_diagonal(reduced, keep + (pruned - reduced).sum(axis=1))
        pruned = reduced
    whole: Counts = pruned.astype(np.int64)
    return whole


def with_removals(pruned: Counts, class_counts: Counts, removals: NDArray[Any]) -> Counts:
    """The result of `prune_counts`, scaled so that `removals` (K,) samples of each class are pruned.

    As in cleanlab, shares are relative to the true label: exact on the diagonal, approximate elsewhere.
    """
    by_true_label = np.ascontiguousarray(pruned.T)
    with np.errstate(divide="ignore", invalid="ignore"):  # classes without errors divide by 0
        shares = by_true_label / by_true_label.sum(axis=1)
        errors = shares.sum(axis=1) - shares.diagonal()
        scaled = (shares.T * removals / errors).T
    np.fill_diagonal(scaled, class_counts - removals)
    finite = np.isfinite(scaled)
    known = finite.all(axis=1)
    whole = np.where(finite, scaled, 0).round().astype(np.int64)
    whole[known] = _round_keeping_row_sums(scaled[known])
    return np.ascontiguousarray(whole.T)


def _round_keeping_row_sums(values: Floats) -> Counts:
    """Round to whole numbers; then move the cells with the largest rounding errors by 1 until the row sums match."""
    rounded = values.round()
    missing = (values.sum(axis=1).round() - rounded.sum(axis=1)).astype(np.int64)

    def correct(rows: slice) -> None:
        for row in rows.start + np.flatnonzero(missing[rows]):
            worst = np.argsort(values[row] - rounded[row])  # unstable as in cleanlab: numpy decides between equal cells
            if missing[row] > 0:
                rounded[row, worst[-missing[row] :]] += 1
            else:
                rounded[row, worst[: -missing[row]]] -= 1

    over_blocks(len(values), ROUNDED_ROWS, correct)
    return rounded.astype(np.int64)


PAPER = Rules(False, 0.0, _thresholds, _calibrated, _hashed_order, np.float64)
CLEANLAB = Rules(True, CLEANLAB_SLACK, _cleanlab_thresholds, cleanlab_calibrated, _cleanlab_order, np.float32)
