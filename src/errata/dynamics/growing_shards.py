"""Shards that are recorded: each grows by one epoch at a time.

A run of N samples is cut into blocks of rows, one for each shard. The blocks are fixed when a run starts, so any
number of processes can continue it. See errata.dynamics.shards.
"""

import copy
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import warn_if_probabilities
from errata.core.methods import Method
from errata.dynamics.files import MANIFEST, npy_bytes, npz_bytes
from errata.dynamics.ids import Rows
from errata.dynamics.manifest import epochs_to_keep, manifest_json, refuse_lost_epochs, require_same_run
from errata.dynamics.places import Place
from errata.dynamics.reducers import Reducers, sums_file
from errata.dynamics.shards import (
    SHARDS,
    ShardInfo,
    array_files,
    epoch_file,
    file_entry,
    list_shards,
    shard_manifest,
)
from errata.dynamics.store import OPTIONAL_ARRAYS, Dynamics
from errata.errors import InputError, StoreError

MAX_EPOCH_BYTES = 1 << 26
"""The largest size of one epoch of a shard."""
OUTDATED = ("swa_logits.npy", "features.npy")
"""Arrays of the last epoch, which the next epoch makes outdated."""


@dataclass(frozen=True)
class RunLayout:
    """How the rows of a run are cut into shards, and how many epochs are kept of the stored ones."""

    run_id: str
    samples: int
    names: tuple[str, ...]
    epochs: int = 0
    stored: tuple[ShardInfo, ...] = ()

    @classmethod
    def new(cls, samples: int, epoch_bytes: int, ranks: int) -> "RunLayout":
        """A layout for a new run: the same number of shards for every rank."""
        per_rank = max(1, math.ceil(epoch_bytes / ranks / MAX_EPOCH_BYTES))
        count = min(samples, ranks * per_rank)
        return cls(uuid.uuid4().hex, samples, tuple(f"part-{number:05d}" for number in range(count)))

    @property
    def starts(self) -> Rows:
        """The first row of each shard, and the number of rows."""
        return np.arange(len(self.names) + 1) * self.samples // len(self.names)

    def shard_of(self, rows: Rows) -> Rows:
        """The number (n,) of the shard of each row (n,)."""
        return np.searchsorted(self.starts, rows, side="right") - 1

    def block(self, number: int) -> slice:
        """The rows of a shard."""
        return slice(*self.starts[number : number + 2].tolist())


def stored_shards(place: Place, resume: bool | int, overwrite: bool) -> list[ShardInfo]:
    """The shards of the run in a place if it has epochs, else none; refuses a run that may not be changed.

    The writers of a new run may have been killed before all its shards were started.
    """
    files = place.files()
    if MANIFEST in files:
        raise StoreError(f"{place.url} holds a run of one process, which has no shards; choose another folder")
    if overwrite or not any(re.match(f"{SHARDS}/.*/(logits|reducers)", name) for name in files):
        return []
    shards = list_shards(place)
    if not shards[0].manifest["epochs"]:
        return []
    refuse_lost_epochs(place.url, shards[0].manifest, resume, overwrite)
    return shards


def stored_layout(place: Place, samples: int, resume: bool | int, overwrite: bool) -> RunLayout | None:
    """The layout of the run in a place if it is continued; otherwise its shards are deleted."""
    shards = stored_shards(place, resume, overwrite)
    if not shards or (resume is not True and not resume):  # resume=0 starts again
        remove_shards(place)
        return None
    epochs = epochs_to_keep(place.url, shards[0].manifest, resume)
    layout = RunLayout(
        shards[0].manifest["run_id"], samples, tuple(shard.name for shard in shards), epochs, tuple(shards)
    )
    sizes = np.diff(layout.starts).tolist() if layout.samples >= len(shards) else []
    if sizes != [shard.samples for shard in shards]:
        stored = sum(shard.samples for shard in shards)
        raise StoreError(
            f"{place.url} was recorded with {stored:,} samples, not {samples:,}: resume needs the same run"
        )
    return layout


def remove_shards(place: Place) -> None:
    """Delete all shards of a place, their manifests first."""
    files = [name for name in place.files() if name.startswith(f"{SHARDS}/")]
    for name in sorted(files, key=lambda name: not name.endswith(f"/{MANIFEST}")):
        place.remove(name)


