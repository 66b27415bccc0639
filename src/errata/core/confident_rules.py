"""The rules of confident learning that the paper and cleanlab 2.9 do not share; `confident_learning` goes by them."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from errata.core._cleanlab_counts import cleanlab_calibrated

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Probabilities = NDArray[Any]  # (N, K) float32 or float64
Rows = NDArray[Any]  # row numbers, of the narrowest integer type that holds N

CLEANLAB_SLACK = 1e-6
CLASS_BLOCKS = 64


class Rules(NamedTuple):
    """Where the paper and cleanlab part."""

    spares_predicted: bool  # whether a sample that is predicted as it is labelled is never flagged
    slack: float  # added to the label's probability before the arg max is compared with it
    thresholds: Callable[[Probabilities, list[Rows]], Floats]
    calibrated: Callable[[Counts, Counts], NDArray[Any]]
    order: Callable[[NDArray[Any], Probabilities, Rows], NDArray[np.intp]]  # largest first; what of equal ones
    margin_precision: type[np.floating[Any]]  # margins are taken in this or in that of P, whichever is finer


def over_classes(members: list[Rows], work: Callable[[int, Rows], None]) -> None:
    """Call `work` with every class that has samples, and their rows, over the cores."""
    from errata.core.jit import over_blocks

    def work_block(classes: slice) -> None:
        for k in range(classes.start, classes.stop):
            if len(members[k]):
                work(k, members[k])

    over_blocks(len(members), max(1, len(members) // CLASS_BLOCKS), work_block)


def _class_means(P: Probabilities, members: list[Rows], mean: Callable[..., Any], absent: float) -> list[Any]:
    means: list[Any] = [absent] * len(members)

    def average(k: int, rows: Rows) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # a row that is not finite is refused when it is read
            means[k] = mean(P[rows, k])

    over_classes(members, average)
    return means


# The paper's formulas.


def _thresholds(P: Probabilities, members: list[Rows]) -> Floats:
    """Mean self-confidence of every class, infinite for a class without samples."""
    return np.array(_class_means(P, members, _rounded_once, absent=np.inf))


def _rounded_once(values: NDArray[Any]) -> float:
    """Mean that is the same in any order of rows, and that values which are all alike therefore reach."""
    from errata.core._confident_kernels import compensated_sum

    total, remainder = compensated_sum(values)
    return float((Fraction(total) + Fraction(remainder)) / len(values)) if np.isfinite(total) else total


def _calibrated(counts: Counts, class_counts: Counts) -> Floats:
    """N·Q (K, K); a class without any confident sample is taken to be clean."""
    confident = counts.sum(axis=1)
    certain = counts + np.diag(confident == 0)
    calibrated: Floats = certain * class_counts[:, None] / np.maximum(confident, 1)[:, None]
    return calibrated


def _hashed_order(values: NDArray[Any], P: Probabilities, rows: Rows) -> NDArray[np.intp]:
    """Largest value first; equal values by a hash of their probabilities, so that the order of rows does not matter.

    Samples with the very same probabilities cannot be told apart: among them a hash of the row number decides, because
    files are often sorted.
    """
    content = np.zeros(len(rows), np.uint64)
    for k in range(P.shape[1]):
        column = P[rows, k].astype(np.float64).view(np.uint64)
        content = _mixed(content + column)
    return np.lexsort((_mixed(rows.astype(np.uint64)), content, -values))


def _mixed(h: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The splitmix64 hash of every number."""
    h = h + np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


# What cleanlab 2.9 does differently.


def cleanlab_self_confidence(P: Probabilities, members: list[Rows]) -> NDArray[Any]:
    """Mean self-confidence of every class (K,) in the precision of P, at least twice the slack; 2 without samples."""
    # The whole number 2 in the list makes float64 of float32 means, as it does in cleanlab.
    means: NDArray[Any] = np.clip(_class_means(P, members, np.mean, absent=2), 2 * CLEANLAB_SLACK, None)
    return means


def _cleanlab_thresholds(P: Probabilities, members: list[Rows]) -> Floats:
    return (cleanlab_self_confidence(P, members) - CLEANLAB_SLACK).astype(np.float64)


def _cleanlab_order(values: NDArray[Any], P: Probabilities, rows: Rows) -> NDArray[np.intp]:
    """Largest value first; equal values as numpy's default sort happens to leave them, which is what cleanlab does."""
    return np.argsort(-values)


PAPER = Rules(False, 0.0, _thresholds, _calibrated, _hashed_order, np.float64)
CLEANLAB = Rules(True, CLEANLAB_SLACK, _cleanlab_thresholds, cleanlab_calibrated, _cleanlab_order, np.float32)
