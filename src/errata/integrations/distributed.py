"""Recording under torchrun: every rank writes a shard with its batches, and rank 0 merges the shards into one run."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed as dist
from numpy.typing import NDArray

from errata.core.checks import Labels, as_numpy, check_labels
from errata.core.jit import row_blocks
from errata.core.noise import label_hash
from errata.dynamics.ids import Rows, SampleIds
from errata.dynamics.manifest import id_hash
from errata.dynamics.recorder import Recorder
from errata.dynamics.run import Run
from errata.dynamics.store import Dynamics
from errata.errors import ErrataError, InputError, StoreError

_MERGED_AT_ONCE = 1 << 26  # bytes of a shard that rank 0 reads at once
_SHARDS = "shards"


class DistributedRecorder:
    """A Recorder for training with several processes (DDP). All ranks make it and call its methods in the same way.

    Each rank updates with the samples of its own batches, which may differ every epoch. A sample that a sampler repeats
    to fill its batches counts once: its first logits on the lowest rank. The folder ends up as a Recorder of a single
    process writes it. It must be on a file system that all ranks share. Without a process group, this is a Recorder.

    The arguments are those of Recorder, but path and num_classes (or classes) are required.
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
        self._folder = Path(path)
        self._shard: _ShardRecorder | None = None
        self._whole: Recorder | None = None
        arguments = {"labels": labels, "ids": ids, "num_classes": num_classes, "classes": classes, **options}
        with self._ranks.together():
            if num_classes is None and classes is None:
                raise InputError("DistributedRecorder needs num_classes= or classes=")
            if not self._ranks.alone:
                self._shard = _ShardRecorder(_shard_file(self._folder, self._ranks.own), **arguments)
        if self._shard is not None:
            fingerprints = self._ranks.gather(self._shard.fingerprint())
            for rank, fingerprint in enumerate(fingerprints):
                for name, value in fingerprint.items():
                    if value != fingerprints[0][name]:
                        raise InputError(f"rank {rank} has other {name} than rank 0")
            self._merged = np.zeros(len(self._shard.names), dtype=np.bool_)
        with self._ranks.together():
            if self._ranks.own == 0:
                self._whole = Recorder(self._folder, resume=resume, overwrite=overwrite, quiet=quiet, **arguments)
                _drop_shards(self._folder)  # of a run that was killed
        if self._shard is not None:
            epoch = 0 if self._whole is None else self._whole.epoch
            self._shard.set_epoch(self._ranks.gather(epoch)[0])

    @property
    def epoch(self) -> int:
        """The current epoch, counted from 0, which is also the number of complete epochs."""
        return self._batches.epoch

    def update(self, ids: Any, logits: Any) -> None:
        """Record logits (n, K) of a batch of this rank; ranks do not wait for each other here."""
        self._batches.update(ids, logits)

    def end_epoch(self) -> None:
        """End the epoch, once all ranks have called this; if a sample is missing, all ranks raise the error."""
        self._merge_shards()
        with self._ranks.together():
            if self._whole is not None:
                self._whole.end_epoch()
        if self._shard is not None:
            self._shard.set_epoch(self.epoch + 1)
            self._merged[:] = False

    def drop_epoch(self) -> None:
        """Discard the current epoch; all ranks call this."""
        with self._ranks.together():  # until a slow rank arrives, it may still write to its shard
            if self._shard is not None:
                self._shard.set_epoch(self.epoch)
                self._merged[:] = False
        with self._ranks.together():
            if self._whole is not None:
                self._whole.drop_epoch()
                _drop_shards(self._folder)

    def finish(
        self,
        *,
        swa_logits: Any | None = None,
        features: Any | None = None,
        inputs: Any | None = None,
        held_out: Any | None = None,
    ) -> Dynamics:
        """The recorded dynamics, on every rank; the arrays are those that rank 0 passes (see Recorder.finish)."""
        self._merge_shards()  # so that rank 0 raises an error if the last epoch was not ended
        with self._ranks.together():
            if self._whole is not None:
                self._whole.finish(swa_logits=swa_logits, features=features, inputs=inputs, held_out=held_out)
        return Dynamics.open(self._folder)

    @property
    def _batches(self) -> Recorder:
        recorder = self._shard or self._whole
        assert recorder is not None
        return recorder

    def _merge_shards(self) -> None:
        """Copy the shards of all ranks into the whole run; if this fails, it can be repeated."""
        if self._shard is None:
            return
        with self._ranks.together():
            records = _records(self._shard.file, self._shard.shard.record)
        written = self._ranks.gather(records)
        with self._ranks.together():
            if self._whole is not None:
                for rank, count in enumerate(written):
                    for rows, logits in _read(_shard_file(self._folder, rank), self._shard.shard.record, count):
                        first = _first_occurrence(rows, self._merged)
                        self._whole.update(self._shard.names[rows[first]], logits[first])
                        self._merged[rows[first]] = True
                _drop_shards(self._folder)


