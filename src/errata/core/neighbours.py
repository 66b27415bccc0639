"""The nearest neighbours of every sample: exact, in blocks of rows, or approximate for very many samples.

The exact search first bounds all distances with matrix products in float32. It then computes the distances of the few
points that may be among the nearest. It never holds N × N numbers.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from errata.core._neighbour_kernels import (
    OVERFLOW,
    Candidates,
    add_candidates,
    nearest_of_all,
    nearest_of_links,
    select_nearest,
)
from errata.core._neighbour_points import Cloud, Metric, Neighbours, Rounded, prepare_points, rounded
from errata.core.checks import Floats, Labels
from errata.core.devices import find_device_search
from errata.core.jit import BLOCK_ELEMENTS, over_blocks, row_blocks
from errata.extras import require

APPROXIMATE_BEYOND = 300_000
"""The largest number of samples that is searched exactly on a CPU; that takes some minutes on two cores."""

Rows = NDArray[np.int64]
SpaceName = Literal["features", "inputs"]
METRICS: dict[SpaceName, Metric] = {"features": "cosine", "inputs": "euclidean"}

_ROWS, _TILE = 512, 1024  # the shape of a block of products: it fits into the cache, and BLAS is fastest there
_CANDIDATES = 1 << 19  # the most candidates of all rows of a block together
_ROWS_OF_ALL_DISTANCES = 16
_FEWEST_LINKS = 31  # a graph with fewer links per node misses clearly more of the nearest


def nearest(points: Any, k: int, metric: Metric = "euclidean", name: str = "points") -> Neighbours:
    """The k nearest of every row of points (N, D); of equally near ones the lower row comes first.

    With the cosine metric, a row of zeros has distance 1 to all others. The search is exact on a GPU, which is used if
    torch is already imported, and on a CPU for up to APPROXIMATE_BEYOND samples. name: the points in messages.
    """
    cloud = prepare_points(points, k, metric, name)
    samples, device_search = len(cloud.points), find_device_search()
    if device_search is not None:
        return device_search(cloud, k)
    if samples <= APPROXIMATE_BEYOND:
        return exact_search(np.arange(samples), cloud, k)
    require("pynndescent", "pynndescent", "neighbours", f"a search for neighbours among {samples:,} samples")
    return approximate_search(cloud, k)


def exact_search(rows: Rows, cloud: Cloud, k: int) -> Neighbours:
    """The k nearest points of each of `rows` (n,) in the whole cloud.

    In most clouds, products in float32 leave few candidates. Rows with too many (points far from the centre and close
    to each other) are searched again in float64. For rows that still have too many (equal points) and for rows of zeros
    with the cosine metric, all distances are computed.
    """
    result = Neighbours.empty(len(rows), k)
    has_direction = cloud.scale[rows] > 0
    left = np.flatnonzero(has_direction)
    for dtype in (np.float32, np.float64):
        if len(left):
            left = _search_products(left, rows, cloud, rounded(cloud, dtype), result)
    _search_all_distances(np.union1d(left, np.flatnonzero(~has_direction)), rows, cloud, result)
    return result


def _search_products(places: Rows, rows: Rows, cloud: Cloud, near: Rounded, result: Neighbours) -> Rows:
    """Write the neighbours of `rows[places]`; returns the places of the rows that have too many candidates."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    index, distance = result
    k, dtype = index.shape[1], near.coordinates.dtype
    room = min(4 * k + 256, len(near.coordinates))
    solved = np.zeros(len(places), dtype=np.bool_)

    def work(block: slice) -> None:
        block_rows = rows[places[block]]
        candidates = Candidates(
            np.empty((len(block_rows), room), dtype=np.int32),
            np.empty((len(block_rows), room), dtype=dtype),
            np.zeros(len(block_rows), dtype=np.int32),
            np.full(len(block_rows), np.inf, dtype=dtype),
        )
        minus_twice = -2 * near.coordinates[block_rows]
        for tile in row_blocks(len(near.coordinates), _TILE):
            products = minus_twice @ near.coordinates[tile].T
            add_candidates(products, tile.start, block_rows, k, near, candidates)
            if (candidates.counts == OVERFLOW).all():
                return
        selected = Neighbours.empty(len(block_rows), k)
        select_nearest(block_rows, cloud, near, candidates, *selected)
        done = candidates.counts != OVERFLOW
        solved[block] = done
        index[places[block][done]], distance[places[block][done]] = selected.index[done], selected.distance[done]

    # One thread per block: its products then stay in the cache of one core.
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        over_blocks(len(places), min(_ROWS, max(1, _CANDIDATES // room)), work)
    return places[~solved]


def _search_all_distances(places: Rows, rows: Rows, cloud: Cloud, result: Neighbours) -> None:
    """Write the neighbours of `rows[places]` from the distances to all points."""
    index, distance = result

    def work(block: slice) -> None:
        block_rows = rows[places[block]]
        selected = Neighbours.empty(len(block_rows), index.shape[1])
        nearest_of_all(block_rows, cloud, *selected)
        index[places[block]], distance[places[block]] = selected

    over_blocks(len(places), _ROWS_OF_ALL_DISTANCES, work)


def approximate_search(cloud: Cloud, k: int) -> Neighbours:
    """The k nearest of every point among its links in an approximate graph; rows with fewer links exactly."""
    samples = len(cloud.points)
    linked = _graph(rounded(cloud, np.float32).coordinates, min(max(k + 1, _FEWEST_LINKS), samples))
    linked.sort(axis=1)
    index, distance = result = Neighbours.empty(samples, k)
    enough = np.empty(samples, dtype=np.bool_)

    def work(block: slice) -> None:
        rows = np.arange(block.start, block.stop)
        nearest_of_links(rows, linked[block], cloud, enough[block], index[block], distance[block])

    over_blocks(samples, max(1, BLOCK_ELEMENTS // linked.shape[1]), work)
    # With the cosine metric a row of zeros is equally far from all others, so its links are arbitrary.
    exact_rows = np.flatnonzero(~enough | (cloud.scale == 0))
    index[exact_rows], distance[exact_rows] = exact_search(exact_rows, cloud, k)
    return result


def _graph(coordinates: NDArray[np.float32], links: int) -> NDArray[np.int32]:
    """Approximate neighbours (N, links) of every point, which may include itself; -1 where one is missing."""
    from pynndescent import NNDescent

    # A fixed seed, so that two searches give the same result.
    graph: NDArray[np.int32] = NNDescent(coordinates, n_neighbors=links, random_state=0).neighbor_graph[0]
    return graph


def label_votes(labels: Labels, near: NDArray[np.int32], classes: int) -> Floats:
    """How many of the neighbours (n, k) of some samples have each label, (n, K); `labels` (N,) are of all samples."""
    counts = np.zeros((len(near), classes))
    every = np.arange(len(near))
    for neighbour in near.T:
        counts[every, labels[neighbour]] += 1
    return counts
