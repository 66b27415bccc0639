"""Transition matrices: the probability of each given label (column) for each true class (row)."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from errata.core.checks import Floats
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
    """Transition matrix (K, K): with probability `rate` a label becomes another class, chosen uniformly."""
    check_model(num_classes, rate)
    matrix = np.full((num_classes, num_classes), rate / (num_classes - 1))
    np.fill_diagonal(matrix, 1 - rate)
    return matrix


@noise_model("pairflip")
def pairflip_matrix(num_classes: int, rate: float) -> Floats:
    """Transition matrix (K, K): with probability `rate` a label becomes the next class, and the last the first."""
    check_model(num_classes, rate)
    stay = np.eye(num_classes)
    return (1 - rate) * stay + rate * np.roll(stay, 1, axis=1)


def asymmetric_matrix(num_classes: int, rate: float, flips: Mapping[int, int]) -> Floats:
    """Transition matrix (K, K): with probability `rate` a label `a` becomes `flips[a]`; other labels stay.

    With pairs of similar classes, this is the noise of Patrini et al. (2017), Making Deep Neural Networks Robust to
    Label Noise: A Loss Correction Approach.
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
