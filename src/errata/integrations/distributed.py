"""Recording under torchrun: every rank writes down what it saw, and rank 0 merges that into one run."""

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

_MERGED_AT_ONCE = 1 << 26  # bytes of a shard that rank 0 holds in memory
_SHARDS = "shards"


class DistributedRecorder:
    """A Recorder for a run of several processes (DDP), made and called alike by all of them.

    Each rank updates with the samples it sees; who sees whom may change every epoch. A sample that a sampler repeats to
    fill up its batches counts once: as the lowest rank saw it first. The folder ends up as a Recorder in one process
    writes it, and all ranks must share its file system. Without a process group, or with one rank, this is a Recorder.

    Arguments are those of Recorder, but the folder and the number of classes must be known from the start.
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
        quiet: bool = False,
        **options: Any,
    ) -> None:
        self._ranks = _Ranks()
        self._folder = Path(path)
        self._shard: _ShardRecorder | None = None
        self._whole: Recorder | None = None
        given = {"labels": labels, "ids": ids, "num_classes": num_classes, "classes": classes, **options}
        with self._ranks.together():
            if num_classes is None and classes is None:
                raise InputError("the number of classes must be known from the start: pass num_classes= or classes=")
            if not self._ranks.alone:
                self._shard = _ShardRecorder(_shard_file(self._folder, self._ranks.own), **given)
        if self._shard is not None:
            _refuse_different(self._ranks.gather(self._shard.fingerprint()))
            self._merged = np.zeros(len(self._shard.names), dtype=np.bool_)
        with self._ranks.together():
            if self._ranks.own == 0:
                self._whole = Recorder(self._folder, resume=resume, quiet=quiet, **given)
                _drop_shards(self._folder)  # those of a run that was killed
        if self._shard is not None:
            kept = 0 if self._whole is None else self._whole.epoch
            self._shard.go_on_after(self._ranks.gather(kept)[0])

    @property
    def epoch(self) -> int:
        """The epoch in progress, counted from 0: how many whole ones are kept."""
        return self._batches.epoch

    def update(self, ids: Any, logits: Any) -> None:
        """Keep logits (n, K) of a batch this rank saw; no rank waits for another here."""
        self._batches.update(ids, logits)

    def end_epoch(self) -> None:
        """Close the epoch once all ranks are here; if a sample is missing, all of them raise it."""
        self._merge_shards()
        with self._ranks.together():
            if self._whole is not None:
                self._whole.end_epoch()
        if self._shard is not None:
            self._shard.go_on_after(self.epoch + 1)
            self._merged[:] = False

    def drop_epoch(self) -> None:
        """Forget what the ranks saw of the epoch in progress; all of them call this."""
        with self._ranks.together():  # a rank that is late still writes to its shard until it is here
            if self._shard is not None:
                self._shard.go_on_after(self.epoch)
                self._merged[:] = False
        with self._ranks.together():
            if self._whole is not None:
                self._whole.drop_epoch()
                _drop_shards(self._folder)

    def finish(
        self, *, swa_logits: Any | None = None, features: Any | None = None, inputs: Any | None = None
    ) -> Dynamics:
        """The recorded dynamics on every rank, with swa_logits, features and inputs as rank 0 gives them."""
        self._merge_shards()  # an epoch that was not ended is seen by rank 0, which refuses it
        with self._ranks.together():
            if self._whole is not None:
                self._whole.finish(swa_logits=swa_logits, features=features, inputs=inputs)
        return Dynamics.open(self._folder)

    @property
    def _batches(self) -> Recorder:
        recorder = self._shard or self._whole
        assert recorder is not None
        return recorder

    def _merge_shards(self) -> None:
        """Bring all that the ranks wrote to the whole run; what fails halfway may be tried again."""
        if self._shard is None:
            return
        with self._ranks.together():
            records = self._shard.records()
        written = self._ranks.gather(records)
        with self._ranks.together():
            if self._whole is not None:
                for rank, count in enumerate(written):
                    for rows, logits in _read(_shard_file(self._folder, rank), self._shard.record, count):
                        first = _first_seen(rows, self._merged)
                        self._whole.update(self._shard.names[rows[first]], logits[first])
                        self._merged[rows[first]] = True
                _drop_shards(self._folder)


class _Ranks:
    """The processes of the run, and what they tell each other."""

    def __init__(self) -> None:
        joined = dist.is_available() and dist.is_initialized()
        self.own: int = dist.get_rank() if joined else 0
        self._count: int = dist.get_world_size() if joined else 1
        # Messages stay on the CPU: NCCL would send them through whatever GPU happens to be the current one.
        needs_own_group = not self.alone and "cpu:gloo" not in dist.get_backend_config()
        self._group = dist.new_group(backend="gloo") if needs_own_group else None

    @property
    def alone(self) -> bool:
        return self._count == 1

    def gather(self, own: Any) -> list[Any]:
        """What every rank says, in order; a rank that is gone, or silent for the group's timeout, is torch's error."""
        if self.alone:
            return [own]
        said = [None] * self._count
        dist.all_gather_object(said, own, group=self._group)
        return said

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Leave the block when all ranks have; what is raised in one is raised in all, so that none waits for it."""
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
    """Checks batches as any Recorder does, passes over samples that come again, and appends to the shard of a rank."""

    def __init__(self, file: Path, **given: Any) -> None:
        self._file = file
        super().__init__(None, quiet=True, **given)

    def update(self, ids: Any, logits: Any) -> None:
        """Keep logits (n, K) of those samples of a batch that are new in this epoch."""
        rows, values = self._ids.rows(ids), as_numpy(logits)
        self._ids.refuse_unknown(rows)
        new = _first_seen(rows, self._recorded)
        if len(new) < len(rows) and values.shape[:1] == rows.shape:
            ids, values = self.names[rows[new]], values[new]
        super().update(ids, values)

    @property
    def names(self) -> NDArray[Any]:
        """The ids (N,) of all samples."""
        return self._ids.values

    @property
    def record(self) -> np.dtype[Any]:
        """What the shard is a sequence of."""
        return self._shard.record

    def records(self) -> int:
        """How many of them there are; rank 0 deletes the file when it has merged them."""
        return self._file.stat().st_size // self.record.itemsize if self._file.exists() else 0

    def go_on_after(self, epochs: int) -> None:
        """The epoch in progress is the one after so many."""
        self._shard.go_on_after(epochs)
        self._recorded[:] = False

    def fingerprint(self) -> dict[str, Any]:
        """What must be the same on all ranks for their shards to fit together."""
        return {
            "labels": label_hash(check_labels(self._given_labels, self._shard.classes, self._classes)),
            "ids": id_hash(self.names),
            "num_classes": self._shard.classes,
            "dtype": str(self._dtype),
        }

    def _open(self, num_classes: int, found: dict[str, Any] | None) -> Run:
        labels = check_labels(self._given_labels, num_classes, self._classes)
        self._run = self._shard = _Shard(self._file, labels, self._ids, num_classes, self._dtype)
        return self._shard


