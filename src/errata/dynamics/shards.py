"""Shards: parts of one run, each with some of its samples, written by many processes to one place.

The contract:

- A place is a local folder or any URL that fsspec supports (s3://bucket/run). It holds the shards of one run.
- A shard is the folder `shards/NAME` in it, and is complete: `ids.npy` (n,), `labels.npy` (n,), and either
  `logits.npy` (E, n, K) with all E epochs of its samples, or `reducers.npz`, their running sums. It may have
  `fold.npy`, `features.npy`, `inputs.npy`, `held_out.npy` and `swa_logits.npy`, with one row per sample.
- A shard that is being recorded grows (errata.dynamics.growing_shards): instead of these it has `logits-000000.npy`
  (n, K) and so on, one file per epoch, or `reducers-000001.npz`, the running sums after each of the last two epochs.
  Each epoch is committed by replacing the manifest. Epochs that not all shards of the run have yet are ignored.
- A shard is committed by its `manifest.json`, which is written last, in one atomic write. The manifest has the keys of
  the manifest of a dynamics folder, and:
    run_id   text, equal in all shards of a run;
    shard    the name;
    shards   the names of all shards of the run, or None if the writers do not know them;
    files    for each file, its size in bytes and its CRC-32;
    arrays   only in shards that do not grow: for each optional array, its dtype and the shape of a row.
- A folder without a manifest is not a shard: its writer is still at work, or was killed. Writing a shard again replaces
  it: the manifest of the old one is removed first.
- A sample is in one shard, under one id. The order of shards and of samples within them has no meaning: samples are
  matched by id. Shards are read in the order of their names.

`write_shard` writes one, `list_shards` reads the manifests of all, and `read_shard` reads one and checks it.
"""

import io
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.files import MANIFEST, arrays_in, npy_bytes, npz_bytes
from errata.dynamics.ids import portable_ids, refuse_same_text
from errata.dynamics.manifest import check_manifest, describe, manifest_json
from errata.dynamics.places import Place
from errata.dynamics.reducers import Reducers, sums_file
from errata.dynamics.run_folder import described_run
from errata.dynamics.store import OPTIONAL_ARRAYS, Dynamics
from errata.errors import InputError, StoreError
from errata.wording import listed

SHARDS = "shards"
LOGITS, RUNNING_SUMS = "logits.npy", "reducers.npz"
SAME = ("run_id", "num_classes", "classes", "dtype", "keep", "partial", "gathering", "shards", "methods", "arrays")
"""What all shards of a run have in common."""
READERS = 16
"""How many small files are read from a store at the same time."""


@dataclass(frozen=True)
class ShardInfo:
    """A committed shard: where it is, and its manifest."""

    place: Place
    name: str
    manifest: dict[str, Any]

    @property
    def url(self) -> str:
        """Its folder, for messages."""
        return self.place.path(f"{SHARDS}/{self.name}")

    @property
    def samples(self) -> int:
        """The number of its samples."""
        return int(self.manifest["samples"])

    def read(self, file: str) -> bytes:
        """The contents of a file, compared with its checksum; a transfer that was damaged is tried once more."""
        size, checksum = self.manifest["files"][file]
        for _ in range(2):
            data = self.place.read(f"{SHARDS}/{self.name}/{file}", 0, size)
            if zlib.crc32(data) == checksum:
                return data
        raise StoreError(
            f"shard {self.name!r} is torn: {self.url}/{file} differs from what was written; write it again"
        )

    def logits(self) -> NDArray[Any]:
        """Logits (E, n, K)."""
        if LOGITS in self.manifest["files"]:
            return self.array(LOGITS)
        return np.stack([self.array(epoch_file(epoch)) for epoch in range(self.manifest["epochs"])])

    def running_sums(self) -> Reducers:
        """The running sums after all epochs."""
        epochs = self.manifest["epochs"]
        file = RUNNING_SUMS if RUNNING_SUMS in self.manifest["files"] else sums_file(epochs)
        size = epochs, self.samples, self.manifest["num_classes"]
        return Reducers.from_stored(arrays_in(self.read(file)), f"{self.url}/{file}", *size)

    def optional_arrays(self) -> dict[str, Any]:
        """Those of the optional arrays that it has."""
        return {name: self.array(f"{name}.npy") for name in OPTIONAL_ARRAYS if f"{name}.npy" in self.manifest["files"]}

    def array(self, file: str) -> NDArray[Any]:
        """The array in a .npy file."""
        return np.asarray(np.lib.format.read_array(io.BytesIO(self.read(file)), allow_pickle=False))


