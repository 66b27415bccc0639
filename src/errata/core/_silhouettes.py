"""How well masks set curves apart: the silhouette of a noisy and a clean side, for many masks over the same curves."""

import numpy as np
from numpy.typing import NDArray

from errata.core._kmeans import members_of_classes
from errata.core.checks import Floats, Labels

Mask = NDArray[np.bool_]


def silhouettes(curves: Floats, masks: Mask, labels: Labels | None, at_most: int) -> Floats:
    """Mean silhouette (M,) of each of `masks` (M, N): over all curves or, given labels, class by class and averaged.

    Of more curves than `at_most` in a group a fixed subsample is taken; where no group holds both sides it is -inf.
    """
    groups = [np.arange(len(curves))] if labels is None else members_of_classes(labels)
    taken = [_subsample(rows, at_most) for rows in groups]
    of_groups = np.array([_group_silhouettes(curves[rows], masks[:, rows]) for rows in taken])
    holds_both = np.isfinite(of_groups)
    summed = np.where(holds_both, of_groups, 0).sum(axis=0)
    return np.where(holds_both.any(axis=0), summed / np.maximum(holds_both.sum(axis=0), 1), -np.inf)


def _subsample(rows: NDArray[np.intp], at_most: int) -> NDArray[np.intp]:
    """At most so many of `rows`: those of sklearn's silhouette_score(sample_size=at_most, random_state=0)."""
    if len(rows) <= at_most:
        return rows
    return rows[np.random.RandomState(0).permutation(len(rows))[:at_most]]


def _group_silhouettes(curves: Floats, masks: Mask) -> Floats:
    """Silhouette (M,) of each of `masks` (M, n) over n curves; the distances are taken once, a few rows at a time."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    from errata.core.jit import over_blocks

    samples = len(curves)
    centred = curves - curves.mean(axis=0)  # small numbers, so that the squares below lose little to rounding
    squared = np.einsum("nt,nt->n", centred, centred)
    noisy = masks.T
    noisy_columns = noisy.astype(np.float64)
    many_noisy = noisy.sum(axis=0)
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
        size = np.where(noisy[rows], many_noisy, samples - many_noisy)
        within = np.where(noisy[rows], to_noisy, to_clean) / np.maximum(size - 1, 1)
        across = np.where(noisy[rows], to_clean, to_noisy) / np.maximum(samples - size, 1)
        larger = np.maximum(within, across)
        np.divide(across - within, larger, out=silhouette[rows], where=(larger > 0) & (size > 1))

    with threadpool_limits(1):  # the blocks already use every core
        over_blocks(samples, 64, work)
    return np.where((many_noisy > 0) & (many_noisy < samples), silhouette.mean(axis=0), -np.inf)
