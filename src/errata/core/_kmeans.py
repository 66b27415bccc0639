"""Clusters of curves, ranked by the area under their centres: the k-means fits of CTRL, spread over the cores."""

import warnings
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Floats, Labels

Ranks = NDArray[np.int32]
Window = tuple[int, int]
Fit = tuple[Window, int]

NEVER_SELECTED = np.iinfo(np.int32).max
"""Rank of a curve that no number of selected clusters reaches."""


def cluster_ranks(curves: Floats, labels: Labels, fits: Collection[Fit]) -> dict[Fit, Ranks]:
    """Rank (N,) of the cluster of every curve within its class, 0 the highest, for each (window, clusters) of `fits`.

    The lowest cluster is never selected, so a class that cannot be split (one sample, equal curves, an empty window)
    is wholly so. `curves` has shape (N, T); a window is a half-open range of its columns.
    """
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    from errata.core.jit import over_blocks

    ranks = {fit: np.full(len(curves), NEVER_SELECTED, dtype=np.int32) for fit in fits}
    # The widest windows first: they take longest, and short fits at the end leave no core idle for long.
    windows = sorted({window for window, _ in fits}, key=lambda window: (window[0] - window[1], window))
    jobs = [(window, rows) for window in windows for rows in members_of_classes(labels)]
    native_threads = ThreadpoolController()

    def work(block: slice) -> None:
        for window, rows in jobs[block]:
            within = curves[rows, slice(*window)]
            counts = [clusters for fitted, clusters in fits if fitted == window]
            distinct = _distinct(within, at_most=max(counts))
            # An OpenMP limit holds only in the thread that sets it, unlike the BLAS limit below.
            with native_threads.limit(limits=1, user_api="openmp"):
                for clusters in counts:
                    ranks[window, clusters][rows] = _ranks(within, min(clusters, distinct))

    # One core a fit: k-means on a single class is too small to share between cores, and the sums it makes then do
    # not depend on their number.
    with native_threads.limit(limits=1), warnings.catch_warnings():
        # Curves closer than rounding may leave a cluster without members; `_ranks` counts only those that have some.
        warnings.simplefilter("ignore", ConvergenceWarning)
        over_blocks(len(jobs), 1, work)
    return ranks


def members_of_classes(labels: Labels) -> list[NDArray[np.intp]]:
    """The rows of every observed class, in order."""
    by_class = np.argsort(labels, kind="stable")
    _, first = np.unique(labels[by_class], return_index=True)
    return np.split(by_class, first[1:])


def _distinct(curves: Floats, at_most: int) -> int:
    """How many different curves there are, counted up to `at_most`; none where they have no columns."""
    unlike = np.full(len(curves), curves.shape[1] > 0)
    for found in range(at_most):
        if not unlike.any():
            return found
        unlike &= (curves != curves[unlike.argmax()]).any(axis=1)
    return at_most


def _ranks(curves: Floats, clusters: int) -> Ranks:
    """Rank (n,) of the cluster of every curve by the area under its centre, 0 the largest."""
    from sklearn.cluster import KMeans

    if clusters < 2:
        return np.full(len(curves), NEVER_SELECTED, dtype=np.int32)
    fit = KMeans(clusters, n_init=10, random_state=0).fit(curves)
    inhabited = np.unique(fit.labels_)
    by_area = inhabited[np.argsort(-fit.cluster_centers_[inhabited].sum(axis=1), kind="stable")]
    rank_of_cluster = np.full(clusters, NEVER_SELECTED, dtype=np.int32)
    rank_of_cluster[by_area[:-1]] = np.arange(len(by_area) - 1)
    ranks: Ranks = rank_of_cluster[fit.labels_]
    return ranks