class _Ranks:
    """The processes of a run, and messages between them."""

    def __init__(self) -> None:
        joined = dist.is_available() and dist.is_initialized()
        self.own: int = dist.get_rank() if joined else 0
        self._count: int = dist.get_world_size() if joined else 1
        self.alone = self._count == 1
        # Messages stay on the CPU: NCCL would send them through the current GPU.
        needs_own_group = not self.alone and "cpu:gloo" not in dist.get_backend_config()
        self._group = dist.new_group(backend="gloo") if needs_own_group else None

    def gather(self, own: Any) -> list[Any]:
        """The objects of all ranks, in order; torch raises an error if a rank has died or does not answer in time."""
        if self.alone:
            return [own]
        objects = [None] * self._count
        dist.all_gather_object(objects, own, group=self._group)
        return objects

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


class _ShardRecorder(Recorder):
    """Checks batches as a Recorder does, skips samples that are repeated, and appends to the shard of a rank."""

    def __init__(self, file: Path, **arguments: Any) -> None:
        self.file = file
        super().__init__(None, quiet=True, **arguments)

    def update(self, ids: Any, logits: Any) -> None:
        """Record logits (n, K) of the samples of a batch that are new in this epoch."""
        rows, values = self._ids.rows(ids), as_numpy(logits, "logits")
        self._ids.refuse_unknown(rows)
        new = _first_occurrence(rows, self._recorded)
        if len(new) < len(rows) and values.shape[:1] == rows.shape:
            ids, values = self.names[rows[new]], values[new]
        super().update(ids, values)

    @property
    def names(self) -> NDArray[Any]:
        """The ids (N,) of all samples."""
        return self._ids.values

    def set_epoch(self, epoch: int) -> None:
        """Start an epoch."""
        self.shard.set_epoch(epoch)
        self._recorded[:] = False

    def fingerprint(self) -> dict[str, Any]:
        """What must be equal on all ranks."""
        return {
            "labels": label_hash(check_labels(self._given_labels, self.shard.classes, self._classes)),
            "ids": id_hash(self.names),
            "num_classes": self.shard.classes,
            "dtype": str(self._dtype),
        }

    def _open(self, num_classes: int) -> Run:
        labels = check_labels(self._given_labels, num_classes, self._classes)
        self._run = self.shard = _Shard(self.file, labels, self._ids, num_classes, self._dtype)
        return self.shard


class _Shard(Run):
    """A run whose batches are appended to a file of records (row, logits), which rank 0 reads."""

    def __init__(self, file: Path, labels: Labels, ids: SampleIds, num_classes: int, dtype: np.dtype[Any]) -> None:
        super().__init__(None, Dynamics(None, labels, ids.values, num_classes), dtype, None, False, False)
        self._path = file
        self.record = np.dtype([("row", np.int64), ("logits", dtype, (num_classes,))])

    def set_epoch(self, epoch: int) -> None:
        """Start an epoch."""
        self._manifest["epochs"] = epoch

    def write(self, rows: Rows, logits: NDArray[Any]) -> None:
        """Append logits (n, K) of the samples in `rows` (n,), all of them or none."""
        records = np.empty(len(rows), dtype=self.record)
        records["row"], records["logits"] = rows, logits
        size = None
        try:
            self._path.parent.mkdir(exist_ok=True)
            with self._path.open("ab") as file:
                size = file.tell()
                file.write(records.tobytes())
        except OSError as error:
            if size is not None:
                with contextlib.suppress(OSError):
                    os.truncate(self._path, size)
            raise StoreError(
                f"{self._path} cannot be written ({error.strerror}); all ranks must share the folder that rank 0 made"
            ) from error


def _read(file: Path, record: np.dtype[Any], count: int) -> Iterator[tuple[Rows, NDArray[Any]]]:
    """The rows (n,) and logits (n, K) of a shard, in blocks."""
    if not count:
        return
    visible = _records(file, record)
    if visible != count:
        raise StoreError(f"rank 0 reads {visible} records in {file}, but {count} were written; all ranks must share it")
    records = np.memmap(file, dtype=record, mode="r")
    for block in row_blocks(count, max(1, _MERGED_AT_ONCE // record.itemsize)):
        yield np.array(records["row"][block]), records["logits"][block]


def _first_occurrence(rows: Rows, before: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Positions in `rows` (n,) of the first occurrence of each sample that was not recorded `before` (N,).

    They are in the order of the samples, as in the file that rank 0 writes.
    """
    _, first = np.unique(rows, return_index=True)
    return first[~before[rows[first]]]


def _records(file: Path, record: np.dtype[Any]) -> int:
    """The number of records in a shard; rank 0 deletes it after merging."""
    return file.stat().st_size // record.itemsize if file.exists() else 0


def _shard_file(folder: Path, rank: int) -> Path:
    return folder / _SHARDS / f"rank{rank}.records"


def _drop_shards(folder: Path) -> None:
    shards = folder / _SHARDS
    if shards.exists():
        for file in shards.glob("rank*.records"):
            file.unlink()
        shards.rmdir()