def write_shard(place: str, name: str, run: Dynamics, *, run_id: str, shards: Sequence[str] | None = None) -> None:
    """Write dynamics as one shard of a run: its samples, with all their epochs, and every array that they have.

    shards: the names of all shards of the run, if they are known; a missing one is then named when the run is opened.
    """
    if not name or "/" in name or name.startswith("."):
        raise InputError(f"the name of a shard must be a file name, not {name!r}")
    if shards is not None and name not in shards:
        raise InputError(f"shard {name!r} is not among the shards of the run, {listed(shards)}")
    refuse_same_text(run.ids)
    where, folder = Place(place), f"{SHARDS}/{name}"
    dtype = np.dtype(np.float32) if run.logits is None else run.logits.dtype
    contents = array_files(run)
    if run.logits is not None:
        contents[LOGITS] = npy_bytes(run.logits)
    elif run.reducers is not None:
        contents[RUNNING_SUMS] = npz_bytes(run.reducers.arrays_to_store())
    keep = "all" if run.logits is not None else "stream"
    manifest = shard_manifest(name, run, dtype=dtype, keep=keep, run_id=run_id, shards=shards) | {
        "epochs": run.epochs,
        "arrays": {name: [str(array.dtype), *array.shape[1:]] for name, array in _optional_arrays(run).items()},
        "files": {file: file_entry(data) for file, data in contents.items()},
    }
    text = manifest_json(manifest).encode()
    where.remove(f"{folder}/{MANIFEST}")
    for file, data in contents.items():
        where.write(f"{folder}/{file}", data)
    where.write(f"{folder}/{MANIFEST}", text)


def shard_manifest(
    name: str, run: Dynamics, *, dtype: np.dtype[Any], keep: str, run_id: str, shards: Sequence[str] | None
) -> dict[str, Any]:
    """The manifest of a shard without epochs and files."""
    return describe(run, dtype=dtype, keep=keep) | {
        "run_id": run_id,
        "shard": name,
        "shards": None if shards is None else sorted(shards),
        "methods": None if run.reducers is None else run.reducers.names,
        "files": {},
    }


def array_files(run: Dynamics) -> dict[str, bytes]:
    """The contents of the files of ids, labels and optional arrays."""
    arrays = {"ids": portable_ids(run.ids), "labels": run.labels} | _optional_arrays(run)
    return {f"{name}.npy": npy_bytes(np.asarray(array)) for name, array in arrays.items()}


def _optional_arrays(run: Dynamics) -> dict[str, NDArray[Any]]:
    return {name: array for name in OPTIONAL_ARRAYS if (array := getattr(run, name)) is not None}


def file_entry(data: bytes) -> list[int]:
    """What a manifest says about a file: its size and its checksum."""
    return [len(data), zlib.crc32(data)]


def epoch_file(epoch: int) -> str:
    """The file with the logits (n, K) of one epoch in a shard that grows."""
    return f"logits-{epoch:06d}.npy"


def has_shards(place: Place) -> bool:
    """Whether there are shards in a place."""
    return any(name.startswith(f"{SHARDS}/") for name in place.files())


def list_shards(place: Place) -> list[ShardInfo]:
    """All shards of a place in the order of their names; refuses missing and torn ones, and shards of two runs.

    All have the same number of epochs, which is 0 if a recording has not ended its first epoch.
    """
    files = {
        name: size for name, size in place.files().items() if name.startswith(f"{SHARDS}/") and name.count("/") > 1
    }
    names = sorted({name.split("/")[1] for name in files})
    if not names:
        raise StoreError(f"{place.url} holds no shards: it has no folder {SHARDS}/NAME with a {MANIFEST}")
    for name in names:
        if f"{SHARDS}/{name}/{MANIFEST}" not in files:
            raise StoreError(
                f"shard {name!r} of {place.url} has no {MANIFEST}: its writer is still at work, or was killed; "
                "wait for it, write the shard again, or delete its folder"
            )

    def read(name: str) -> ShardInfo:
        file = f"{SHARDS}/{name}/{MANIFEST}"
        return ShardInfo(place, name, _manifest(place, file, files[file]))

    found = list(in_parallel(place, read, names))
    for shard in found:
        for file, (size, _) in shard.manifest["files"].items():
            held = files.get(f"{SHARDS}/{shard.name}/{file}")
            if held != size:
                state = "is missing" if held is None else f"holds {held:,} of {size:,} bytes"
                raise StoreError(f"shard {shard.name!r} is torn: {shard.url}/{file} {state}; write the shard again")
    _check_one_run(found)
    return _common_epochs(found)


