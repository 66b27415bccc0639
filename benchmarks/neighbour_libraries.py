"""Libraries for approximate nearest neighbours: seconds on all cores, and recall, on the same points.

Needs pip install hnswlib faiss-cpu; python benchmarks/neighbour_libraries.py [samples] [columns]
"""

import sys
import time
from collections.abc import Callable, Iterator

import faiss
import hnswlib
import numpy as np
from numpy.typing import NDArray
from pynndescent import NNDescent
from rich.console import Console
from rich.table import Table

from errata.core._neighbour_points import prepare_points
from errata.core.neighbours import exact_search
from neighbours import features

K, CHECKED = 50, 1000
Points = NDArray[np.float32]
Search = Callable[[Points], NDArray[np.integer]]


def searches() -> Iterator[tuple[str, Search]]:
    """Functions that search K + 1 neighbours of every point, including itself."""
    yield "pynndescent", lambda points: NNDescent(points, n_neighbors=K + 1, random_state=0).neighbor_graph[0]
    for probes in (8, 32):
        yield f"faiss IVF, √N cells, {probes} probed", lambda points, probes=probes: inverted_file(points, probes)
    for links, effort in ((16, 100), (32, 100)):
        name = f"M = {links}, ef = {effort}"
        yield f"faiss HNSW, {name}", lambda points, links=links, effort=effort: faiss_graph(points, links, effort)
        yield f"hnswlib, {name}", lambda points, links=links, effort=effort: hnswlib_graph(points, links, effort)


def inverted_file(points: Points, probes: int) -> NDArray[np.integer]:
    cells, columns = int(len(points) ** 0.5), points.shape[1]
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(columns), columns, cells)
    index.train(points)
    index.add(points)
    index.nprobe = probes
    return index.search(points, K + 1)[1]


def faiss_graph(points: Points, links: int, effort: int) -> NDArray[np.integer]:
    index = faiss.IndexHNSWFlat(points.shape[1], links)
    index.hnsw.efConstruction = index.hnsw.efSearch = effort
    index.add(points)
    return index.search(points, K + 1)[1]


def hnswlib_graph(points: Points, links: int, effort: int) -> NDArray[np.integer]:
    index = hnswlib.Index("l2", points.shape[1])
    index.init_index(len(points), M=links, ef_construction=effort)
    index.add_items(points)
    index.set_ef(effort)
    return index.knn_query(points, K + 1)[0]


def recall(found: NDArray[np.integer], rows: NDArray[np.int64], true: NDArray[np.int32]) -> float:
    return sum(len(np.intersect1d(found[row], best)) for row, best in zip(rows, true, strict=True)) / true.size


def core_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main(samples: int, columns: int) -> None:
    points = features(samples, columns)
    cloud, rows = prepare_points(points, K, "euclidean"), np.linspace(0, samples - 1, CHECKED).astype(np.int64)
    true, _ = exact_search(rows, cloud, K)
    everything = np.arange(samples)
    table = Table("search", "seconds of all cores", "recall", title=f"{samples:,} × {columns}, k = {K}")
    exact = core_seconds(lambda: exact_search(everything, cloud, K))
    table.add_row("errata, exact", f"{exact:.0f}", "1")
    for name, search in searches():
        search(points[:5000])  # compiles
        found: list[NDArray[np.integer]] = []
        seconds = core_seconds(lambda search=search, found=found: found.append(search(points)))
        table.add_row(name, f"{seconds:.0f}", f"{recall(found[0], rows, true):.4f}")
    Console().print(table)


if __name__ == "__main__":
    main(*(int(number) for number in sys.argv[1:3] or (100_000, 128)))
