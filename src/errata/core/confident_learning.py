"""Confident learning: which labels contradict the classes a model is confident about (Northcutt et al., 2021).

Row l of the probabilities P (N, K) is *confident* in class k when P_lk reaches the threshold t_k, the mean of P_k over the
samples labelled k. The confident joint counts samples by given label and confident class; calibrated, it estimates how
many samples of class i are really class j. The variants differ in the samples they flag:

- CC: those whose arg max is not the label;
- CYY: those whose confident class is not the label;
- PBC (prune by class): in every class as many as are mislabelled, the lowest self-confidence P_i first;
- PBNR (prune by noise rate): for every two classes as many as are i and should be j, the largest margin P_j − P_i first.

`cleanlab=True` adds what cleanlab 2.9 does beyond these formulas, and flags exactly the samples cleanlab flags.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.core.checks import as_numpy, check_labels
from errata.errors import InputError

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Probabilities = NDArray[Any]  # (N, K) float32 or float64
Classes = NDArray[Any]  # class numbers, of the narrowest integer type that holds K
Rows = NDArray[Any]  # row numbers, of the narrowest integer type that holds N

VARIANTS = ("CC", "CYY", "PBC", "PBNR")
CLEANLAB_SLACK = 1e-6
VALUES_PER_BLOCK = 2**20
UNFLAGGED_SCORE = -1.0


def confident_joint(probabilities: Probabilities, labels: ArrayLike) -> Counts:
    """Count matrix C (K, K): C[i, j] samples labelled i are confidently j; a sample confident in no class is left out."""
    P, y = _check(probabilities, labels)
    members = _members(y, P.shape[1])
    confident, _ = _read(P, y, _thresholds(P, members), slack=0.0)
    return _count(y, confident, P.shape[1])


def calibrate(counts: ArrayLike, class_counts: ArrayLike) -> Floats:
    """Joint distribution Q (K, K) of given and true labels, from a confident joint and the class sizes (K,)."""
    C, n = as_numpy(counts), as_numpy(class_counts)
    if C.ndim != 2 or C.shape != (*n.shape, *n.shape):
        raise InputError(f"counts must be (K, K) and class_counts (K,), not {C.shape} and {n.shape}")
    for name, array in (("counts", C), ("class_counts", n)):
        if array.dtype.kind not in "iu" or array.min(initial=0) < 0:
            raise InputError(f"{name} must be whole numbers, none below 0")
    if n.sum() == 0:
        raise InputError("class_counts are all 0: there is no sample to calibrate for")
    return _calibrated(C, n) / n.sum()


def flags(probabilities: Probabilities, labels: ArrayLike, variant: str, *, cleanlab: bool = False) -> Flags:
    """Which labels (N,) a variant calls wrong, by the paper's formulas or exactly as cleanlab 2.9 does."""
    if variant not in VARIANTS:
        raise InputError(f"variant {variant!r} is not one of {', '.join(VARIANTS)}")
    rules = CLEANLAB if cleanlab else PAPER
    P, y = _check(probabilities, labels)
    K = P.shape[1]
    if variant == "CC":
        _, disagrees = _read(P, y, np.full(K, np.inf), rules.slack)
        return disagrees
    members = _members(y, K)
    confident, disagrees = _read(P, y, rules.thresholds(P, members), rules.slack)
    if variant == "CYY":
        flagged = (confident != y) & (confident >= 0)
    else:
        joint = rules.calibrated(_count(y, confident, K), np.array([len(rows) for rows in members]))
        prune = _prune_by_class if variant == "PBC" else _prune_by_noise_rate
        flagged = prune(P, members, joint, rules)
    return flagged & disagrees if cleanlab else flagged


def scores(flagged: ArrayLike, probabilities: Probabilities, labels: ArrayLike) -> Floats:
    """Score (N,): −log of the self-confidence for flagged samples, so at least 0, and −1 for all others."""
    P, y = _check(probabilities, labels)
    flag = as_numpy(flagged)
    if flag.dtype != np.bool_ or flag.shape != y.shape:
        raise InputError(f"flagged must be bool of shape {y.shape}, not {flag.dtype} of shape {flag.shape}")
    rows = np.flatnonzero(flag)
    self_confidence = P[rows, y[rows]].astype(np.float64)
    broken = ~((self_confidence >= 0) & (self_confidence <= 1))
    if broken.any():
        _refuse(P, int(rows[broken][0]))
    result = np.full(len(y), UNFLAGGED_SCORE)
    smallest = np.nextafter(0.0, 1.0)
    result[rows] = 0.0 - np.log(np.maximum(self_confidence, smallest))
    return result


