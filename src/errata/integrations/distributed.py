"""Recording in several processes: under torchrun, FSDP or Ray Train, every rank writes shards of one run.

At the end of an epoch the ranks exchange their logits, so that each has those of the samples in its own shards. An
epoch counts once all shards have it.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from errata.core.checks import as_numpy
from errata.core.methods import Method
from errata.core.noise import label_hash
from errata.dynamics.growing_shards import GrowingShard, RunLayout, stored_layout, write_rows
from errata.dynamics.ids import Rows, refuse_same_text
from errata.dynamics.manifest import id_hash
from errata.dynamics.places import Place
from errata.dynamics.recorder import Recorder
from errata.dynamics.run import Run
from errata.dynamics.store import Dynamics, added_arrays
from errata.errors import ErrataError, InputError
from errata.locks import WriteLock, lock_folder
from errata.wording import counted


class DistributedRecorder:
    """A Recorder for training in several processes. All ranks make it and call its methods in the same way.

    Each rank updates with the samples of its own batches, which may differ every epoch. A sample that a sampler repeats
    to fill its batches counts once: its first logits on the lowest rank. The run is stored in shards, which
    `errata.Dynamics.open` presents as one. With resume=True, any number of ranks can continue it.

    path: a folder that all ranks share, or a URL such as s3://bucket/run. The other arguments are those of Recorder,
    but num_classes (or classes) is required. Until the end of an epoch, each rank holds the logits of its samples in
    memory.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        labels: Any,
        ids: Any | None = None,
        num_classes: int | None = None,
        classes: Sequence[Any] | None = None,
        resume: bool | int = False,
        overwrite: bool = False,
        quiet: bool = False,
        **options: Any,
    ) -> None:
        self._ranks = _Ranks()
        self._place = Place(str(path))
        self._lock: WriteLock | None = None
        with self._ranks.together():
            if num_classes is None and classes is None:
                raise InputError("DistributedRecorder needs num_classes= or classes=")
            if resume is not False and overwrite:
                raise InputError("pass either resume or overwrite, not both")
            self._batches = _EpochBuffer(labels=labels, ids=ids, num_classes=num_classes, classes=classes, **options)
            empty = self._batches.empty
            refuse_same_text(empty.ids)
        fingerprints = self._ranks.gather(self._batches.fingerprint())
        for rank, fingerprint in enumerate(fingerprints):
            for name, value in fingerprint.items():
                if value != fingerprints[0][name]:
                    raise InputError(f"rank {rank} has other {name} than rank 0")
        layout = None
        with self._ranks.together():
            if self._ranks.own == 0:
                if self._place.folder is not None:
                    self._lock = lock_folder(self._place.folder)
                layout = stored_layout(self._place, empty.samples, resume, overwrite)
                epoch_bytes = empty.samples * self._batches.record.itemsize
                layout = layout or RunLayout.new(empty.samples, epoch_bytes, self._ranks.count)
        self._layout: RunLayout = self._ranks.gather(layout)[0]
        self._epoch: int = self._layout.epochs
        with self._ranks.together():
            own = [number for number in range(len(self._layout.names)) if self._owner(number) == self._ranks.own]
            self._shards = {number: self._open_shard(number, empty) for number in own}
        self._batches.start_epoch(self._epoch)
        if self._ranks.own == 0 and not quiet:
            print(f"errata: recording {self._size()}", file=sys.stderr)

    @property
    def epoch(self) -> int:
        """The current epoch, counted from 0, which is also the number of complete epochs."""
        return self._epoch

    def update(self, ids: Any, logits: Any) -> None:
        """Record logits (n, K) of a batch of this rank; ranks do not wait for each other here."""
        self._batches.update(ids, logits)

    def end_epoch(self) -> None:
        """End the epoch, once all ranks have called this; if a sample is missing, all ranks raise the error."""
        if not any(self._ranks.gather(self._batches.count)):
            raise InputError(f"epoch {self.epoch} has no samples; call update() before end_epoch()")
        own = self._batches.records()
        records = self._ranks.exchange(own, self._owner(self._layout.shard_of(own["row"])))
        with self._ranks.together():
            for number, shard in self._shards.items():
                shard.write_epoch(*self._of_shard(number, records))
        self._commit()
        self._epoch += 1
        self._batches.start_epoch(self._epoch)

    def drop_epoch(self) -> None:
        """Discard the current epoch; all ranks call this."""
        self._batches.start_epoch(self._epoch)

    def finish(
        self,
        *,
        swa_logits: Any | None = None,
        features: Any | None = None,
        inputs: Any | None = None,
        held_out: Any | None = None,
    ) -> Dynamics:
        """The recorded dynamics, on every rank; the arrays (N, ...) are those that rank 0 passes (Recorder.finish)."""
        if not self._epoch:
            raise InputError("no whole epoch was recorded")
        if any(self._ranks.gather(self._batches.count)):
            raise InputError(f"epoch {self.epoch} is not ended; call end_epoch() first")
        entries: dict[int, dict[str, list[int]]] = {}
        with self._ranks.together():
            if self._ranks.own == 0:
                arrays = {"swa_logits": swa_logits, "features": features, "inputs": inputs, "held_out": held_out}
                passed = added_arrays(self._layout.samples, self._batches.empty.num_classes, **arrays)
                entries = write_rows(self._place, self._layout, passed)
        entries = self._ranks.gather(entries)[0]
        for number, shard in self._shards.items():
            shard.add_files(entries[number])
        self._commit()
        with self._ranks.together():
            dynamics = Dynamics.open(self._place.url)
        if self._lock is not None:
            self._lock.release()
        return dynamics

    def _commit(self) -> None:
        with self._ranks.together():
            for shard in self._shards.values():
                shard.commit()
        for shard in self._shards.values():
            shard.committed()

    def _open_shard(self, number: int, empty: Dynamics) -> GrowingShard:
        rows, batches = self._layout.block(number), self._batches
        own = Dynamics(
            None,
            empty.labels[rows],
            empty.ids[rows],
            empty.num_classes,
            empty.classes,
            fold=None if empty.fold is None else empty.fold[rows],
            gathering=empty.gathering,
            allow_missing=empty.allow_missing,
            settings=empty.settings,
        )
        return GrowingShard(self._place, self._layout, number, own, batches.dtype, batches.stream)

    def _owner(self, shards: Any) -> Any:
        """The rank that writes each shard."""
        return shards * self._ranks.count // len(self._layout.names)

    def _of_shard(self, number: int, records: NDArray[Any]) -> tuple[Rows, NDArray[Any]]:
        """Rows (n,) counted in a shard, and their logits (n, K): the first record of each sample."""
        block = self._layout.block(number)
        inside = records[(records["row"] >= block.start) & (records["row"] < block.stop)]
        rows, first = np.unique(inside["row"], return_index=True)
        if len(rows) < block.stop - block.start and not self._batches.empty.allow_missing:
            missing = np.setdiff1d(np.arange(block.start, block.stop), rows)
            raise InputError(
                f"{len(missing):,} samples were not recorded in epoch {self.epoch}, the first with id "
                f"{self._batches.name(int(missing[0]))}; every sample is expected in every epoch unless partial='allow'"
            )
        return rows - block.start, inside["logits"][first]

    def _size(self) -> str:
        empty, shards = self._batches.empty, counted(len(self._layout.names), "shard")
        return f"{empty.samples:,} samples x {empty.num_classes} classes in {shards} in {self._place.url}"


