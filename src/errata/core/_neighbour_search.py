"""Exact neighbours on the CPU: products block by block through BLAS, the distances of what may be near one by one."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from errata.core._neighbour_points import Cloud, Rounded, rounded
from errata.core.jit import over_blocks, row_blocks

Progress = Callable[[int], object]
Rows = NDArray[np.int64]
Found = tuple[NDArray[np.int32], NDArray[np.float32]]

_ROWS, _TILE = 512, 1024  # a tile of products: it stays in cache, and BLAS is at its best
_CANDIDATES = 1 << 19  # at most, of all rows of a block together
_ROWS_ONE_BY_ONE = 16


def nearest_of(rows: Rows, cloud: Cloud, k: int, progress: Progress) -> Found:
    """Index and distance (n, k) of the nearest of `rows` (n,) in the whole cloud; `progress` is told of rows done.

    Products in float32 leave few candidates in most clouds. Where they leave too many (points far from the centre and
    close to each other) float64 tells them apart, and where that does as well (equal points) each distance is taken.
    """
    found = np.empty((len(rows), k), dtype=np.int32), np.empty((len(rows), k), dtype=np.float32)
    has_direction = cloud.scale[rows] > 0
    left = np.flatnonzero(has_direction)
    for dtype in (np.float32, np.float64):
        if len(left):
            left = _by_products(left, rows, cloud, rounded(cloud, dtype), found, progress)
    _one_by_one(np.union1d(left, np.flatnonzero(~has_direction)), rows, cloud, found, progress)
    return found


def _by_products(places: Rows, rows: Rows, cloud: Cloud, near: Rounded, found: Found, progress: Progress) -> Rows:
    """Find the neighbours of `rows` at `places`; returns the places of those that have too many candidates."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    from errata.core._neighbour_kernels import GIVEN_UP, Candidates, settle, take_in

    index, distance = found
    k, dtype = index.shape[1], near.coordinates.dtype
    room = min(4 * k + 256, len(near.coordinates))
    solved = np.zeros(len(places), dtype=np.bool_)

    def work(block: slice) -> None:
        ours = rows[places[block]]
        candidates = Candidates(
            np.empty((len(ours), room), dtype=np.int32),
            np.empty((len(ours), room), dtype=dtype),
            np.zeros(len(ours), dtype=np.int32),
            np.full(len(ours), np.inf, dtype=dtype),
        )
        minus_twice = -2 * near.coordinates[ours]
        for tile in row_blocks(len(near.coordinates), _TILE):
            take_in(minus_twice @ near.coordinates[tile].T, tile.start, ours, k, near, candidates)
            if (candidates.counts == GIVEN_UP).all():
                return
        settled = np.empty((len(ours), k), dtype=np.int32), np.empty((len(ours), k), dtype=np.float32)
        settle(ours, cloud, near, candidates, *settled)
        done = candidates.counts != GIVEN_UP
        solved[block] = done
        index[places[block][done]], distance[places[block][done]] = settled[0][done], settled[1][done]
        progress(int(done.sum()))

    # One core a block: products and what follows from them then stay in its cache.
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        over_blocks(len(places), min(_ROWS, max(1, _CANDIDATES // room)), work)
    return places[~solved]


def _one_by_one(places: Rows, rows: Rows, cloud: Cloud, found: Found, progress: Progress) -> None:
    from errata.core._neighbour_kernels import nearest_of_all

    index, distance = found

    def work(block: slice) -> None:
        ours = rows[places[block]]
        settled = np.empty((len(ours), index.shape[1]), np.int32), np.empty((len(ours), index.shape[1]), np.float32)
        nearest_of_all(ours, cloud, *settled)
        index[places[block]], distance[places[block]] = settled
        progress(len(ours))

    over_blocks(len(places), _ROWS_ONE_BY_ONE, work)
