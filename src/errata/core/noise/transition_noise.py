"""Noise with one transition matrix for all samples: the probability of each given label for each true class.

A matrix (K, K) has one row per true class and one column per given label.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.core.checks import Floats, Labels, check_labels, check_seed, rows_by_class
from errata.errors import InputError

MatrixFunction = Callable[[int, float], Floats]

NOISE_MODELS: dict[str, MatrixFunction] = {}


def noise_model(name: str) -> Callable[[MatrixFunction], MatrixFunction]:
    """Register a function that returns a transition matrix (K, K) for a number of classes and a noise rate."""

    def register(function: MatrixFunction) -> MatrixFunction:
        if name in NOISE_MODELS:
            raise InputError(f"there is already a noise model named {name}")
        NOISE_MODELS[name] = function
        return function

    return register


@noise_model("symmetric")
def symmetric_matrix(num_classes: int, rate: float) -> Floats:
    """Transition matrix (K, K): with probability `rate` a label becomes another class, chosen uniformly.

    >>> import errata
    >>> errata.noise.symmetric_matrix(3, 0.2).tolist()
    [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
    """
    check_model(num_classes, rate)
    matrix = np.full((num_classes, num_classes), rate / (num_classes - 1))
    np.fill_diagonal(matrix, 1 - rate)
    return matrix


@noise_model("pairflip")
def pairflip_matrix(num_classes: int, rate: float) -> Floats:
    """Transition matrix (K, K): with probability `rate` a label becomes the next class, and the last the first.

    >>> import errata
    >>> errata.noise.pairflip_matrix(3, 0.25).tolist()
    [[0.75, 0.25, 0.0], [0.0, 0.75, 0.25], [0.25, 0.0, 0.75]]
    """
    check_model(num_classes, rate)
    stay = np.eye(num_classes)
    return (1 - rate) * stay + rate * np.roll(stay, 1, axis=1)


def asymmetric_matrix(num_classes: int, rate: float, flips: Mapping[int, int]) -> Floats:
    """Transition matrix (K, K): with probability `rate` a label `a` becomes `flips[a]`; other labels stay.

    With pairs of similar classes, this is the noise of Patrini et al. (2017), Making Deep Neural Networks Robust to
    Label Noise: A Loss Correction Approach.

    >>> import errata
    >>> errata.noise.asymmetric_matrix(3, 0.25, {2: 0}).tolist()  # a quarter of the class 2 is labelled 0
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.25, 0.0, 0.75]]
    """
    check_model(num_classes, rate)
    if not flips:
        raise InputError("flips are empty: name at least one class and the class that replaces it")
    matrix = np.eye(num_classes)
    for true, given in flips.items():
        for one in (true, given):
            if one not in range(num_classes):
                raise InputError(f"flips contain the class {one!r}, outside 0..{num_classes - 1}")
        if true == given:
            raise InputError(f"flips map class {true} to itself; name another class, or leave it out")
        matrix[true, [true, given]] = 1 - rate, rate
    return matrix


def check_model(num_classes: int, rate: float) -> None:
    """Refuse fewer than two classes, and a rate outside 0..1."""
    if num_classes < 2:
        raise InputError(f"label noise needs at least two classes, not {num_classes}")
    if not 0 <= rate <= 1:
        raise InputError(f"noise rate is {rate}, outside 0..1")


def check_matrix(matrix: ArrayLike) -> Floats:
    """A copy of a transition matrix (K, K), checked: its rows are probabilities."""
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


@dataclass(frozen=True, eq=False)
class NoisyLabels:
    """Labels with noise.

    >>> import errata
    >>> noisy = errata.noise.pairflip([0, 1, 2] * 100, 0.2, seed=0)
    >>> noisy.labels.shape, noisy.truth.dtype, noisy.realised.shape
    ((300,), dtype('bool'), (3, 3))
    """

    labels: Labels
    """Given labels, (N,)."""
    truth: NDArray[np.bool_]
    """True where the label is wrong, (N,)."""
    realised: Labels
    """Counts by true class (row) and given label (column), (K, K)."""
    seed: int

    @property
    def count(self) -> int:
        """Number of wrong labels.

        >>> import errata
        >>> errata.noise.symmetric([0, 1, 2], 1.0).count
        3
        """
        return int(self.truth.sum())

    @property
    def rate(self) -> float:
        """Fraction of wrong labels.

        >>> import errata
        >>> errata.noise.symmetric([0, 1, 2], 1.0).rate
        1.0
        """
        return self.count / len(self.truth)

    @property
    def hash(self) -> str:
        """`label_hash` of the given labels.

        >>> import errata
        >>> errata.noise.symmetric([0, 1, 2], 0.0).hash == errata.noise.label_hash([0, 1, 2])
        True
        """
        return label_hash(self.labels)

    def metadata(self) -> dict[str, int | float | str]:
        """Plain values that describe this noise in a result file.

        >>> import errata
        >>> sorted(errata.noise.symmetric([0, 1, 2], 0.2).metadata())
        ['count', 'hash', 'rate', 'seed']
        """
        return {"count": self.count, "rate": self.rate, "hash": self.hash, "seed": self.seed}


def inject(labels: ArrayLike, matrix: ArrayLike, *, seed: int = 0) -> NoisyLabels:
    """Draw a label for every sample of `labels` (N,) from its class's row of `matrix` (K, K), independently.

    >>> import errata
    >>> errata.noise.inject([0, 0, 1, 1], [[0.0, 1.0], [0.0, 1.0]]).labels.tolist()  # all of class 0 become 1
    [1, 1, 1, 1]
    """
    transitions = check_matrix(matrix)
    true = check_some_labels(labels, len(transitions))
    given = _draw_labels(true, transitions, np.random.default_rng(check_seed(seed)))
    return NoisyLabels(given, given != true, transition(true, given, len(transitions)), int(seed))


def symmetric(labels: ArrayLike, rate: float, num_classes: int | None = None, *, seed: int = 0) -> NoisyLabels:
    """Symmetric noise on `labels` (N,): see `symmetric_matrix` and `inject`.

    >>> import errata
    >>> noisy = errata.noise.symmetric([0, 1, 2] * 100, 0.2, seed=0)
    >>> noisy.count == noisy.truth.sum() and 0.1 < noisy.rate < 0.3
    True
    """
    return inject(labels, symmetric_matrix(count_classes(labels, num_classes), rate), seed=seed)


def pairflip(labels: ArrayLike, rate: float, num_classes: int | None = None, *, seed: int = 0) -> NoisyLabels:
    """Pairflip noise on `labels` (N,): see `pairflip_matrix` and `inject`.

    >>> import errata
    >>> errata.noise.pairflip([0, 1, 2], 1.0).labels.tolist()
    [1, 2, 0]
    """
    return inject(labels, pairflip_matrix(count_classes(labels, num_classes), rate), seed=seed)


def asymmetric(
    labels: ArrayLike, rate: float, flips: Mapping[int, int], num_classes: int | None = None, *, seed: int = 0
) -> NoisyLabels:
    """Asymmetric noise on `labels` (N,), from the classes in `flips`: see `asymmetric_matrix` and `inject`.

    >>> import errata
    >>> errata.noise.asymmetric([0, 1, 2], 1.0, {2: 0}).labels.tolist()
    [0, 1, 0]
    """
    return inject(labels, asymmetric_matrix(count_classes(labels, num_classes), rate, flips), seed=seed)


def transition(true: ArrayLike, given: ArrayLike, num_classes: int) -> Labels:
    """Counts (K, K) by true class (row) and given label (column), both (N,).

    >>> import errata
    >>> errata.noise.transition([0, 0, 1, 1], [0, 1, 1, 1], num_classes=2).tolist()
    [[1, 1], [0, 2]]
    """
    rows, columns = check_labels(true, num_classes), check_labels(given, num_classes)
    if len(rows) != len(columns):
        raise InputError(f"there are {len(rows)} true labels but {len(columns)} given ones")
    return np.bincount(rows * num_classes + columns, minlength=num_classes**2).reshape(num_classes, num_classes)


def label_hash(labels: ArrayLike) -> str:
    """SHA-256 of `labels` (N,) as little-endian int64, the same on every machine.

    >>> import errata
    >>> errata.noise.label_hash([0, 1, 2])[:8]
    'ab25350e'
    """
    return hashlib.sha256(check_labels(labels, None).astype("<i8").tobytes()).hexdigest()


def count_classes(labels: ArrayLike, num_classes: int | None) -> int:
    """The number of classes; None: the highest label + 1."""
    return int(check_labels(labels, None).max(initial=-1)) + 1 if num_classes is None else num_classes


def check_some_labels(labels: ArrayLike, num_classes: int) -> Labels:
    """Labels (N,) of `num_classes` classes; N must not be 0."""
    checked = check_labels(labels, num_classes)
    if not len(checked):
        raise InputError("labels are empty")
    return checked


def _draw_labels(true: Labels, matrix: Floats, rng: np.random.Generator) -> Labels:
    uniform = rng.random(len(true))
    given = np.empty_like(true)
    for row, rows in zip(matrix, rows_by_class(true, len(matrix)), strict=True):
        cumulative = np.cumsum(row)
        # Divided by the last value, because a row may sum to 1 - 1e-16.
        given[rows] = np.searchsorted(cumulative / cumulative[-1], uniform[rows], side="right")
    return given
