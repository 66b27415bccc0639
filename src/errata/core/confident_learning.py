"""Confident learning: flag labels that contradict the classes a model is confident in (Northcutt et al., 2021).

A row of the probabilities P (N, K) is *confident* in class k if P_k reaches the threshold t_k, the mean of P_k over the
samples labelled k. If several classes reach theirs, it is confident in the arg max of the row, as cleanlab does. The
confident joint counts samples by given label and confident class. Calibrated, it estimates how
many samples labelled i are truly of class j. The variants flag:

- CC: samples whose arg max is not the label;
- CYY: samples whose confident class is not the label;
- PBC (prune by class): in every class the estimated number of errors, lowest self-confidence P_i first;
- PBNR (prune by noise rate): for each pair i, j the estimated number of samples, largest margin P_j − P_i first.

`cleanlab=True` follows cleanlab 2.9 where it differs from these formulas, and flags exactly the same samples.
"""

from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.core.checks import Floats, as_numpy, check_labels
from errata.core.confident_rules import CLEANLAB, PAPER, Counts, Probabilities, Rows, Rules, over_classes
from errata.errors import InputError

Flags = NDArray[np.bool_]
Classes = NDArray[Any]  # class numbers, of a narrow integer type

VARIANTS = ("CC", "CYY", "PBC", "PBNR")
VALUES_PER_BLOCK = 2**20
UNFLAGGED_SCORE = -1.0
SMALLEST_PROBABILITY = np.nextafter(0.0, 1.0)  # replaces 0, whose logarithm is not finite


def confident_joint(probabilities: Probabilities, labels: ArrayLike) -> Counts:
    """Counts C (K, K): C[i, j] samples labelled i are confident in class j; the rest is not counted."""
    P, y = _check(probabilities, labels)
    members = _rows_by_class(y, P.shape[1])
    confident, _ = _confident_classes(P, y, PAPER.thresholds(P, members), PAPER.slack)
    return _count(y, confident, P.shape[1])


def calibrate(counts: ArrayLike, class_counts: ArrayLike) -> Floats:
    """Joint distribution Q (K, K) of given and true labels, from a confident joint and the class sizes (K,)."""
    C, n = as_numpy(counts), as_numpy(class_counts)
    if n.ndim != 1 or C.shape != (len(n), len(n)):
        raise InputError(f"counts must be (K, K) and class_counts (K,), not {C.shape} and {n.shape}")
    if C.dtype.kind not in "iu" or n.dtype.kind not in "iu" or min(C.min(initial=0), n.min(initial=0)) < 0:
        raise InputError("counts and class_counts must be whole numbers, none below 0")
    if n.sum() == 0:
        raise InputError("class_counts are all 0: there is no sample to calibrate for")
    Q: Floats = PAPER.calibrated(C.astype(np.int64), n.astype(np.int64)) / n.sum()
    return Q


def flags(probabilities: Probabilities, labels: ArrayLike, variant: str, *, cleanlab: bool = False) -> Flags:
    """The samples (N,) that a variant flags, by the paper's formulas or exactly as cleanlab 2.9."""
    return flags_by_rules(probabilities, labels, variant, CLEANLAB if cleanlab else PAPER)


def flags_by_rules(probabilities: Probabilities, labels: ArrayLike, variant: str, rules: Rules) -> Flags:
    """The samples (N,) that a variant flags, with the given rules."""
    if variant not in VARIANTS:
        raise InputError(f"variant {variant!r} is not one of {', '.join(VARIANTS)}")
    P, y = _check(probabilities, labels)
    K = P.shape[1]
    if variant == "CC":
        _, disagrees = _confident_classes(P, y, np.full(K, np.inf), rules.slack)
        return disagrees
    members = _rows_by_class(y, K)
    confident, disagrees = _confident_classes(P, y, rules.thresholds(P, members), rules.slack)
    if variant == "CYY":
        flagged: Flags = (confident != y) & (confident >= 0)
    else:
        joint = rules.calibrated(_count(y, confident, K), np.array([len(rows) for rows in members]))
        del confident
        prune = _prune_by_class if variant == "PBC" else _prune_by_noise_rate
        flagged = prune(P, members, joint, rules)
    return flagged & disagrees if rules.spares_predicted else flagged