class _Ranks:
    """The processes of a run, and messages between them."""

    def __init__(self) -> None:
        joined = dist.is_available() and dist.is_initialized()
        self.own: int = dist.get_rank() if joined else 0
        self.count: int = dist.get_world_size() if joined else 1
        # Messages stay on the CPU: NCCL would send them through the current GPU.
        needs_own_group = self.count > 1 and "cpu:gloo" not in dist.get_backend_config()
        self._group = dist.new_group(backend="gloo") if needs_own_group else None

    def gather(self, own: Any) -> list[Any]:
        """The objects of all ranks, in order; torch raises an error if a rank has died or does not answer in time."""
        if self.count == 1:
            return [own]
        objects = [None] * self.count
        dist.all_gather_object(objects, own, group=self._group)
        return objects

    def exchange(self, records: NDArray[Any], targets: Rows) -> NDArray[Any]:
        """Send each of `records` (n,) to the rank in `targets` (n,); what this rank receives, in the order of ranks."""
        if self.count == 1:
            return records
        ordered = records[np.argsort(targets, kind="stable")]
        sent = np.bincount(targets, minlength=self.count) * records.itemsize
        received = torch.empty(self.count, dtype=torch.int64)
        dist.all_to_all_single(received, torch.from_numpy(sent), group=self._group)
        data = torch.empty(int(received.sum()), dtype=torch.uint8)
        own = torch.from_numpy(ordered.view(np.uint8).reshape(-1))
        dist.all_to_all_single(data, own, received.tolist(), sent.tolist(), group=self._group)
        return data.numpy().view(records.dtype)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """A block that all ranks leave together; an error on one rank is raised on all, so that none waits for it."""
        try:
            yield
        except Exception as error:
            self.gather((type(error) if isinstance(error, ErrataError) else RuntimeError, str(error)))
            raise
        for rank, failure in enumerate(self.gather(None)):
            if failure is not None:
                kind, message = failure
                raise kind(f"rank {rank}: {message}")


