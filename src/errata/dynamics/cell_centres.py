"""The centres of cells of points, and the nearest of them: in two levels if there are many.

Comparing every point with every centre would take time that grows with the square of the samples, because the number of
centres grows with them. With more than MOST_IN_ONE_LEVEL centres, k-means first makes about as many districts as each
has centres. A point is compared with the centres of the PROBED districts whose own centres are nearest, and k-means of
a district uses its own points only. Both then take time proportional to the square root of the number of centres.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Floats
from errata.core.jit import row_blocks

MOST_IN_ONE_LEVEL = 500
PROBED = 16
_BLOCK = 4096

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class CellCentres:
    """Centres (C, D), ordered by district; the centres (M, D) of the districts; the first cell of each (M + 1,)."""

    points: Floats
    districts: Floats
    firsts: Numbers

    def nearest(self, points: NDArray[Any], count: int) -> Numbers:
        """The numbers (n, count) of the nearest centres, the nearest first, for points (n, D)."""
        nearest = np.empty((len(points), count), dtype=np.int64)
        for block in row_blocks(len(points), _BLOCK):
            nearest[block] = self._nearest_of_block(points[block], count)
        return nearest

    def _nearest_of_block(self, points: NDArray[Any], count: int) -> Numbers:
        distances, cells = np.full((len(points), count), np.inf), np.zeros((len(points), count), dtype=np.int64)
        probed = _smallest(squared_distances(points, self.districts), min(PROBED, len(self.districts)))
        for district in np.unique(probed).tolist():
            rows = np.flatnonzero((probed == district).any(axis=1))
            first, end = self.firsts[district : district + 2].tolist()
            own = squared_distances(points[rows], self.points[first:end])
            best = _smallest(own, min(count, end - first))
            both = np.concatenate([distances[rows], np.take_along_axis(own, best, axis=1)], axis=1)
            numbers = np.concatenate([cells[rows], best + first], axis=1)
            order = np.argsort(both, axis=1, kind="stable")[:, :count]
            distances[rows], cells[rows] = (np.take_along_axis(values, order, axis=1) for values in (both, numbers))
        return cells


def find_centres(points: NDArray[Any], cells: int) -> CellCentres:
    """About `cells` centres of points (n, D), by k-means."""
    if cells == 1:
        origin = np.zeros((1, points.shape[1]))
        return CellCentres(origin, origin, np.array([0, 1]))
    if cells <= MOST_IN_ONE_LEVEL:
        centres, _ = _k_means(points, cells)
        return CellCentres(centres, centres.mean(axis=0)[None], np.array([0, len(centres)]))
    districts, home = _k_means(points, round(cells**0.5))
    districts = districts[np.unique(home)]
    members = [points[home == district] for district in np.unique(home)]
    parts = [_k_means(own, max(1, round(cells * len(own) / len(points))))[0] for own in members]
    firsts = np.cumsum([0, *map(len, parts)])
    return CellCentres(np.concatenate(parts), districts, firsts)


def squared_distances(one: NDArray[Any], other: NDArray[Any]) -> Floats:
    """Squared Euclidean distances (n, m)."""
    left, right = one.astype(np.float64), other.astype(np.float64)
    return np.asarray((left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2 * left @ right.T)


def _smallest(values: Floats, count: int) -> Numbers:
    """The columns (n, count) of the smallest values of each row, in ascending order of values."""
    if values.shape[1] > count:
        columns = np.argpartition(values, count - 1, axis=1)[:, :count]
    else:
        columns = np.broadcast_to(np.arange(count), (len(values), count))
    order = np.argsort(np.take_along_axis(values, columns, axis=1), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(columns, order, axis=1))


def _k_means(points: NDArray[Any], centres: int) -> tuple[Floats, Numbers]:
    """Centres (C, D) of points (n, D), and the centre (n,) of each point."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    means = KMeans(min(centres, len(points)), n_init=1, max_iter=20, random_state=0)
    with threadpool_limits(1):  # sums do not depend on the number of cores
        fitted = means.fit(points)
    return np.asarray(fitted.cluster_centers_), np.asarray(fitted.labels_)
