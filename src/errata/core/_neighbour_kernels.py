"""Compiled loops of the neighbour search: which points may be among the nearest, and their distances."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from errata.core._neighbour_points import COSINE_NOISE, SAME_IN_FLOAT32, Cloud, Rounded
from errata.core.jit import compiled

Rows = NDArray[np.int64]
Indices = NDArray[np.int32]

OVERFLOW = -1
"""The count of a row that has more candidates than fit."""

_CHUNK = 64  # products that are compared together, without a branch for each


class Candidates(NamedTuple):
    """Points that may be among the k nearest of n rows: the first `counts` (n,) of each row of `points` (n, room).

    They are sorted by row number. `lows` (n, room) are lower bounds of the squared distances, without the term that is
    the same for the whole row. `limits` (n,) are the k-th smallest upper bounds.
    """

    points: Indices
    lows: NDArray[Any]
    counts: Indices
    limits: NDArray[Any]


@compiled
def add_candidates(
    products: NDArray[Any], start: int, rows: Rows, k: int, near: Rounded, candidates: Candidates
) -> None:
    """Add the candidates among the points from `start` on; products (n, W) are -2 times those with `rows` (n,)."""
    width, room = products.shape[1], candidates.points.shape[1]
    for r in range(len(rows)):
        count, limit = candidates.counts[r], candidates.limits[r]
        for chunk in range(0, width, _CHUNK):
            if count == OVERFLOW:
                break
            # Loops over slices that start at 0 are vectorised by the compiler.
            part, lows = products[r, chunk : chunk + _CHUNK], near.lows[start + chunk : start + chunk + _CHUNK]
            hits = np.int32(0)
            for j in range(len(part)):
                hits += np.int32(lows[j] + part[j] <= limit)
            if hits == 0:
                continue
            for j in range(len(part)):
                low, point = lows[j] + part[j], start + chunk + j
                if low > limit or point == rows[r]:
                    continue
                if count == room:
                    count, candidates.limits[r] = tighten(rows[r], k, near, candidates.points[r], candidates.lows[r])
                    limit = candidates.limits[r]
                    if count == room:
                        count = OVERFLOW
                        break
                    if low > limit:
                        continue
                candidates.points[r, count] = point
                candidates.lows[r, count] = low
                count += 1
        candidates.counts[r] = count


@compiled
def tighten(row: int, k: int, near: Rounded, points: Indices, lows: NDArray[Any]) -> tuple[int, float]:
    """Drop candidates of a row that cannot be among its k nearest; returns how many remain, and their limit."""
    highs = np.empty(len(lows))
    for c in range(len(points)):
        highs[c] = lows[c] + 2 * (near.slack * (near.squares[row] + near.squares[points[c]]) + near.floor)
    limit = nth_smallest(highs, k)
    limit += SAME_IN_FLOAT32 * max(0.0, limit + near.squares[row])
    remaining = 0
    for c in range(len(points)):
        if lows[c] <= limit:
            points[remaining] = points[c]
            lows[remaining] = lows[c]
            remaining += 1
    return remaining, limit


@compiled
def nth_smallest(values: NDArray[Any], n: int) -> Any:
    """The n-th smallest of `values` (n from 1), by quickselect, which reorders them.

    numba compiles this in a tenth of a second, and np.partition in five.
    """
    place, start, end = n - 1, 0, len(values) - 1
    while start < end:
        pivot, i, j = values[(start + end) // 2], start, end
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if place <= j:
            end = j
        elif place >= i:
            start = i
        else:
            break
    return values[place]


@compiled
def select_nearest(
    rows: Rows, cloud: Cloud, near: Rounded, candidates: Candidates, index: Indices, distance: NDArray[np.float32]
) -> None:
    """Write the k nearest candidates of each row to `index` and `distance` (n, k), except for rows that overflowed."""
    k = index.shape[1]
    for r in range(len(rows)):
        count = candidates.counts[r]
        if count != OVERFLOW:
            count, _ = tighten(rows[r], k, near, candidates.points[r, :count], candidates.lows[r, :count])
            nearest_among(rows[r], candidates.points[r, :count], cloud, index[r], distance[r])


@compiled
def nearest_among(row: int, candidates: Indices, cloud: Cloud, index: Indices, distance: NDArray[np.float32]) -> None:
    """Write the k nearest of a row among candidates sorted by row number; of equal ones the lower row comes first.

    An insertion sort: there are hardly more than k candidates.
    """
    k = len(index)
    for c in range(len(candidates)):
        candidate = distance_between(row, candidates[c], cloud)
        if c >= k and candidate >= distance[k - 1]:
            continue
        place = min(c, k - 1)
        while place > 0 and distance[place - 1] > candidate:
            index[place] = index[place - 1]
            distance[place] = distance[place - 1]
            place -= 1
        index[place] = candidates[c]
        distance[place] = candidate


@compiled
def nearest_of_all(rows: Rows, cloud: Cloud, index: Indices, distance: NDArray[np.float32]) -> None:
    """Write the k nearest of each row from its distances to all points."""
    samples, k = len(cloud.points), index.shape[1]
    distances = np.empty(samples, dtype=np.float32)
    candidates = np.empty(k, dtype=np.int32)
    for r in range(len(rows)):
        for j in range(samples):
            distances[j] = distance_between(rows[r], j, cloud)
        distances[rows[r]] = np.inf
        last = nth_smallest(distances.copy(), k)
        ties_left = k
        for j in range(samples):
            ties_left -= distances[j] < last
        count = 0
        for j in range(samples):
            if distances[j] < last or (distances[j] == last and ties_left > 0):
                ties_left -= distances[j] == last
                candidates[count] = j
                count += 1
        nearest_among(rows[r], candidates, cloud, index[r], distance[r])


@compiled
def distance_between(i: int, j: int, cloud: Cloud) -> np.float32:
    """The distance of two points; with the cosine metric, a row of zeros has distance 1 to all others."""
    points, scale_i, scale_j = cloud.points, cloud.scale[i], cloud.scale[j]
    if scale_i == 0 or scale_j == 0:
        return np.float32(1)
    columns = points.shape[1]
    in_fours = columns - columns % 4
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0  # independent sums, which run in parallel
    for d in range(0, in_fours, 4):
        a = points[i, d] * scale_i - points[j, d] * scale_j
        b = points[i, d + 1] * scale_i - points[j, d + 1] * scale_j
        c = points[i, d + 2] * scale_i - points[j, d + 2] * scale_j
        e = points[i, d + 3] * scale_i - points[j, d + 3] * scale_j
        first, second, third, fourth = first + a * a, second + b * b, third + c * c, fourth + e * e
    for d in range(in_fours, columns):
        a = points[i, d] * scale_i - points[j, d] * scale_j
        first += a * a
    squared = (first + second) + (third + fourth)
    if not cloud.cosine:
        return np.float32(np.sqrt(squared))
    return np.float32(0) if squared < COSINE_NOISE else np.float32(squared / 2)


@compiled
def nearest_of_links(
    rows: Rows,
    linked: Indices,
    cloud: Cloud,
    enough: NDArray[np.bool_],
    index: Indices,
    distance: NDArray[np.float32],
) -> None:
    """Write the k nearest of each row among its sorted links (n, links), without -1 and the row itself.

    Sets `enough` (n,) where a row is linked to k others; the other rows are not written.
    """
    candidates = np.empty(linked.shape[1], dtype=np.int32)
    for r in range(len(rows)):
        count = 0
        for point in linked[r]:
            if point >= 0 and point != rows[r]:
                candidates[count] = point
                count += 1
        enough[r] = count >= index.shape[1]
        if enough[r]:
            nearest_among(rows[r], candidates[:count], cloud, index[r], distance[r])