class _EpochBuffer(Recorder):
    """Checks batches as a Recorder does, skips samples that are repeated, and holds the epoch in progress in memory."""

    _run: "_Batches"

    def __init__(self, **arguments: Any) -> None:
        super().__init__(None, quiet=True, **arguments)

    def update(self, ids: Any, logits: Any) -> None:
        """Record logits (n, K) of the samples of a batch that are new in this epoch."""
        rows, values = self._ids.rows(ids), as_numpy(logits, "logits")
        self._ids.refuse_unknown(rows)
        _, first = np.unique(rows, return_index=True)
        new = first[~self._recorded[rows[first]]]
        if len(new) < len(rows) and values.shape[:1] == rows.shape:
            rows, values = rows[new], values[new]
        self._write(rows, values)

    @property
    def empty(self) -> Dynamics:
        """The run without its epochs."""
        return self._run.empty

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the stored logits."""
        return self._dtype

    @property
    def stream(self) -> list[Method] | None:
        """The methods whose running sums are stored; None if logits are stored."""
        return self._stream

    @property
    def record(self) -> np.dtype[Any]:
        """The type of the records of `records`."""
        return np.dtype([("row", np.int64), ("logits", self._dtype, (self.empty.num_classes,))])

    @property
    def count(self) -> int:
        """The number of samples in the epoch in progress."""
        return sum(len(rows) for rows, _ in self._run.batches)

    def name(self, row: int) -> str:
        """The id of a row, for messages."""
        return self._ids.name(row)

    def start_epoch(self, epoch: int) -> None:
        """Start an epoch, without any batch."""
        self._run.set_epoch(epoch)
        self._recorded[:] = False

    def records(self) -> NDArray[Any]:
        """The rows and logits of the epoch in progress, in the order of recording."""
        records, end = np.empty(self.count, dtype=self.record), 0
        for rows, logits in self._run.batches:
            records["row"][end : end + len(rows)], records["logits"][end : end + len(rows)] = rows, logits
            end += len(rows)
        return records

    def fingerprint(self) -> dict[str, Any]:
        """What must be equal on all ranks."""
        empty = self.empty
        return {
            "labels": label_hash(empty.labels),
            "ids": id_hash(empty.ids),
            "num_classes": empty.num_classes,
            "classes": empty.classes,
            "dtype": str(self._dtype),
            "methods": None if self._stream is None else [method.name for method in self._stream],
            "partial": empty.allow_missing,
            "gathering": empty.gathering,
        }

    def _new_run(self, empty: Dynamics) -> Run:
        return _Batches(empty, self._dtype)


class _Batches(Run):
    """A run in memory that only collects the batches of the epoch in progress."""

    def __init__(self, empty: Dynamics, dtype: np.dtype[Any]) -> None:
        super().__init__(None, empty, dtype, None, False, False)
        self.batches: list[tuple[Rows, NDArray[Any]]] = []

    @property
    def empty(self) -> Dynamics:
        """The run without its epochs."""
        return self._dynamics

    def set_epoch(self, epoch: int) -> None:
        """Start an epoch."""
        self._manifest["epochs"] = epoch
        self.batches = []

    def write(self, rows: Rows, logits: NDArray[Any]) -> None:
        """Keep logits (n, K) of the samples in `rows` (n,)."""
        self.batches.append((rows.copy(), logits.copy()))
