"""Recording in several processes: under torchrun, FSDP or Ray Train, every rank writes shards of one run.

At the end of an epoch the ranks exchange their logits, so that each has those of the samples in its own shards. An
epoch counts once all shards have it.
"""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from errata.core.checks import as_numpy
from errata.core.noise import label_hash
from errata.dynamics.growing_shards import GrowingShard, RunLayout, stored_layout, write_rows
from errata.dynamics.ids import Rows, refuse_same_text
from errata.dynamics.manifest import id_hash
from errata.dynamics.places import Place
from errata.dynamics.recorder import Recorder, check_resume
from errata.dynamics.run import Run
from errata.dynamics.store import Dynamics, added_arrays
from errata.errors import ErrataError, InputError
from errata.locks import WriteLock, lock_folder
from errata.wording import counted


class DistributedRecorder(Recorder):
    """A Recorder for training in several processes. All ranks make it and call its methods in the same way.

    Each rank updates with the samples of its own batches, which may differ every epoch. A sample that a sampler repeats
    to fill its batches counts once: its first logits on the lowest rank. The run is stored in shards, which
    `errata.Dynamics.open` presents as one. With resume=True, any number of ranks can continue it.

    path: a folder that all ranks share, or a URL such as s3://bucket/run. The other arguments are those of Recorder,
    but num_classes (or classes) is required. Until the end of an epoch, each rank holds the logits of its samples in
    memory.

    >>> from errata.integrations import DistributedRecorder  # in a script that torchrun starts; here one process
    >>> recorder = DistributedRecorder("runs/shared", labels=[0, 1], num_classes=2, quiet=True)
    >>> recorder.update([0, 1], [[2.0, 0.0], [0.0, 3.0]])
    >>> recorder.end_epoch()
    >>> recorder.finish().samples
    2
    """

    _run: "_Batches"

    def __init__(
        self,
        path: str | Path,
        *,
        num_classes: int | None = None,
        classes: Sequence[Any] | None = None,
        resume: bool | int = False,
        overwrite: bool = False,
        quiet: bool = False,
        **options: Any,
    ) -> None:
        self._ranks, self._place = _Ranks(), Place(str(path))
        self._lock: WriteLock | None = None
        with self._ranks.together():
            if num_classes is None and classes is None:
                raise InputError("DistributedRecorder needs num_classes= or classes=")
            resume = check_resume(resume, overwrite)
            super().__init__(num_classes=num_classes, classes=classes, quiet=True, **options)
            refuse_same_text(self._ids.values)
        fingerprints = self._ranks.gather(self._fingerprint())
        for rank, fingerprint in enumerate(fingerprints):
            for name, value in fingerprint.items():
                if value != fingerprints[0][name]:
                    raise InputError(f"rank {rank} has other {name} than rank 0")
        layout, empty = None, self._run.empty
        with self._ranks.together():
            if self._ranks.own == 0:
                if self._place.folder is not None:
                    self._lock = lock_folder(self._place.folder)
                layout = stored_layout(self._place, empty.samples, resume, overwrite)
                epoch_bytes = empty.samples * self._record_type.itemsize
                layout = layout or RunLayout.new(empty.samples, epoch_bytes, self._ranks.count)
        self._layout: RunLayout = self._ranks.gather(layout)[0]
        with self._ranks.together():
            own = [number for number in range(len(self._layout.names)) if self._owner(number) == self._ranks.own]
            self._shards = {number: self._open_shard(number) for number in own}
        self._layout = replace(self._layout, stored=())
        self._start_epoch(self._layout.epochs)
        if self._ranks.own == 0 and not quiet:
            shards = counted(len(self._layout.names), "shard")
            size = f"{empty.samples:,} samples x {empty.num_classes} classes in {shards} in {self._place.url}"
            print(f"errata: recording {size}", file=sys.stderr)

    def update(self, ids: Any, logits: Any) -> None:
        """Record logits (n, K) of a batch of this rank; ranks do not wait for each other here.

        Samples that this rank has recorded in this epoch already are skipped.
        """
        rows, values = self._ids.rows(ids), as_numpy(logits, "logits")
        self._ids.refuse_unknown(rows)
        _, first = np.unique(rows, return_index=True)
        new = first[~self._recorded[rows[first]]]
        if len(new) < len(rows) and values.shape[:1] == rows.shape:
            rows, values = rows[new], values[new]
        self._write(rows, values)

    def end_epoch(self, *, durable: bool = True) -> None:
        """End the epoch, once all ranks have called this; if a sample is missing, all ranks raise the error.

        It survives a crash, also with durable=False.
        """
        if not self._in_epoch():
            raise InputError(f"epoch {self.epoch} has no samples; call update() before end_epoch()")
        own = self._records()
        records = self._ranks.exchange(own, self._owner(self._layout.shard_of(own["row"])))
        with self._ranks.together():
            for number, shard in self._shards.items():
                shard.write_epoch(*self._of_shard(number, records))
        self._commit()
        self._start_epoch(self.epoch + 1)

    def _in_epoch(self) -> bool:
        """Whether an epoch is in progress on any rank."""
        return any(self._ranks.gather(super()._in_epoch()))

    def _finish(self, **arrays: Any) -> Dynamics:
        """The recorded dynamics, on every rank; the arrays (N, ...) are those that rank 0 passes."""
        entries: dict[int, dict[str, list[int]]] = {}
        with self._ranks.together():
            if self._ranks.own == 0:
                passed = added_arrays(self._layout.samples, self._run.classes, **arrays)
                entries = write_rows(self._place, self._layout, passed)
        entries = self._ranks.gather(entries)[0]
        for number, shard in self._shards.items():
            shard.add_files(entries[number])
        self._commit()
        with self._ranks.together():
            dynamics = Dynamics.open(self._place.url)
        self.close()
        return dynamics

    def close(self) -> None:
        """Let others record into the folder. Ended epochs are on disk; an epoch in progress is lost."""
        if self._lock is not None:
            self._lock.release()

    def _commit(self) -> None:
        with self._ranks.together():
            for shard in self._shards.values():
                shard.commit()
        for shard in self._shards.values():
            shard.committed()

    def _open_shard(self, number: int) -> GrowingShard:
        rows, empty = self._layout.block(number), self._run.empty
        fold = None if empty.fold is None else empty.fold[rows]
        own = replace(empty, labels=empty.labels[rows], ids=empty.ids[rows], fold=fold)
        return GrowingShard(self._place, self._layout, number, own, self._dtype, self._stream)

    def _owner(self, shards: Any) -> Any:
        """The rank that writes each shard."""
        return shards * self._ranks.count // len(self._layout.names)

    def _of_shard(self, number: int, records: NDArray[Any]) -> tuple[Rows, NDArray[Any]]:
        """Rows (n,) counted in a shard, and their logits (n, K): the first record of each sample."""
        block = self._layout.block(number)
        inside = records[(records["row"] >= block.start) & (records["row"] < block.stop)]
        rows, first = np.unique(inside["row"], return_index=True)
        if len(rows) < block.stop - block.start:
            self._refuse_missing(np.setdiff1d(np.arange(block.start, block.stop), rows))
        return rows - block.start, inside["logits"][first]

    @property
    def _record_type(self) -> np.dtype[Any]:
        """The row and the logits of a sample."""
        return np.dtype([("row", np.int64), ("logits", self._dtype, (self._run.classes,))])

    def _records(self) -> NDArray[Any]:
        """The records of the epoch in progress, in the order of recording."""
        records, end = np.empty(self._recorded.sum(), dtype=self._record_type), 0
        for rows, logits in self._run.batches:
            records["row"][end : end + len(rows)], records["logits"][end : end + len(rows)] = rows, logits
            end += len(rows)
        return records

    def _start_epoch(self, epoch: int) -> None:
        self._run.start_epoch(epoch)
        self._recorded[:] = False

    def _fingerprint(self) -> dict[str, Any]:
        """What must be equal on all ranks."""
        empty = self._run.empty
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
        self.empty = empty
        self.batches: list[tuple[Rows, NDArray[Any]]] = []

    def start_epoch(self, epoch: int) -> None:
        """Start an epoch, without any batch."""
        self._manifest["epochs"] = epoch
        self.batches = []

    def write(self, rows: Rows, logits: NDArray[Any]) -> None:
        """Keep logits (n, K) of the samples in `rows` (n,)."""
        self.batches.append((rows.copy(), logits.copy()))

    def write_all(self, logits: NDArray[Any]) -> None:
        """Keep logits (N, K) of all samples."""
        self.write(np.arange(len(logits)), logits)

    def drop_epoch(self) -> None:
        """Discard the epoch in progress."""
        self.batches = []


class _Ranks:
    """The processes of a run, and messages between them."""

    def __init__(self) -> None:
        joined = dist.is_available() and dist.is_initialized()
        self.own: int = dist.get_rank() if joined else 0
        self.count: int = dist.get_world_size() if joined else 1
        launched = os.environ.get("WORLD_SIZE", "1")
        if not joined and launched not in ("0", "1"):
            raise InputError(
                f"{launched} processes were launched (WORLD_SIZE), but this one has not joined them; make the "
                "DistributedRecorder after torch.distributed.init_process_group() or Accelerator()"
            )
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
