"""Points prepared for a neighbour search: checked, and in coordinates whose rounding errors are known."""

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

from errata.core.checks import as_numpy
from errata.core.jit import BLOCK_ELEMENTS, row_blocks
from errata.errors import InputError

Metric = Literal["euclidean", "cosine"]

_UNDERFLOW = float(np.finfo(np.float32).tiny)  # smaller distances are not told apart in float32
_DIRECTION_NOISE = 1e-15  # nor, between rows of length 1, smaller ones in float64: such rows point the same way

COSINE_NOISE = _DIRECTION_NOISE**2
"""A squared distance between rows of length 1 below this is rounding."""

SAME_IN_FLOAT32 = 3 * float(np.finfo(np.float32).eps)
"""Squared distances closer than this, relatively, may be the same distance once it is rounded to float32."""

_LARGEST = 1e30  # distances between points up to here fit into float32
_SHORTEST = 1e-140  # the square of anything shorter is lost in float64: a row of zeros, as far as its direction goes


class Cloud(NamedTuple):
    """Points (N, D) as given; a distance is between two rows, each times its scale (N,).

    The scale is 1, or by cosine 1 over a row's length, and 0 for a row of zeros.
    """

    points: NDArray[Any]
    scale: NDArray[np.float64]
    cosine: bool


class Rounded(NamedTuple):
    """Coordinates (N, D) from the centre of the cloud, rounded to their type, and their squared lengths (N,).

    The sum of two squares less twice the product is off the squared distance, in units of the coordinates, by at most
    `slack` times the sum of the squares, plus `floor`; `lows` (N,) are the squares less `slack` times themselves.
    """

    coordinates: NDArray[Any]
    squares: NDArray[np.float64]
    lows: NDArray[Any]
    slack: float
    floor: float


def cloud_of(points: Any, k: int, metric: str) -> Cloud:
    """The points, once they are known to be finite numbers of which each has k neighbours."""
    given = as_numpy(points)
    if given.ndim != 2 or given.shape[1] == 0:
        raise InputError(f"points must have shape (samples, columns), not {given.shape}")
    if given.dtype.kind not in "fiub":
        raise InputError(f"points must be numbers, not {given.dtype}")
    if metric not in get_args(Metric):
        raise InputError(f"metric must be euclidean or cosine, not {metric!r}")
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise InputError(f"k must be a whole number of neighbours, at least 1, not {k!r}")
    if k >= len(given):
        raise InputError(f"k is {k}, but {len(given)} points have at most {len(given) - 1} neighbours each; lower k")
    kept = np.require(given, _kept_as(given.dtype), ["C_CONTIGUOUS", "ALIGNED"]).view(np.ndarray)
    kept.flags.writeable = False  # kernels are compiled for one kind of array only
    lengths = np.concatenate([_lengths(kept[block], block.start) for block in _blocks(kept)])
    if metric == "euclidean":
        return Cloud(kept, np.ones(len(kept)), False)
    return Cloud(kept, np.where(lengths < _SHORTEST, 0, 1 / np.maximum(lengths, _SHORTEST)), True)


def rounded(cloud: Cloud, dtype: DTypeLike) -> Rounded:
    """The cloud around its centre in float32 or float64, in units of a power of two so that no square overflows."""
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
        # As if in a column of its own: a row of zeros is then as far from rows of length 1 as they are at right angles.
        squares += (scale == 0) / unit**2
    # A sum of D products is off by at most D roundings of half an eps, relative to the lengths of the rows; the rest
    # allows for the rounding of the coordinates themselves and of the sums that follow.
    slack = (columns + 32) * float(precise.eps) / 2
    floor = columns * float(precise.tiny) + float(blur / unit) ** 2
    return Rounded(coordinates, squares, (squares * (1 - slack)).astype(dtype), slack, floor)


def _kept_as(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    """A type that loops are compiled for and that holds the values: whole numbers need float64."""
    return np.float32 if dtype.kind in "fb" and dtype.itemsize <= 4 else np.float64


def _blocks(points: NDArray[Any]) -> list[slice]:
    return list(row_blocks(len(points), max(1, BLOCK_ELEMENTS // points.shape[1])))


def _lengths(points: NDArray[Any], start: int) -> NDArray[np.float64]:
    """Lengths (n,) of a block of rows, the first of which is row `start`; refuses what has no distance."""
    values = points.astype(np.float64)
    refused = ~(np.abs(values) <= _LARGEST).all(axis=1)
    if refused.any():
        row = int(np.argmax(refused))
        value = values[row][~(np.abs(values[row]) <= _LARGEST)][0]
        why = "too large for a distance in float32; scale the points" if np.isfinite(value) else "not a finite number"
        raise InputError(f"point of sample {start + row} holds {value:g}, {why}")
    lengths: NDArray[np.float64] = np.linalg.norm(values, axis=1)
    return lengths
