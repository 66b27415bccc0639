"""Confident learning: flag labels that contradict the classes a model is confident in (Northcutt et al., 2021).

A row of the probabilities P (N, K) is *confident* in class k if P_k reaches the threshold t_k, the mean of P_k over the
samples labelled k. If several classes reach theirs, it is confident in the arg max of the row, as cleanlab does. The
confident joint counts samples by given label and confident class. Calibrated, it estimates how
many samples labelled i are truly of class j. The variants flag:

- CC: samples whose arg max is not the label;
- CYY: samples whose confident class is not the label;
- PBC (prune by class): in every class the estimated number of errors, lowest self-confidence P_i first;
- PBNR (prune by noise rate): for each pair i, j the estimated number of samples, largest margin P_j − P_i first.

The rules CLEANLAB follow cleanlab 2.9 where it differs from these formulas, and flag exactly the same samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from errata.core._confident_kernels import ROUNDING, confident_classes, flag_largest, flag_margins
from errata.core.aggregations import Last
from errata.core.checks import Floats, Labels, as_numpy, check_labels, rows_by_class
from errata.core.confident_rules import CLEANLAB, PAPER, Counts, Probabilities, Rows, Rules, over_classes
from errata.core.jit import over_blocks
from errata.core.method_parts import Detector, MethodResult, SampleArrays, VectorAggregation
from errata.core.method_registry import register
from errata.core.sample_context import SampleContext
from errata.errors import InputError

Flags = NDArray[np.bool_]
Classes = NDArray[Any]  # class numbers, of a narrow integer type

VARIANTS = ("CC", "CYY", "PBC", "PBNR")
VALUES_PER_BLOCK = 2**20
UNFLAGGED_SCORE = -1.0
SMALLEST_PROBABILITY = np.nextafter(0.0, 1.0)  # replaces 0, whose logarithm is not finite


@register
@dataclass(frozen=True)
class ConfidentLearning(Detector):
    """Confident learning on the probabilities of the last epoch: flags, with flagged samples ranked by self-confidence.

    cleanlab: flag exactly the samples that cleanlab 2.9 flags.
    """

    registered_name = "CL"
    variants = VARIANTS
    aggregation: ClassVar[VectorAggregation] = Last()
    known_from = ("confident learning",)
    why_not_in_paper = ""

    cleanlab: bool = False

    def sample_arrays(self, state: SampleArrays, labels: Labels, epochs: int) -> SampleArrays:
        """Probabilities (n, K) of the last epoch."""
        return {"probabilities": softmax(state["logits"], axis=-1)}

    def result(self, arrays: SampleArrays, labels: Labels, budget: int | None, context: SampleContext) -> MethodResult:
        """Flags, and scores that rank flagged samples first."""
        flagged = flags(arrays["probabilities"], labels, self.variant, CLEANLAB if self.cleanlab else PAPER)
        return MethodResult(scores(flagged, arrays["probabilities"], labels), flagged)


def flags(probabilities: Probabilities, labels: ArrayLike, variant: str, rules: Rules = PAPER) -> Flags:
    """The samples (N,) that a variant flags, by the paper's formulas or exactly as cleanlab 2.9."""
    P, y = check_probabilities(probabilities, labels)
    K = P.shape[1]
    if variant == "CC":
        _, disagrees = find_confident_classes(P, y, np.full(K, np.inf), rules.slack)
        return disagrees
    members = members_of_classes(y, K)
    confident, disagrees = find_confident_classes(P, y, rules.thresholds(P, members), rules.slack)
    if variant == "CYY":
        flagged: Flags = (confident != y) & (confident >= 0)
    else:
        joint = rules.calibrated(count_confident(confident, members), np.array([len(rows) for rows in members]))
        del confident
        prune = {"PBC": _prune_by_class, "PBNR": _prune_by_noise_rate}[variant]
        flagged = prune(P, members, joint, rules)
    return flagged & disagrees if rules.spares_predicted else flagged


