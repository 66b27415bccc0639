"""Nearest neighbours: exact search on 50,000 points on a CPU or a GPU, and approximate search on more.

python benchmarks/neighbours.py    the GPU part if there is a GPU, else the CPU part
"""

import numpy as np
import torch
from numpy.typing import NDArray

from common import Row, print_rows, timed
from errata.core._neighbour_points import prepare_points
from errata.core.neighbours import approximate_search, exact_search, nearest

SAMPLES, COLUMNS, K = 50_000, 128, 100
MANY, APPROXIMATE_K = 100_000, 50
CPU_SECONDS, GPU_SECONDS = 30, 1  # target
SHARE = 10  # the slower search uses one in this many rows
WORK = f"neighbours of {SAMPLES:,} × {COLUMNS}, k = {K}"


def run() -> list[Row]:
    return gpu_rows() if torch.cuda.is_available() else cpu_rows()


def cpu_rows() -> list[Row]:
    """Exact search compared with scikit-learn's brute force, and approximate with exact search."""
    from sklearn.neighbors import NearestNeighbors

    points = features(SAMPLES, COLUMNS)
    found = nearest(points, K)
    own = timed(lambda: nearest(points, K), 2)
    plain = NearestNeighbors(n_neighbors=K + 1, algorithm="brute").fit(points)
    peer = SHARE * timed(lambda: plain.kneighbors(points[::SHARE]), 2)
    theirs = plain.kneighbors(points[::SHARE], return_distance=False)[:, 1:]
    detail = f"{own:.1f} s and {peer:.1f} s (one row in {SHARE}, scaled up); {shared(found.index[::SHARE], theirs)}"
    return [
        Row(WORK, f"{CPU_SECONDS} s", CPU_SECONDS / own, 1, f"{own:.1f} s"),
        Row(WORK, "scikit-learn, brute force", peer / own, 1, detail),
        approximate_row(),
    ]


def approximate_row() -> Row:
    points = features(MANY, COLUMNS)
    cloud, rows = prepare_points(points, APPROXIMATE_K, "euclidean"), np.arange(MANY)
    approximate_search(prepare_points(points[:5000], APPROXIMATE_K, "euclidean"), APPROXIMATE_K)  # compiles
    found = []
    own = timed(lambda: found.append(approximate_search(cloud, APPROXIMATE_K)), 1)
    exact = timed(lambda: found.append(exact_search(rows, cloud, APPROXIMATE_K)), 1)
    recall = (found[0].distance <= found[-1].distance[:, -1:]).mean()
    work = f"approximate neighbours of {MANY:,} × {COLUMNS}, k = {APPROXIMATE_K}"
    detail = f"{own:.1f} s and {exact:.1f} s; recall {recall:.4f}"
    return Row(work, "the exact search", exact / own, 1, detail)


def gpu_rows() -> list[Row]:
    """Exact search on the GPU compared with the target time, and with the search without torch."""
    points = features(SAMPLES, COLUMNS)
    found = nearest(points, K)
    own = timed(lambda: nearest(points, K), 5)
    rows, cloud = np.arange(0, SAMPLES, SHARE), prepare_points(points, K, "euclidean")
    index, _ = exact_search(rows, cloud, K)
    peer = SHARE * timed(lambda: exact_search(rows, cloud, K), 2)
    detail = f"{own:.2f} s and {peer:.1f} s (one row in {SHARE}, scaled up); {shared(found.index[rows], index)}"
    return [
        Row(WORK, f"{GPU_SECONDS} s", GPU_SECONDS / own, 1, f"{own:.2f} s, {torch.cuda.get_device_name()}"),
        Row(WORK, "errata on this machine's CPU", peer / own, 1, detail),
    ]


def features(samples: int, columns: int) -> NDArray[np.float32]:
    """Points like the last hidden layer of a network: overlapping groups with fewer dimensions than columns."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(50, 16))[rng.integers(0, 50, samples)] + rng.normal(size=(samples, 16))
    wide = np.maximum(hidden @ rng.normal(size=(16, 256)) / 4, 0) @ rng.normal(size=(256, columns)) / 16
    return (wide + 0.05 * rng.normal(size=wide.shape)).astype(np.float32)


def shared(ours: NDArray[np.int32], theirs: NDArray[np.int64]) -> str:
    """The share of neighbours that both found, in any order."""
    found = sum(len(np.intersect1d(a, b)) for a, b in zip(ours, theirs, strict=True))
    return f"{found / theirs.size:.4%} of the neighbours are the same"


if __name__ == "__main__":
    print_rows(run())
