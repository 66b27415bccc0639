"""Points prepared for a neighbour search: checked, and in coordinates with bounds on their rounding errors."""

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

from errata.core.checks import as_numpy
from errata.core.jit import BLOCK_ELEMENTS, row_blocks
from errata.errors import InputError

Metric = Literal["euclidean", "cosine"]

_UNDERFLOW = float(np.finfo(np.float32).tiny)  # the smallest distance that float32 represents exactly
_DIRECTION_NOISE = 1e-15  # rows of length 1 that are closer than this have the same direction in float64

COSINE_NOISE = _DIRECTION_NOISE**2
"""Squared distances below this, between rows of length 1, are rounding errors."""

SAME_IN_FLOAT32 = 3 * float(np.finfo(np.float32).eps)
"""Squared distances with a smaller relative difference may be equal distances in float32."""

_LARGEST = 1e30  # the largest coordinate whose distances fit into float32
_SHORTEST = 1e-140  # the squares of shorter rows underflow in float64; they count as rows of zeros


class Neighbours(NamedTuple):
    """The k nearest points of each of n rows, nearest first, without the row itself: index and distance (n, k)."""

    index: NDArray[np.int32]  # type: ignore[assignment]  # hides tuple.index, which is not used here
    distance: NDArray[np.float32]

    @classmethod
    def empty(cls, rows: int, k: int) -> "Neighbours":
        """Arrays to write to."""
        return cls(np.empty((rows, k), dtype=np.int32), np.empty((rows, k), dtype=np.float32))


class Cloud(NamedTuple):
    """Points (N, D). Distances are between rows multiplied by their scale (N,).

    The scale is 1; with the cosine metric it is 1 / length of the row, and 0 for a row of zeros.
    """

    points: NDArray[Any]
    scale: NDArray[np.float64]
    cosine: bool


class Rounded(NamedTuple):
    """Coordinates (N, D) relative to the centre of the cloud, rounded to their type, and their squared lengths (N,).

    For two points a and b, |a|² + |b|² - 2 a·b differs from the squared distance by at most
    `slack` · (|a|² + |b|²) + `floor`. `lows` (N,) are the squared lengths times (1 - slack).
    """

    coordinates: NDArray[Any]
    squares: NDArray[np.float64]
    lows: NDArray[Any]
    slack: float
    floor: float


def prepare_points(points: Any, k: int, metric: str, name: str = "points") -> Cloud:
    """Check that the points (N, D) are finite numbers and that each has k neighbours. name: for messages."""
    array = as_numpy(points, name)
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"{name} must have shape (samples, columns), not {array.shape}")
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must be numbers, not {array.dtype}")
    if metric not in get_args(Metric):
        raise InputError(f"metric must be euclidean or cosine, not {metric!r}")
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise InputError(f"k must be a whole number of neighbours, at least 1, not {k!r}")
    if k >= len(array):
        raise InputError(f"k is {k}, but {len(array)} points have at most {len(array) - 1} neighbours each; lower k")
    stored = np.require(array, _stored_type(array.dtype), ["C_CONTIGUOUS", "ALIGNED"]).view(np.ndarray)
    stored.flags.writeable = False  # so that the kernels are compiled for one kind of array only
    lengths = np.concatenate([_lengths(stored[block], block.start, name) for block in _blocks(stored)])
    if metric == "euclidean":
        return Cloud(stored, np.ones(len(stored)), False)
    return Cloud(stored, np.where(lengths < _SHORTEST, 0, 1 / np.maximum(lengths, _SHORTEST)), True)


def rounded(cloud: Cloud, dtype: DTypeLike) -> Rounded:
    """The cloud relative to its centre in float32 or float64, scaled by a power of two so that no square overflows."""
    points, scale, cosine = cloud
    samples, columns = points.shape
    total, lowest, highest = np.zeros(columns), np.full(columns, np.inf), np.full(columns, -np.inf)
    for block in _blocks(points):
        scaled = points[block] * scale[block, None]
        total += scaled.sum(axis=0)
        lowest, highest = np.minimum(lowest, scaled.min(axis=0)), np.maximum(highest, scaled.max(axis=0))
    centre = total / samples
    blur = _DIRECTION_NOISE if cosine else _UNDERFLOW
    unit = np.exp2(np.ceil(np.log2(max(np.max(highest - centre), np.max(centre - lowest), blur))))

    precise = np.finfo(np.dtype(dtype))
    coordinates, squares = np.empty(points.shape, dtype), np.empty(samples)
    for block in _blocks(points):
        coordinates[block] = (points[block] * scale[block, None] - centre) / unit
        squares[block] = np.square(coordinates[block], dtype=np.float64).sum(axis=1)
    if cosine:
        # As if rows of zeros had an additional column: they are then as far from rows of length 1 as a right angle is.
        squares += (scale == 0) / unit**2
    # The error of a sum of D products is at most D · eps / 2, relative to the lengths of the rows. The other 32 cover
    # the rounding of the coordinates and of later sums.
    slack = (columns + 32) * float(precise.eps) / 2
    floor = columns * float(precise.tiny) + float(blur / unit) ** 2
    return Rounded(coordinates, squares, (squares * (1 - slack)).astype(dtype), slack, floor)


def _stored_type(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    """float32 or float64, for which the kernels are compiled; integers need float64."""
    return np.float32 if dtype.kind in "fb" and dtype.itemsize <= 4 else np.float64


def _blocks(points: NDArray[Any]) -> list[slice]:
    return list(row_blocks(len(points), max(1, BLOCK_ELEMENTS // points.shape[1])))


def _lengths(points: NDArray[Any], start: int, name: str) -> NDArray[np.float64]:
    """Lengths (n,) of a block of rows that begins at row `start`; refuses values without a distance in float32."""
    values = points.astype(np.float64)
    refused = ~(np.abs(values) <= _LARGEST).all(axis=1)
    if refused.any():
        row = int(np.argmax(refused))
        value = values[row][~(np.abs(values[row]) <= _LARGEST)][0]
        why = "too large for a distance in float32; scale the points" if np.isfinite(value) else "not a finite number"
        raise InputError(f"{name}: the point of sample {start + row} holds {value:g}, {why}")
    lengths: NDArray[np.float64] = np.linalg.norm(values, axis=1)
    return lengths
