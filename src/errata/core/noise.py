"""Label noise put in on purpose: a transition matrix says how often each true class is given each label.

Rows are true classes, columns given labels. A sample's truth is True where its label was changed.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.core.checks import Floats, Labels, check_labels, check_seed
from errata.errors import InputError

Draw = Literal["independent", "exact"]
MatrixFunction = Callable[[int, float], Floats]

NOISE_MODELS: dict[str, MatrixFunction] = {}


def noise_model(name: str) -> Callable[[MatrixFunction], MatrixFunction]:
    """Register a function from the number of classes and the noise rate to a transition matrix (K, K)."""

    def register(function: MatrixFunction) -> MatrixFunction:
        if name in NOISE_MODELS:
            raise InputError(f"there is already a noise model named {name}")
        NOISE_MODELS[name] = function
        return function

    return register


@noise_model("symmetric")
def symmetric_matrix(num_classes: int, rate: float) -> Floats:
    """Transition matrix (K, K): with probability `rate` a label becomes another class, each as likely."""
    _check_model(num_classes, rate)
    matrix = np.full((num_classes, num_classes), rate / (num_classes - 1))
    np.fill_diagonal(matrix, 1 - rate)
    return matrix


@noise_model("pairflip")
def pairflip_matrix(num_classes: int, rate: float) -> Floats:
    """Transition matrix (K, K): with probability `rate` a label becomes the next class, the last the first."""
    _check_model(num_classes, rate)
    stay = np.eye(num_classes)
    return (1 - rate) * stay + rate * np.roll(stay, 1, axis=1)


@dataclass(frozen=True, eq=False)
class NoisyLabels:
    """Labels after noise, and what was done to them."""

    labels: Labels
    """Given labels, (N,)."""
    truth: NDArray[np.bool_]
    """True where the label was changed, (N,)."""
    matrix: Floats
    """Transition matrix asked for, (K, K)."""
    realised: Labels
    """Counts that came of it, true class × given label, (K, K)."""
    draw: Draw
    seed: int

    @property
    def count(self) -> int:
        """Number of labels changed."""
        return int(self.truth.sum())

    @property
    def rate(self) -> float:
        """Fraction of labels changed."""
        return self.count / len(self.truth)

    @property
    def hash(self) -> str:
        """`label_hash` of the given labels."""
        return label_hash(self.labels)

    def metadata(self) -> dict[str, int | float | str]:
        """Plain values that identify this noise in a result file."""
        return {"count": self.count, "rate": self.rate, "hash": self.hash, "draw": self.draw, "seed": self.seed}


def inject(labels: ArrayLike, matrix: ArrayLike, *, draw: Draw = "independent", seed: int = 0) -> NoisyLabels:
    """Give every sample of `labels` (N,) a label from its class's row of `matrix` (K, K).

    "independent" draws each label on its own, so that the realised rate varies around the one asked for. "exact" gives
    every pair of classes its nearest whole number of samples and draws which samples those are.
    """
    if draw not in ("independent", "exact"):
        raise InputError(f"draw must be 'independent' or 'exact', not {draw!r}")
    transitions = _check_matrix(matrix)
    true = check_labels(labels, len(transitions))
    if not len(true):
        raise InputError("labels are empty")
    rng = np.random.default_rng(check_seed(seed))
    given = (_draw_independent if draw == "independent" else _draw_exact)(true, transitions, rng)
    return NoisyLabels(given, given != true, transitions, transition(true, given, len(transitions)), draw, int(seed))


def symmetric(
    labels: ArrayLike, rate: float, num_classes: int | None = None, *, draw: Draw = "independent", seed: int = 0
) -> NoisyLabels:
    """Symmetric noise on `labels` (N,): see `symmetric_matrix` and `inject`."""
    return inject(labels, symmetric_matrix(_count_classes(labels, num_classes), rate), draw=draw, seed=seed)


def pairflip(
    labels: ArrayLike, rate: float, num_classes: int | None = None, *, draw: Draw = "independent", seed: int = 0
) -> NoisyLabels:
    """Pairflip noise on `labels` (N,): see `pairflip_matrix` and `inject`."""
    return inject(labels, pairflip_matrix(_count_classes(labels, num_classes), rate), draw=draw, seed=seed)


def transition(true: ArrayLike, given: ArrayLike, num_classes: int) -> Labels:
    """Count samples by true class (row) and given label (column), both (N,), in a matrix (K, K)."""
    rows, columns = check_labels(true, num_classes), check_labels(given, num_classes)
    if len(rows) != len(columns):
        raise InputError(f"there are {len(rows)} true labels but {len(columns)} given ones")
    return np.bincount(rows * num_classes + columns, minlength=num_classes**2).reshape(num_classes, num_classes)


def label_hash(labels: ArrayLike) -> str:
    """SHA-256 of `labels` (N,) as little-endian int64: the same on every machine for the same labels."""
    return hashlib.sha256(_class_numbers(labels).astype("<i8").tobytes()).hexdigest()


def _draw_independent(true: Labels, matrix: Floats, rng: np.random.Generator) -> Labels:
    uniform = rng.random(len(true))
    given = np.empty_like(true)
    for row, members in zip(matrix, _members(true, len(matrix)), strict=True):
        cumulative = np.cumsum(row)
        # Divided by its own end, a row that sums to 1 - 1e-16 cannot leave a draw beyond the last possible class.
        given[members] = np.searchsorted(cumulative / cumulative[-1], uniform[members], side="right")
    return given


def _draw_exact(true: Labels, matrix: Floats, rng: np.random.Generator) -> Labels:
    given = np.empty_like(true)
    for row, members in zip(matrix, _members(true, len(matrix)), strict=True):
        counts = _largest_remainder(len(members) * row / row.sum(), rng)
        given[rng.permutation(members)] = np.repeat(np.arange(len(row)), counts)
    return given


def _largest_remainder(quotas: Floats, rng: np.random.Generator) -> Labels:
    """Whole numbers nearest to `quotas` (K,) with the same sum; equal remainders are served in random order."""
    # Rounded, so that remainders that differ by float error alone are equal, and no class is favoured for it.
    rounded = quotas.round(9)
    counts = np.floor(rounded).astype(np.int64)
    left = round(float(quotas.sum())) - int(counts.sum())
    first_served = np.lexsort((rng.permutation(len(quotas)), -(rounded - counts).round(9)))[:left]
    counts[first_served] += 1
    return counts


def _members(labels: Labels, num_classes: int) -> list[NDArray[np.intp]]:
    """Find the samples of each class, in sample order."""
    by_class = np.argsort(labels, kind="stable")
    return np.split(by_class, np.cumsum(np.bincount(labels, minlength=num_classes))[:-1])


def _class_numbers(labels: ArrayLike) -> Labels:
    """Labels of a number of classes that is not told."""
    return check_labels(labels, np.iinfo(np.int64).max)


def _count_classes(labels: ArrayLike, num_classes: int | None) -> int:
    """Count the classes up to the highest label, unless told."""
    return int(_class_numbers(labels).max(initial=-1)) + 1 if num_classes is None else num_classes


def _check_model(num_classes: int, rate: float) -> None:
    if num_classes < 2:
        raise InputError(f"label noise needs at least two classes, and there is {num_classes}")
    if not 0 <= rate <= 1:
        raise InputError(f"noise rate is {rate}, outside 0..1")


def _check_matrix(matrix: ArrayLike) -> Floats:
    """Copy a transition matrix (K, K) whose rows are probabilities."""
    checked = np.array(matrix, dtype=np.float64)
    if checked.ndim != 2 or checked.shape[0] != checked.shape[1] or len(checked) < 2:
        raise InputError(f"a transition matrix must have shape (K, K) with K at least 2, not {checked.shape}")
    outside = ~((checked >= 0) & (checked <= 1))
    if outside.any():
        row, column = (int(index) for index in np.argwhere(outside)[0])
        raise InputError(
            f"row {row} of the transition matrix has {checked[row, column]} in column {column}, outside 0..1"
        )
    sums = checked.sum(axis=1)
    off = np.abs(sums - 1) > 1e-6
    if off.any():
        row = int(np.flatnonzero(off)[0])
        raise InputError(f"row {row} of the transition matrix sums to {sums[row]:.9g}, not 1")
    return checked