def scores(flagged: Flags, probabilities: Probabilities, labels: Labels) -> Floats:
    """Scores (N,): −log of the self-confidence (0 or more) for flagged samples, −1 for all others."""
    rows = np.flatnonzero(flagged)
    self_confidence = probabilities[rows, labels[rows]].astype(np.float64)
    result = np.full(len(labels), UNFLAGGED_SCORE)
    result[rows] = 0.0 - np.log(np.clip(self_confidence, SMALLEST_PROBABILITY, 1.0))
    return result


def confident_joint(probabilities: Probabilities, labels: ArrayLike) -> Counts:
    """Counts C (K, K): C[i, j] samples labelled i are confident in class j; the rest is not counted."""
    P, y = check_probabilities(probabilities, labels)
    members = members_of_classes(y, P.shape[1])
    confident, _ = find_confident_classes(P, y, PAPER.thresholds(P, members), PAPER.slack)
    return count_confident(confident, members)


def calibrate(counts: Counts, class_counts: Counts) -> Floats:
    """Joint distribution Q (K, K) of given and true labels, from a confident joint and the class sizes (K,)."""
    Q: Floats = PAPER.calibrated(counts, class_counts) / class_counts.sum()
    return Q


# Steps of the formulas.


def members_of_classes(y: Classes, num_classes: int) -> list[Rows]:
    """The rows of every class, ascending."""
    narrow = np.int32 if len(y) <= np.iinfo(np.int32).max else np.int64  # half of the memory
    return [rows.astype(narrow) for rows in rows_by_class(y, num_classes)]


def find_confident_classes(P: Probabilities, y: Classes, thresholds: Floats, slack: float) -> tuple[Classes, Flags]:
    """The confident class (N,), −1 for none, and whether the arg max is not the label (N,), in one pass over P.

    Refuses the first row that is not a probability distribution.
    """
    confident, disagrees = np.empty_like(y), np.empty(len(y), np.bool_)

    def work(block: slice) -> None:
        invalid = confident_classes(
            P[block], y[block], thresholds, P.dtype.type(slack), confident[block], disagrees[block]
        )
        if invalid >= 0:
            _refuse(P, block.start + invalid)

    over_blocks(len(P), max(1, VALUES_PER_BLOCK // P.shape[1]), work)
    return confident, disagrees


def count_confident(confident: Classes, members: list[Rows]) -> Counts:
    """Counts (K, K) of samples by label and confident class."""
    classes = len(members)
    with_none = [np.bincount(confident[rows] + 1, minlength=classes + 1) for rows in members]
    return np.array(with_none)[:, 1:]


def _prune_by_class(P: Probabilities, members: list[Rows], joint: NDArray[Any], rules: Rules) -> Flags:
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


def check_probabilities(
    probabilities: Any, labels: ArrayLike, classes: Sequence[Any] | None = None
) -> tuple[Probabilities, Classes]:
    """Probabilities as a read-only view (values are checked later, when they are read), and labels of a narrow type."""
    P = as_numpy(probabilities)
    if P.ndim != 2 or len(P) == 0 or P.shape[1] < 2:
        raise InputError(f"probabilities must have shape (N, K) with N of 1 or more and K of 2 or more, not {P.shape}")
    if P.dtype not in (np.float32, np.float64):
        raise InputError(f"probabilities must be float32 or float64, not {P.dtype}")
    y = check_labels(labels, P.shape[1], classes)
    if len(y) != len(P):
        raise InputError(f"there are {len(y)} labels for {len(P)} rows of probabilities")
    P = P.view()
    P.flags.writeable = False
    return P, y.astype(np.int16 if P.shape[1] <= np.iinfo(np.int16).max else np.int32)


def _refuse(P: Probabilities, row: int) -> NoReturn:
    outside = np.flatnonzero(~((P[row] >= -ROUNDING) & (P[row] <= 1 + ROUNDING)))
    if not len(outside):
        raise InputError(f"probabilities of sample {row} sum to {P[row].sum(dtype=np.float64):.6g}, not to 1")
    value = P[row, outside[0]]
    advice = ": these are probably logits, pass their softmax" if np.isfinite(value) else ""
    raise InputError(f"probability of sample {row} for class {outside[0]} is {value}, not within 0..1{advice}")