def in_parallel(place: Place, function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
    """The results for many small files of a place, in order; a store needs much longer to answer than to send them."""
    if place.folder is not None:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(READERS) as readers:
        yield from readers.map(function, items)


def read_shard(shard: ShardInfo) -> Dynamics:
    """The dynamics of one shard, in memory; refuses one that differs from its manifest."""
    manifest = shard.manifest
    epochs, samples, classes = (manifest[key] for key in ("epochs", "samples", "num_classes"))
    try:
        logits = shard.logits() if manifest["keep"] == "all" else None
        reducers = shard.running_sums() if logits is None else None
        run = Dynamics(
            logits=logits,
            labels=shard.array("labels.npy"),
            ids=shard.array("ids.npy"),
            reducers=reducers,
            **described_run(manifest),
            **shard.optional_arrays(),
        )
    except (ValueError, KeyError, EOFError) as error:
        if isinstance(error, InputError):
            raise
        raise StoreError(f"shard {shard.name!r} is damaged: {shard.url} does not hold the files of a shard") from error
    stored = None if logits is None else (logits.shape, str(logits.dtype))
    if (
        stored not in (None, ((epochs, samples, classes), manifest["dtype"]))
        or not len(run.ids) == len(run.labels) == samples
    ):
        raise StoreError(f"shard {shard.name!r} is damaged: its arrays are not as large as its manifest says")
    return run


def _manifest(place: Place, file: str, size: int) -> dict[str, Any]:
    try:
        manifest = json.loads(place.read(file, 0, size))
    except (ValueError, RecursionError):
        raise StoreError(f"{place.path(file)} is not a whole JSON file; write the shard again") from None
    check_manifest(place.path(file), manifest)
    for key, kind in (("run_id", str), ("shard", str), ("files", dict)):
        if not isinstance(manifest.get(key), kind):
            raise StoreError(f"{place.path(file)} is not the manifest of a shard: it has no {key}")
    return manifest  # type: ignore[no-any-return]


def _check_one_run(shards: Sequence[ShardInfo]) -> None:
    """Refuse shards that differ in what a run has in common, and a run without all of its shards."""
    first = shards[0]
    for shard in shards:
        for key in SAME:
            own, other = shard.manifest.get(key), first.manifest.get(key)
            if own != other:
                what = "belongs to the run" if key == "run_id" else f"has {key}"
                raise StoreError(
                    f"shard {shard.name!r} of {shard.place.url} {what} {own!r}, but shard {first.name!r} {other!r}; "
                    "keep the shards of one run in a place"
                )
        if shard.manifest["shard"] != shard.name:
            raise StoreError(f"shard {shard.name!r} is a duplicate of {shard.manifest['shard']!r}: delete {shard.url}")
    expected = first.manifest.get("shards") or ()
    missing = sorted(set(expected) - {shard.name for shard in shards})
    if missing:
        raise StoreError(
            f"{len(missing)} of {len(expected)} shards of {first.place.url} are missing: {listed(missing)}"
        )


def _common_epochs(shards: Sequence[ShardInfo]) -> list[ShardInfo]:
    """The shards with the epochs that all have; only shards that grow may have more."""
    first = min(shards, key=lambda shard: int(shard.manifest["epochs"]))
    epochs, common = first.manifest["epochs"], []
    for shard in shards:
        own = shard.manifest["epochs"]
        if own > epochs and not {epoch_file(own - 1), sums_file(own)} & set(shard.manifest["files"]):
            raise StoreError(
                f"shard {shard.name!r} of {shard.place.url} has epochs {own}, but shard {first.name!r} {epochs}; "
                "keep the shards of one run in a place"
            )
        common.append(replace(shard, manifest=shard.manifest | {"epochs": epochs}))
    return common