class GrowingShard:
    """One shard of a run that is recorded by this process: written epoch by epoch, and committed after each.

    empty: the run without its epochs, of the samples of this shard only.
    """

    def __init__(
        self,
        place: Place,
        layout: RunLayout,
        number: int,
        empty: Dynamics,
        dtype: np.dtype[Any],
        stream: Sequence[Method] | None,
    ) -> None:
        self._place, self._dtype, self._labels = place, dtype, empty.labels
        self._folder = f"{SHARDS}/{layout.names[number]}"
        self._classes = empty.num_classes
        self._reducers = None if stream is None else Reducers(list(stream), empty.samples, empty.num_classes)
        self._next_reducers = self._reducers
        self._warned = False
        run, keep = replace(empty, reducers=self._reducers), "all" if stream is None else "stream"
        manifest = shard_manifest(
            layout.names[number], run, dtype=dtype, keep=keep, run_id=layout.run_id, shards=layout.names
        )
        if not layout.stored:
            contents = array_files(empty)
            for name, data in contents.items():
                self._place.write(f"{self._folder}/{name}", data)
            manifest |= {"files": {name: file_entry(data) for name, data in contents.items()}}
        else:
            manifest = self._continued(manifest, layout.stored[number], layout.epochs)
        self._manifest = self._next_manifest = manifest
        self.commit()

    @property
    def samples(self) -> int:
        """The number of its samples."""
        return len(self._labels)

    def write_epoch(self, rows: Rows, logits: NDArray[Any]) -> None:
        """Write logits (n, K) of an epoch for distinct `rows` (n,) of this shard; `commit` makes it part of the run."""
        epochs: int = self._manifest["epochs"]
        files = {name: entry for name, entry in self._manifest["files"].items() if name not in OUTDATED}
        if self._reducers is None:
            whole = np.full((self.samples, self._classes), np.nan, dtype=self._dtype)
            whole[rows] = logits
            self._warned = self._warned or warn_if_probabilities(whole, epochs)
            name, data = epoch_file(epochs), npy_bytes(whole)
        else:
            self._next_reducers = copy.deepcopy(self._reducers)
            self._next_reducers.add(rows, logits, self._labels)
            self._next_reducers.flush(self._labels)
            self._next_reducers.end_epoch()
            name, data = sums_file(epochs + 1), npz_bytes(self._next_reducers.arrays_to_store())
            files.pop(sums_file(epochs - 1), None)
        self._place.write(f"{self._folder}/{name}", data)
        self._next_manifest = self._manifest | {"epochs": epochs + 1, "files": files | {name: file_entry(data)}}

    def add_files(self, entries: Mapping[str, list[int]]) -> None:
        """Count files that were written into the folder as files of the shard, from the next `commit` on."""
        self._next_manifest = self._manifest | {"files": self._manifest["files"] | entries}

    def commit(self) -> None:
        """Replace the manifest."""
        self._place.write(f"{self._folder}/{MANIFEST}", manifest_json(self._next_manifest).encode())

    def committed(self) -> None:
        """Go on from the last commit, once all shards are committed; delete files that are no longer used."""
        for name in self._manifest["files"].keys() - self._next_manifest["files"].keys():
            self._place.remove(f"{self._folder}/{name}")
        self._manifest, self._reducers = self._next_manifest, self._next_reducers

    def _continued(self, manifest: dict[str, Any], stored: ShardInfo, epochs: int) -> dict[str, Any]:
        """The manifest of the stored shard after `epochs` epochs; refuses a shard of another run."""
        require_same_run(self._place.url, stored.manifest, manifest)
        kept = {f"{name}.npy" for name in ("ids", "labels", *OPTIONAL_ARRAYS)} | {sums_file(epochs)}
        if epochs < stored.manifest["epochs"]:
            kept -= set(OUTDATED)
        kept |= {epoch_file(epoch) for epoch in range(epochs)}
        if manifest["keep"] == "stream":
            self._reducers = self._next_reducers = stored.running_sums()
        files = {name: entry for name, entry in stored.manifest["files"].items() if name in kept}
        if manifest["keep"] == "all" and epoch_file(epochs - 1) not in files:
            raise InputError(f"{self._place.url} was not written by a DistributedRecorder and cannot be continued")
        return stored.manifest | {"epochs": epochs, "files": files}


def write_rows(place: Place, layout: RunLayout, arrays: Mapping[str, NDArray[Any]]) -> dict[int, dict[str, list[int]]]:
    """Write arrays (N, ...) into the folders of all shards; the entries of their files for each shard."""
    entries: dict[int, dict[str, list[int]]] = {}
    for number, name in enumerate(layout.names):
        entries[number] = {}
        for key, array in arrays.items():
            data = npy_bytes(np.ascontiguousarray(array[layout.block(number)]))
            place.write(f"{SHARDS}/{name}/{key}.npy", data)
            entries[number][f"{key}.npy"] = file_entry(data)
    return entries