def scores(flagged: ArrayLike, probabilities: Probabilities, labels: ArrayLike) -> Floats:
    """Scores (N,): −log of the self-confidence (0 or more) for flagged samples, −1 for all others."""
    P, y = _check(probabilities, labels)
    flag = as_numpy(flagged)
    if flag.dtype != np.bool_ or flag.shape != y.shape:
        raise InputError(f"flagged must be bool of shape {y.shape}, not {flag.dtype} of shape {flag.shape}")
    rows = np.flatnonzero(flag)
    self_confidence = P[rows, y[rows]].astype(np.float64)
    refused = rows[~_is_probability(self_confidence)]
    if len(refused):
        _refuse(P, int(refused[0]))
    result = np.full(len(y), UNFLAGGED_SCORE)
    result[rows] = 0.0 - np.log(np.clip(self_confidence, SMALLEST_PROBABILITY, 1.0))
    return result


# Steps of the formulas.


def _rows_by_class(labels: Classes, num_classes: int) -> list[Rows]:
    """The rows of every class, ascending."""
    from errata.core._confident_kernels import rows_by_class

    order = np.empty(len(labels), np.int32 if len(labels) <= np.iinfo(np.int32).max else np.int64)
    ends = rows_by_class(labels, num_classes, order)
    return np.split(order, ends[:-1])


def _confident_classes(P: Probabilities, y: Classes, thresholds: Floats, slack: float) -> tuple[Classes, Flags]:
    """The confident class (N,), −1 for none, and whether the arg max is not the label (N,), in one pass over P.

    Refuses the first row that is not a probability distribution.
    """
    from errata.core._confident_kernels import confident_classes
    from errata.core.jit import over_blocks

    confident, disagrees = np.empty_like(y), np.empty(len(y), np.bool_)

    def work(block: slice) -> None:
        invalid = confident_classes(
            P[block], y[block], thresholds, P.dtype.type(slack), confident[block], disagrees[block]
        )
        if invalid >= 0:
            _refuse(P, block.start + invalid)

    over_blocks(len(P), max(1, VALUES_PER_BLOCK // P.shape[1]), work)
    return confident, disagrees


def _count(y: Classes, confident: Classes, num_classes: int) -> Counts:
    from errata.core._confident_kernels import count_pairs

    counts = np.zeros((num_classes, num_classes), np.int64)
    count_pairs(y, confident, counts)
    return counts


def _prune_by_class(P: Probabilities, members: list[Rows], joint: NDArray[Any], rules: Rules) -> Flags:
    from errata.core._confident_kernels import flag_largest

    flagged = np.zeros(len(P), np.bool_)

    def prune(k: int, rows: Rows) -> None:
        budget = round(len(rows) - joint[k, k])
        if budget > 0:
            doubts = -P[rows, k]
            if not flag_largest(doubts, budget, rows, flagged):
                flagged[rows[rules.order(doubts, P, rows)[:budget]]] = True

    over_classes(members, prune)
    return flagged


def _prune_by_noise_rate(P: Probabilities, members: list[Rows], joint: NDArray[Any], rules: Rules) -> Flags:
    from errata.core._confident_kernels import flag_margins

    flagged = np.zeros(len(P), np.bool_)
    precision = np.result_type(P.dtype, rules.margin_precision)

    def prune(k: int, rows: Rows) -> None:
        budgets = np.rint(joint[k]).astype(np.int64)
        tied = np.zeros(len(budgets), np.bool_)
        flag_margins(P, k, budgets, rows, np.empty(len(rows), precision), flagged, tied)
        for j in np.flatnonzero(tied):
            margins = P[rows, j].astype(precision) - P[rows, k]
            flagged[rows[rules.order(margins, P, rows)[: budgets[j]]]] = True

    over_classes(members, prune)
    return flagged


# Checks of the input.


def _check(probabilities: Probabilities, labels: ArrayLike) -> tuple[Probabilities, Classes]:
    """Probabilities as a read-only view (values are checked later, when they are read), and labels of a narrow type."""
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


def _is_probability(values: NDArray[Any]) -> Flags:
    from errata.core._confident_kernels import ROUNDING

    valid: Flags = (values >= -ROUNDING) & (values <= 1 + ROUNDING)
    return valid


def _refuse(P: Probabilities, row: int) -> NoReturn:
    outside = np.flatnonzero(~_is_probability(P[row]))
    if not len(outside):
        raise InputError(f"probabilities of sample {row} sum to {P[row].sum(dtype=np.float64):.6g}, not to 1")
    value = P[row, outside[0]]
    advice = ": these are probably logits, pass their softmax" if np.isfinite(value) else ""
    raise InputError(f"probability of sample {row} for class {outside[0]} is {value}, not within 0..1{advice}")
