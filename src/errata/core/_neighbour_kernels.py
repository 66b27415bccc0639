"""The loops of the neighbour search, compiled: which points may be among the nearest, and the distances of those."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from errata.core._neighbour_points import COSINE_NOISE, SAME_IN_FLOAT32, Cloud, Rounded
from errata.core.jit import compiled

Rows = NDArray[np.int64]
Found = NDArray[np.int32]

GIVEN_UP = -1
"""The count of a row that has more candidates than there is room for."""

_CHUNK = 64  # products looked at together: whether one of them is near is decided without a branch for each


class Candidates(NamedTuple):
    """Points that may be among the k nearest of n rows: each row's `counts` (n,) of them in `points` (n, room).

    They stand in the order of their rows. `lows` (n, room) are the lowest squared distances they may have, less what is
    the same for the whole row, and `limits` (n,) the k-th smallest of the highest they may have.
    """

    points: Found
    lows: NDArray[Any]
    counts: Found
    limits: NDArray[Any]


@compiled
def take_in(products: NDArray[Any], start: int, rows: Rows, k: int, near: Rounded, found: Candidates) -> None:
    """Keep the candidates among the points from `start` on, from -2 times their products (n, W) with `rows` (n,)."""
    width, room = products.shape[1], found.points.shape[1]
    for r in range(len(rows)):
        count, limit = found.counts[r], found.limits[r]
        for chunk in range(0, width, _CHUNK):
            if count == GIVEN_UP:
                break
            # Slices whose loops start at 0 let the compiler look at many products in one instruction.
            seen, lows = products[r, chunk : chunk + _CHUNK], near.lows[start + chunk : start + chunk + _CHUNK]
            hits = np.int32(0)
            for j in range(len(seen)):
                hits += np.int32(lows[j] + seen[j] <= limit)
            if hits == 0:
                continue
            for j in range(len(seen)):
                low, point = lows[j] + seen[j], start + chunk + j
                if low > limit or point == rows[r]:
                    continue
                if count == room:
                    count, found.limits[r] = tighten(rows[r], k, near, found.points[r], found.lows[r])
                    limit = found.limits[r]
                    if count == room:
                        count = GIVEN_UP
                        break
                    if low > limit:
                        continue
                found.points[r, count] = point
                found.lows[r, count] = low
                count += 1
        found.counts[r] = count


@compiled
def tighten(row: int, k: int, near: Rounded, points: Found, lows: NDArray[Any]) -> tuple[int, float]:
    """Drop the candidates of a row that are surely beyond its k nearest; returns how many stay, and their limit."""
    highs = np.empty(len(lows))
    for c in range(len(points)):
        highs[c] = lows[c] + 2 * (near.slack * (near.squares[row] + near.squares[points[c]]) + near.floor)
    limit = np.partition(highs, k - 1)[k - 1]
    limit += SAME_IN_FLOAT32 * max(0.0, limit + near.squares[row])
    stay = 0
    for c in range(len(points)):
        if lows[c] <= limit:
            points[stay] = points[c]
            lows[stay] = lows[c]
            stay += 1
    return stay, limit


@compiled
def settle(
    rows: Rows, cloud: Cloud, near: Rounded, found: Candidates, index: Found, distance: NDArray[np.float32]
) -> None:
    """The k nearest of each row among its candidates, into `index` and `distance` (n, k); none for rows given up."""
    k = index.shape[1]
    for r in range(len(rows)):
        count = found.counts[r]
        if count != GIVEN_UP:
            count, _ = tighten(rows[r], k, near, found.points[r, :count], found.lows[r, :count])
            nearest_among(rows[r], found.points[r, :count], cloud, index[r], distance[r])


@compiled
def nearest_among(row: int, candidates: Found, cloud: Cloud, index: Found, distance: NDArray[np.float32]) -> None:
    """The k nearest of a row among candidates in the order of their rows: of equal ones the lower row comes first."""
    distances = np.empty(len(candidates), dtype=np.float32)
    for c in range(len(candidates)):
        distances[c] = distance_between(row, candidates[c], cloud)
    order = np.argsort(distances, kind="mergesort")
    for place in range(len(index)):
        index[place] = candidates[order[place]]
        distance[place] = distances[order[place]]


@compiled
def nearest_of_all(rows: Rows, cloud: Cloud, index: Found, distance: NDArray[np.float32]) -> None:
    """The k nearest of each row by its distance to every point, one by one."""
    samples, k = len(cloud.points), index.shape[1]
    distances = np.empty(samples, dtype=np.float32)
    candidates = np.empty(k, dtype=np.int32)
    for r in range(len(rows)):
        for j in range(samples):
            distances[j] = distance_between(rows[r], j, cloud)
        distances[rows[r]] = np.inf
        last = np.partition(distances, k - 1)[k - 1]
        wanted_at_last = k - np.sum(distances < last)
        count = 0
        for j in range(samples):
            if distances[j] < last or (distances[j] == last and wanted_at_last > 0):
                wanted_at_last -= distances[j] == last
                candidates[count] = j
                count += 1
        nearest_among(rows[r], candidates, cloud, index[r], distance[r])


@compiled
def distance_between(i: int, j: int, cloud: Cloud) -> np.float32:
    """The distance of two points; by cosine a row of zeros is 1 away from everything."""
    points, scale_i, scale_j = cloud.points, cloud.scale[i], cloud.scale[j]
    if scale_i == 0 or scale_j == 0:
        return np.float32(1)
    columns = points.shape[1]
    in_fours = columns - columns % 4
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0  # side by side: a sum waits only for itself
    for d in range(0, in_fours, 4):
        first += (points[i, d] * scale_i - points[j, d] * scale_j) ** 2
        second += (points[i, d + 1] * scale_i - points[j, d + 1] * scale_j) ** 2
        third += (points[i, d + 2] * scale_i - points[j, d + 2] * scale_j) ** 2
        fourth += (points[i, d + 3] * scale_i - points[j, d + 3] * scale_j) ** 2
    for d in range(in_fours, columns):
        first += (points[i, d] * scale_i - points[j, d] * scale_j) ** 2
    squared = (first + second) + (third + fourth)
    if not cloud.cosine:
        return np.float32(np.sqrt(squared))
    return np.float32(0) if squared < COSINE_NOISE else np.float32(squared / 2)


@compiled
def settle_linked(
    rows: Rows,
    linked: Found,
    cloud: Cloud,
    enough: NDArray[np.bool_],
    index: Found,
    distance: NDArray[np.float32],
) -> None:
    """The k nearest of each row among the points it is linked to (n, links), which are sorted.

    -1 and the row itself do not count. `enough` (n,) tells which rows are linked to k others; the rest get none.
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
