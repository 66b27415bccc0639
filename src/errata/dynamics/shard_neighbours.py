"""kNN on a run in shards: a partitioned, approximate search, whose recall is measured.

1. k-means of a sample of the points gives one centre per CELL samples (errata.dynamics.cell_centres). Every point is
   in the cells of its PROBES nearest centres; the nearest one is its home. `scatter` writes each shard's points into
   one file per group of cells.
2. `search_group` reads the files of a group. The neighbours of a sample are the nearest points in its home cell, which
   also has points from beyond its borders. It writes what the neighbours predict into one file per shard.
3. `nearest_in_shard` finds the true neighbours of QUERIES samples, to measure the recall.

A run that fits into one cell is searched exactly. The files are in a folder that all processes reach, and are deleted
at the end.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from errata.core._neighbour_points import prepare_points
from errata.core.checks import Floats
from errata.core.composed_method import ComposedMethod
from errata.core.methods import parse
from errata.core.neighbours import METRICS, exact_search
from errata.core.random_part import GOLDEN, mix_bits
from errata.core.smoothing import KNN, KNNSettings, neighbour_log_probabilities
from errata.dynamics.cell_centres import CellCentres, find_centres, squared_distances
from errata.dynamics.files import arrays_in, npz_bytes
from errata.dynamics.places import Place
from errata.dynamics.shards import ShardInfo, read_shard

if TYPE_CHECKING:
    from errata.dynamics.sharded import Mapper, ShardedDynamics

CELL, PROBES = 10_000, 4
GROUP = 250_000
"""Points of a group of cells, which one process holds at a time."""
FEWEST_SAMPLED, SAMPLED_PER_CENTRE = 20_000, 20
QUERIES = 200
_ROUNDING = 1e-6

Rows = NDArray[np.int64]


class PlacedShard(NamedTuple):
    """A shard, and the row of its first sample in the run."""

    shard: ShardInfo
    first: int

    def points(self, settings: KNNSettings) -> NDArray[Any]:
        """The points (n, D) in which neighbours are searched."""
        return self.shard.array(f"{settings.space}.npy")


@dataclass(frozen=True)
class NeighbourSearch:
    """The search of one method: its settings, the centres of the cells, and where its files are."""

    method: str
    settings: KNNSettings
    samples: int
    files: Place
    centres: CellCentres
    recall: float = math.nan

    @property
    def probes(self) -> int:
        """The number of cells that a point is in."""
        return min(PROBES, len(self.centres.points))

    @property
    def groups(self) -> int:
        """The number of groups of cells."""
        return min(len(self.centres.points), -(-self.samples * self.probes // GROUP))

    def neighbours(self, placed: PlacedShard) -> Floats:
        """What the neighbours of the samples of a shard predict: log-probabilities (n, K)."""
        shard, first = placed
        logs = np.empty((shard.samples, shard.manifest["num_classes"]))
        for group in range(self.groups):
            found = arrays_in(self.files.read(f"found-{group}/{shard.name}.npz"))
            logs[found["rows"] - first] = found["logs"]
        return logs


def search_neighbours(
    dynamics: "ShardedDynamics", method: ComposedMethod, mapper: "Mapper", files: Place
) -> NeighbourSearch:
    """Search the neighbours of all samples for a method whose first step is kNN."""
    knn = method.steps[0]
    assert isinstance(knn, KNN)
    settings, samples, shards = knn.choose(dynamics.known_context), dynamics.samples, dynamics.placed
    cells = -(-samples // CELL)
    share = max(FEWEST_SAMPLED, SAMPLED_PER_CENTRE * cells) / samples
    parts = list(mapper(partial(sample_points, settings, share), shards))
    rows, points = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    search = NeighbourSearch(method.name, settings, samples, files, find_centres(points, cells))
    chosen = np.argsort(_hashes(rows))[:QUERIES]
    query_rows = rows[chosen]
    list(mapper(partial(scatter, search), shards))
    found: dict[int, Floats] = {}
    for own in mapper(partial(search_group, search, shards, query_rows), range(search.groups)):
        found |= own
    true = np.concatenate(list(mapper(partial(nearest_in_shard, settings, query_rows, points[chosen]), shards)), axis=1)
    true = np.sort(true, axis=1)[:, : settings.k]
    farthest = true.max(axis=1, initial=0) * (1 + _ROUNDING) + _ROUNDING  # any point as near as the k-th counts
    hits = [(found[row] <= limit).sum() for row, limit in zip(query_rows.tolist(), farthest, strict=True)]
    return replace(search, recall=float(sum(hits) / max(1, true.size)))


def sample_points(settings: KNNSettings, share: float, placed: PlacedShard) -> tuple[Rows, NDArray[Any]]:
    """Rows (s,) of about that share of a shard, chosen by a hash of the row, and their points (s, D)."""
    rows = np.arange(placed.first, placed.first + placed.shard.samples)
    kept = _hashes(rows) <= min(int(share * 2**64), 2**64 - 1)
    return rows[kept], _directions(placed.points(settings)[kept], settings)


def scatter(search: NeighbourSearch, placed: PlacedShard) -> None:
    """Write the points of a shard, with what their neighbours need of them, into one file per group of cells."""
    run, points = read_shard(placed.shard), placed.points(search.settings)
    (arrays,) = run.sample_arrays([parse(search.method)])
    cells = search.centres.nearest(_directions(points, search.settings), search.probes)
    for group in range(search.groups):
        which, probe = np.nonzero(cells % search.groups == group)
        entries = {"row": which + placed.first, "cell": cells[which, probe], "home": probe == 0}
        entries |= {"point": points[which], "label": run.labels[which], "logs": arrays["log_probabilities"][which]}
        search.files.write(f"points-{group}/{placed.shard.name}.npz", npz_bytes(entries))


def search_group(
    search: NeighbourSearch, shards: Sequence[PlacedShard], query_rows: Rows, group: int
) -> dict[int, Floats]:
    """Search for the samples whose home is in a group of cells; squared distances (k,) of the queries, by row."""
    parts = [arrays_in(search.files.read(f"points-{group}/{placed.shard.name}.npz")) for placed in shards]
    entries = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort((entries["row"], entries["cell"]))
    entries = {name: values[order] for name, values in entries.items()}
    logs = np.full(entries["logs"].shape, -math.log(entries["logs"].shape[1]))
    found: dict[int, Floats] = {}
    ends = np.flatnonzero(np.diff(entries["cell"], append=-1)) + 1
    for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        cell = {name: values[start:end] for name, values in entries.items()}
        homes, k = np.flatnonzero(cell["home"]), min(search.settings.k, end - start - 1)
        if not len(homes) or not k:
            continue
        cloud = prepare_points(cell["point"], k, METRICS[search.settings.space], search.settings.space)
        near = exact_search(homes, cloud, k).index
        share = search.settings.labels
        logs[start + homes] = neighbour_log_probabilities(cell["logs"], cell["label"], near, share)
        for place in np.flatnonzero(np.isin(cell["row"][homes], query_rows)).tolist():
            points = _directions(cell["point"][[homes[place], *near[place]]], search.settings)
            found[int(cell["row"][homes[place]])] = squared_distances(points[:1], points[1:])[0]
    for shard, first in shards:
        own = entries["home"] & (entries["row"] >= first) & (entries["row"] < first + shard.samples)
        own_found = {"rows": entries["row"][own], "logs": logs[own]}
        search.files.write(f"found-{group}/{shard.name}.npz", npz_bytes(own_found))
    return found


def nearest_in_shard(settings: KNNSettings, query_rows: Rows, queries: NDArray[Any], placed: PlacedShard) -> Floats:
    """Squared distances (Q, k) of the points of a shard that are nearest to each query: rows (Q,), points (Q, D)."""
    points = _directions(placed.points(settings), settings)
    distances = squared_distances(queries, points)
    own = query_rows - placed.first
    inside = np.flatnonzero((own >= 0) & (own < len(points)))
    distances[inside, own[inside]] = np.inf
    nearest: Floats = np.sort(distances, axis=1)[:, : settings.k]
    return nearest


def _directions(points: NDArray[Any], settings: KNNSettings) -> NDArray[Any]:
    """Points whose Euclidean distances have the order of the metric: for the cosine metric, of length 1."""
    if METRICS[settings.space] == "euclidean":
        return points
    lengths = np.linalg.norm(points.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(points / np.where(lengths > 0, lengths, 1))


def _hashes(rows: Rows) -> NDArray[np.uint64]:
    """Numbers (n,) that do not depend on how the run is split into shards."""
    return mix_bits((rows + 1).astype(np.uint64) * GOLDEN)