class _Shard(Run):
    """A run whose batches go to a file of records, a row and its logits each, until rank 0 takes them from there."""

    def __init__(self, file: Path, labels: Labels, ids: SampleIds, num_classes: int, dtype: np.dtype[Any]) -> None:
        super().__init__(None, labels, ids, None, None, None, {"num_classes": num_classes, "epochs": 0}, None, False)
        self._path = file
        self.record = np.dtype([("row", np.int64), ("logits", dtype, (num_classes,))])

    def go_on_after(self, epochs: int) -> None:
        """The epoch in progress is the one after so many."""
        self._manifest["epochs"] = epochs

    def write(self, rows: Rows, logits: NDArray[Any]) -> None:
        """Append logits (n, K) of the samples in `rows` (n,), all or none."""
        records = np.empty(len(rows), dtype=self.record)
        records["row"], records["logits"] = rows, logits
        whole = None
        try:
            self._path.parent.mkdir(exist_ok=True)
            with self._path.open("ab") as file:
                whole = file.tell()
                file.write(records.tobytes())
        except OSError as error:
            if whole is not None:
                with contextlib.suppress(OSError):
                    os.truncate(self._path, whole)
            raise StoreError(
                f"{self._path} cannot be written ({error.strerror}); all ranks need the folder that rank 0 made"
            ) from error


def _read(file: Path, record: np.dtype[Any], count: int) -> Iterator[tuple[Rows, NDArray[Any]]]:
    """The rows (n,) and logits (n, K) of a shard, block after block."""
    if not count:
        return
    found = file.stat().st_size // record.itemsize if file.exists() else 0
    if found != count:
        raise StoreError(f"{file} holds {found} records here, but its rank wrote {count}; all ranks need one folder")
    records = np.memmap(file, dtype=record, mode="r")
    for block in row_blocks(count, max(1, _MERGED_AT_ONCE // record.itemsize)):
        yield np.array(records["row"][block]), records["logits"][block]


def _first_seen(rows: Rows, before: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Positions in `rows` (n,) at which a sample comes for the first time, and was not there `before` (N,).

    They are in the order of the samples, which is that of the file rank 0 writes to.
    """
    _, first = np.unique(rows, return_index=True)
    return first[~before[rows[first]]]


def _shard_file(folder: Path, rank: int) -> Path:
    return folder / _SHARDS / f"rank{rank}.records"


def _drop_shards(folder: Path) -> None:
    shards = folder / _SHARDS
    if shards.exists():
        for file in shards.glob("rank*.records"):
            file.unlink()
        shards.rmdir()


def _refuse_different(fingerprints: list[dict[str, Any]]) -> None:
    for rank, fingerprint in enumerate(fingerprints):
        for name, value in fingerprint.items():
            if value != fingerprints[0][name]:
                raise InputError(f"rank {rank} was given other {name} than rank 0")