# What the paper's formulas are made of.


def _members(labels: Classes, num_classes: int) -> list[Rows]:
    """The rows of every class, ascending."""
    from errata.core._confident_kernels import rows_by_class

    starts = np.concatenate(([0], np.bincount(labels, minlength=num_classes).cumsum()))
    order = np.empty(len(labels), np.int32 if len(labels) <= np.iinfo(np.int32).max else np.int64)
    rows_by_class(labels, starts, order)
    return np.split(order, starts[1:-1])


def _thresholds(P: Probabilities, members: list[Rows]) -> Floats:
    """Mean self-confidence of every class, rounded once; infinite for a class without samples.

    Rounding once keeps it independent of the order of rows, and lets samples that are all alike reach their own mean.
    """
    from errata.core._confident_kernels import compensated_sum

    def mean(values: NDArray[Any]) -> float:
        total, remainder = compensated_sum(values)
        return float((Fraction(total) + Fraction(remainder)) / len(values))

    return np.array([mean(P[rows, k]) if len(rows) else np.inf for k, rows in enumerate(members)])


def _read(P: Probabilities, y: Classes, thresholds: Floats, slack: float) -> tuple[Classes, Flags]:
    """Confident class (N,), −1 for none, and whether the arg max is not the label (N,); refuses rows that are no distribution."""
    from errata.core._confident_kernels import read_rows
    from errata.core.jit import over_blocks

    confident, disagrees = np.empty_like(y), np.empty(len(y), np.bool_)

    def read(block: slice) -> None:
        broken = read_rows(P[block], y[block], thresholds, P.dtype.type(slack), confident[block], disagrees[block])
        if broken >= 0:
            _refuse(P, block.start + broken)

    over_blocks(len(P), max(1, VALUES_PER_BLOCK // P.shape[1]), read)
    return confident, disagrees


def _count(y: Classes, confident: Classes, num_classes: int) -> Counts:
    from errata.core._confident_kernels import count_pairs

    counts = np.zeros((num_classes, num_classes), np.int64)
    count_pairs(y, confident, counts)
    return counts


def _calibrated(counts: Counts, class_counts: Counts) -> Floats:
    """N·Q (K, K); a class without any confident sample is taken to be clean."""
    confident = counts.sum(axis=1)
    certain = counts + np.diag(confident == 0)
    return certain * class_counts[:, None] / np.maximum(confident, 1)[:, None]


def _prune_by_class(P: Probabilities, members: list[Rows], joint: NDArray[Any], rules: "_Rules") -> Flags:
    from errata.core._confident_kernels import flag_largest

    flagged = np.zeros(len(P), np.bool_)

    def prune(k: int) -> None:
        rows = members[k]
        budget = round(len(rows) - joint[k, k])
        if budget > 0:
            doubts = -P[rows, k]
            if not flag_largest(doubts, budget, np.empty_like(doubts), rows, flagged):
                flagged[rows[rules.order(doubts, rows)[:budget]]] = True

    _over_classes(len(members), prune)
    return flagged


def _prune_by_noise_rate(P: Probabilities, members: list[Rows], joint: NDArray[Any], rules: "_Rules") -> Flags:
    from errata.core._confident_kernels import flag_margins

    flagged = np.zeros(len(P), np.bool_)
    precision = np.result_type(P.dtype, rules.margin_precision)

    def prune(k: int) -> None:
        rows = members[k]
        budgets = np.rint(joint[k]).astype(np.int64)
        margins, scratch = np.empty((2, len(rows)), precision)
        tied = np.zeros(len(budgets), np.bool_)
        flag_margins(P, k, budgets, rows, margins, scratch, flagged, tied)
        for j in np.flatnonzero(tied):
            margins = P[rows, j].astype(precision) - P[rows, k]
            flagged[rows[rules.order(margins, rows)[: budgets[j]]]] = True

    _over_classes(len(members), prune)
    return flagged


def _over_classes(num_classes: int, prune: Callable[[int], None]) -> None:
    from errata.core.jit import over_blocks

    def prune_block(classes: slice) -> None:
        for k in range(classes.start, classes.stop):
            prune(k)

    over_blocks(num_classes, max(1, num_classes // 64), prune_block)


def _hashed_order(values: NDArray[Any], rows: Rows) -> NDArray[np.intp]:
    """Largest value first; equal values by a hash of the row number (splitmix64), because files are often sorted."""
    h = rows.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.lexsort((h ^ (h >> np.uint64(31)), -values))


# What cleanlab 2.9 does differently.


def _cleanlab_thresholds(P: Probabilities, members: list[Rows]) -> Floats:
    """Means in the precision of P, at least twice the slack, less the slack; never reached for a class without samples."""
    # A plain list mixes types as cleanlab's does: one class without samples turns float32 means into float64.
    means = [np.mean(P[rows, k]) if len(rows) else 2 for k, rows in enumerate(members)]
    return (np.clip(means, 2 * CLEANLAB_SLACK, None) - CLEANLAB_SLACK).astype(np.float64)


def _cleanlab_calibrated(counts: Counts, class_counts: Counts) -> Counts:
    """Whole numbers (K, K) with every class keeping at least one sample."""
    certain = counts.copy()
    np.fill_diagonal(certain, np.maximum(certain.diagonal(), 1))
    # Transposed and contiguous, because the sum over all cells depends on their order in its last bit.
    by_class = np.ascontiguousarray(certain.T) / certain.sum(axis=1) * class_counts
    joint = np.array([_round_keeping_sum(cells) for cells in (by_class / by_class.sum() * class_counts.sum()).T])
    kept = np.maximum(joint.diagonal(), 1)
    others = np.maximum(np.count_nonzero(joint, axis=1) - 1, 1)
    pruned = np.maximum(joint - ((kept - joint.diagonal()) / others)[:, None], 0).astype(np.int64)
    np.fill_diagonal(pruned, kept)
    return pruned


def _round_keeping_sum(values: Floats) -> Counts:
    """Nearest whole numbers, then as many of the worst rounded moved by one as it takes to keep the rounded sum."""
    rounded = values.round()
    missing = int(values.sum().round() - rounded.sum())
    worst = np.argsort(values - rounded)
    rounded[worst[len(worst) - missing :] if missing > 0 else worst[:-missing]] += np.sign(missing)
    return rounded.astype(np.int64)


def _cleanlab_order(values: NDArray[Any], rows: Rows) -> NDArray[np.intp]:
    """Largest value first; equal values as numpy's default sort happens to leave them, which is what cleanlab does."""
    return np.argsort(-values)


class _Rules(NamedTuple):
    """Where the paper and cleanlab part."""

    slack: float  # added to the label's probability before the arg max is compared with it
    thresholds: Callable[[Probabilities, list[Rows]], Floats]
    calibrated: Callable[[Counts, Counts], NDArray[Any]]
    order: Callable[[NDArray[Any], Rows], NDArray[np.intp]]
    margin_precision: type[np.floating[Any]]  # margins are taken in this or in that of P, whichever is finer


PAPER = _Rules(0.0, _thresholds, _calibrated, _hashed_order, np.float64)
CLEANLAB = _Rules(CLEANLAB_SLACK, _cleanlab_thresholds, _cleanlab_calibrated, _cleanlab_order, np.float32)


# Bad input.


def _check(probabilities: Probabilities, labels: ArrayLike) -> tuple[Probabilities, Classes]:
    """Probabilities as a read-only view and labels in the narrowest type; the probabilities' values are checked when read."""
    P = as_numpy(probabilities)
    if P.ndim != 2 or len(P) == 0 or P.shape[1] < 2:
        raise InputError(f"probabilities must have shape (N, K) with N of 1 or more and K of 2 or more, not {P.shape}")
    if P.dtype not in (np.float32, np.float64):
        raise InputError(f"probabilities must be float32 or float64, not {P.dtype}")
    y = check_labels(labels, P.shape[1])
    if len(y) != len(P):
        raise InputError(f"there are {len(y)} labels for {len(P)} rows of probabilities")
    P = P.view()
    P.flags.writeable = False
    return P, y.astype(np.int16 if P.shape[1] <= np.iinfo(np.int16).max else np.int32)


def _refuse(P: Probabilities, row: int) -> None:
    values = P[row]
    for column, value in enumerate(values):
        if not np.isfinite(value):
            raise InputError(f"probability of sample {row} for class {column} is {value}")
        if not 0 <= value <= 1:
            raise InputError(
                f"probability of sample {row} for class {column} is {value}, outside 0..1: "
                "these are probably logits, which need a softmax first"
            )
    raise InputError(f"probabilities of sample {row} sum to {values.sum(dtype=np.float64):.6g}, not to 1")
