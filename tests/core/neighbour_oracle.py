"""Nearest neighbours the plain way: every distance in extended precision, then a stable sort."""

import numpy as np


def every_distance(points, metric):
    """Distances (N, N) in float32, infinite from a point to itself."""
    wide = np.asarray(points).astype(np.longdouble)
    if metric == "cosine":
        lengths = np.sqrt((wide**2).sum(axis=1))
        wide /= np.where(lengths == 0, 1, lengths)[:, None]
    squared = np.stack([((wide - row) ** 2).sum(axis=1) for row in wide])
    if metric == "cosine":
        squared[squared < 1e-30] = 0
        squared[lengths == 0] = squared[:, lengths == 0] = 2
    distances = (squared / 2 if metric == "cosine" else np.sqrt(squared)).astype(np.float32)
    np.fill_diagonal(distances, np.inf)
    return distances


def assert_nearest(found, points, k, metric="euclidean"):
    """`found` is exact: the same rows in the same order, and the same distances."""
    distances = every_distance(points, metric)
    index = np.argsort(distances, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(found.index, index)
    np.testing.assert_allclose(found.distance, np.take_along_axis(distances, index, axis=1), rtol=1e-6)
    assert (found.index.dtype, found.distance.dtype) == (np.int32, np.float32)


def hard_clouds():
    """Clouds that products in float32 cannot tell apart, by name."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(700, 9))
    side = rng.integers(0, 2, (700, 1))
    return {
        "two groups far apart": points + 1e5 * side,
        "two groups too far apart for float64": points + 1e9 * side,
        "one point far out": np.vstack([points, np.full(9, 1e9)]),
        "far from the origin": points + 1e6,
        "all alike": np.tile(points[0], (700, 1)),
        "few different points": np.repeat(points[:4], 150, axis=0)[rng.permutation(600)],
        "two values a column": rng.integers(0, 2, (700, 5)) * np.pi - np.e,
        "directions almost the same": 1 + 1e-6 * points,
        "the same direction": np.outer(rng.integers(1, 9, 700), points[0]),
        "very small": 1e-25 * points,
        "below float32": 1e-60 * points,
        "very large": 1e27 * points,
        "large and small": points * 10.0 ** rng.integers(-20, 20, (700, 1)),
    }
