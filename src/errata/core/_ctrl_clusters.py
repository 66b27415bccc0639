"""The costly parts of CTRL, run on all cores: k-means clusters of loss curves, and silhouettes of masks."""

import warnings
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Floats, Labels, rows_by_class
from errata.core.jit import over_blocks

Mask = NDArray[np.bool_]
Ranks = NDArray[np.int32]
Columns = tuple[int, int]  # a half-open range of epochs
Fit = tuple[Columns, int]  # the epochs and the number of clusters

NEVER_SELECTED = np.iinfo(np.int32).max
"""The rank of a curve that is in the lowest cluster, which is never selected as noisy."""


def cluster_ranks(curves: Floats, labels: Labels, fits: Collection[Fit]) -> dict[Fit, Ranks]:
    """For each of `fits`, the rank (N,) of every curve's cluster within its class; the largest area has rank 0.

    The lowest cluster has rank NEVER_SELECTED. So has a class that cannot be split (one sample or equal curves).
    curves: (N, T).
    """
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    ranks = {fit: np.full(len(curves), NEVER_SELECTED, dtype=np.int32) for fit in fits}
    # The widest windows first: they take longest, so that no core is idle for long at the end.
    windows = sorted({window for window, _ in fits}, key=lambda window: (window[0] - window[1], window))
    jobs = [(window, rows) for window in windows for rows in rows_by_class(labels, 0) if len(rows)]
    native_threads = ThreadpoolController()

    def work(block: slice) -> None:
        for window, rows in jobs[block]:
            within = curves[rows, slice(*window)]
            counts = [clusters for fitted, clusters in fits if fitted == window]
            distinct = _distinct(within, at_most=max(counts))
            # An OpenMP limit applies only to the thread that sets it, unlike the BLAS limit below.
            with native_threads.limit(limits=1, user_api="openmp"):
                for clusters in counts:
                    ranks[window, clusters][rows] = _ranks(within, min(clusters, distinct))

    # One thread per fit: a single class is too small to share, and sums do not depend on the number of cores.
    with native_threads.limit(limits=1), warnings.catch_warnings():
        # Curves that are nearly equal may leave a cluster empty; `_ranks` ignores empty clusters.
        warnings.simplefilter("ignore", ConvergenceWarning)
        over_blocks(len(jobs), 1, work)
    return ranks


def _distinct(curves: Floats, at_most: int) -> int:
    """The number of different curves, counted up to `at_most`; 0 if they have no columns."""
    unlike = np.full(len(curves), curves.shape[1] > 0)
    for count in range(at_most):
        if not unlike.any():
            return count
        unlike &= (curves != curves[unlike.argmax()]).any(axis=1)
    return at_most


def _ranks(curves: Floats, clusters: int) -> Ranks:
    """The rank (n,) of every curve's cluster by the area under its centre; the largest area has rank 0."""
    from sklearn.cluster import KMeans

    if clusters < 2:
        return np.full(len(curves), NEVER_SELECTED, dtype=np.int32)
    fit = KMeans(clusters, n_init=10, random_state=0).fit(curves)
    not_empty = np.unique(fit.labels_)
    by_area = not_empty[np.argsort(-fit.cluster_centers_[not_empty].sum(axis=1), kind="stable")]
    rank_of_cluster = np.full(clusters, NEVER_SELECTED, dtype=np.int32)
    rank_of_cluster[by_area[:-1]] = np.arange(len(by_area) - 1)
    ranks: Ranks = rank_of_cluster[fit.labels_]
    return ranks


def silhouettes(curves: Floats, masks: Mask, at_most: int) -> Floats:
    """The mean silhouette (M,) of each of `masks` (M, N), which split curves (N, T) into noisy and clean ones.

    -inf if one side is empty. Of more than `at_most` curves, the subsample is used that scikit-learn's
    silhouette_score(sample_size=at_most, random_state=0) takes. Distances are computed once for all masks.
    """
    from threadpoolctl import threadpool_limits

    if len(curves) > at_most:
        chosen = np.random.RandomState(0).permutation(len(curves))[:at_most]
        curves, masks = curves[chosen], masks[:, chosen]
    samples = len(curves)
    centred = curves - curves.mean(axis=0)  # smaller numbers, so that the squares below lose less precision
    squared = np.einsum("nt,nt->n", centred, centred)
    noisy = masks.T
    noisy_columns = noisy.astype(np.float64)
    noisy_count = noisy.sum(axis=0)
    silhouette = np.zeros(noisy.shape)

    def work(rows: slice) -> None:
        distance = -2 * centred[rows] @ centred.T
        distance += squared
        distance += squared[rows, None]
        np.sqrt(np.maximum(distance, 0, out=distance), out=distance)
        itself = np.arange(rows.start, rows.stop)
        distance[itself - rows.start, itself] = 0
        to_noisy = distance @ noisy_columns
        to_clean = distance.sum(axis=1, keepdims=True) - to_noisy
        size = np.where(noisy[rows], noisy_count, samples - noisy_count)
        within = np.where(noisy[rows], to_noisy, to_clean) / np.maximum(size - 1, 1)
        across = np.where(noisy[rows], to_clean, to_noisy) / np.maximum(samples - size, 1)
        larger = np.maximum(within, across)
        np.divide(across - within, larger, out=silhouette[rows], where=(larger > 0) & (size > 1))

    with threadpool_limits(1):  # the blocks already use every core
        over_blocks(samples, 64, work)
    return np.where((noisy_count > 0) & (noisy_count < samples), silhouette.mean(axis=0), -np.inf)
