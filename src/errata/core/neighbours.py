"""The nearest neighbours of every sample: exact in blocks, never N × N in memory; approximate for very many samples."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from errata.core._neighbour_points import Cloud, Metric, cloud_of, rounded
from errata.core._neighbour_search import Found, Progress, Rows, nearest_of
from errata.core.jit import BLOCK_ELEMENTS, over_blocks
from errata.extras import require

APPROXIMATE_BEYOND = 300_000
"""The number of samples up to which every distance is looked at on a CPU: some minutes on two cores."""

_CHECKED = 1_000  # rows searched exactly to estimate the recall of an approximate search
_FEWEST_IN_GRAPH = 31  # a graph with fewer neighbours a node finds clearly fewer of the nearest


class Neighbours(NamedTuple):
    """The k nearest samples of each sample, nearest first and never itself: index (N, k) and distance (N, k).

    `recall` is the share of the nearest that are in it: 1 when exact, else estimated on some rows.
    """

    index: NDArray[np.int32]  # type: ignore[assignment]  # where a tuple looks up a value, which nobody asks of arrays
    distance: NDArray[np.float32]
    recall: float


def nearest(
    points: Any,
    k: int,
    metric: Metric = "euclidean",
    *,
    exact: bool | None = None,
    progress: Callable[[int], object] | None = None,
) -> Neighbours:
    """The k nearest of every row of points (N, D); of equally near ones the lower row comes first.

    By cosine a row of zeros is at distance 1 from all others. Without `exact`, the search is exact up to
    APPROXIMATE_BEYOND samples, and whatever their number if torch is imported and has a GPU, which is then used.
    `progress` is told the size of each block of samples done.
    """
    cloud = cloud_of(points, k, metric)
    told = progress or (lambda done: None)
    gpu = _gpu() if exact is not False else None
    if gpu is not None:
        # By name: the layers of errata import downwards, and torch lives in a higher one than this.
        on_gpu: Found = import_module("errata.training.neighbours").nearest_in(cloud, k, gpu, told)
        return Neighbours(*on_gpu, 1.0)
    samples = len(cloud.points)
    if exact or (exact is None and samples <= APPROXIMATE_BEYOND):
        return Neighbours(*nearest_of(np.arange(samples), cloud, k, told), 1.0)
    require(
        "pynndescent",
        "pynndescent",
        "neighbours",
        f"an approximate search among {samples:,} samples (exact=True does without it, but takes long)",
    )
    return _approximate(cloud, k, told)


def _gpu() -> Any:
    """A GPU of torch, if torch is imported and has one."""
    torch = sys.modules.get("torch")
    return torch.device("cuda") if torch is not None and torch.cuda.is_available() else None


def _approximate(cloud: Cloud, k: int, progress: Progress) -> Neighbours:
    from errata.core._neighbour_kernels import settle_linked

    samples = len(cloud.points)
    linked = _graph(rounded(cloud, np.float32).coordinates, min(max(k + 1, _FEWEST_IN_GRAPH), samples))
    linked.sort(axis=1)
    index, distance = np.empty((samples, k), dtype=np.int32), np.empty((samples, k), dtype=np.float32)
    enough = np.empty(samples, dtype=np.bool_)

    def work(block: slice) -> None:
        rows = np.arange(block.start, block.stop)
        settle_linked(rows, linked[block], cloud, enough[block], index[block], distance[block])
        progress(int(enough[block].sum()))

    over_blocks(samples, max(1, BLOCK_ELEMENTS // linked.shape[1]), work)
    # A row of zeros is equally far from all, so links between coordinates mean nothing to it.
    unlinked = np.flatnonzero(~enough | (cloud.scale == 0))
    index[unlinked], distance[unlinked] = nearest_of(unlinked, cloud, k, progress)
    checked = np.unique(np.linspace(0, samples - 1, _CHECKED).astype(np.int64))
    return Neighbours(index, distance, _recall(checked, cloud, distance))


def _graph(coordinates: NDArray[np.float32], links: int) -> NDArray[np.int32]:
    """Approximate neighbours (N, links) of every point, itself among them; -1 where one is missing."""
    from pynndescent import NNDescent

    # One seed: two searches find the same.
    graph: NDArray[np.int32] = NNDescent(coordinates, n_neighbors=links, random_state=0).neighbor_graph[0]
    return graph


def _recall(rows: Rows, cloud: Cloud, distance: NDArray[np.float32]) -> float:
    """The share of the true k nearest of `rows` that were found; one as near as the k-th is as good."""
    _, true_distance = nearest_of(rows, cloud, distance.shape[1], lambda done: None)
    return float((distance[rows] <= true_distance[:, -1:]).mean())
