"""The storage of a run that is being recorded: in memory or in a folder, as logits or as running sums."""

import contextlib
import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import warn_if_probabilities
from errata.core.methods import Method
from errata.dynamics.files import new_folder, remove_unfinished, require_empty, save_array, save_arrays
from errata.dynamics.logits_file import LogitsFile
from errata.dynamics.manifest import (
    describe,
    epochs_to_keep,
    has_manifest,
    is_stored,
    read_manifest,
    refuse_lost_epochs,
    require_same_run,
    write_manifest,
)
from errata.dynamics.reducers import SUMS, Reducers, sums_file
from errata.dynamics.run_folder import open_folder, start_folder
from errata.dynamics.store import Dynamics, added_arrays
from errata.errors import InputError, StoreError
from errata.locks import WriteLock, lock_folder


class Run:
    """Stores batches and epochs. A write that failed can be tried again."""

    def __init__(
        self,
        folder: Path | None,
        empty: Dynamics,
        dtype: np.dtype[Any],
        stream: list[Method] | None,
        resume: bool | int,
        overwrite: bool,
    ) -> None:
        """Start a run in memory or in a folder, or continue the one in the folder. empty: the run without its epochs.

        The folder is locked until `finish` or `close`.
        """
        self._folder, self._dynamics = folder, empty
        self._manifest = describe(empty, dtype=dtype, keep="all" if stream is None else "stream")
        self._epoch: NDArray[Any] | None = None
        self._in_memory: list[NDArray[Any]] = []
        self._reducers = None if stream is None else Reducers(stream, empty.samples, empty.num_classes)
        self._shared = self._warned = False
        self._file: LogitsFile | None = None
        self._lock: WriteLock | None = None
        if folder is not None and stored_run(folder, resume, overwrite) is None:
            with new_folder(folder) as self._lock:
                self._start(folder)
        elif folder is not None:
            with contextlib.ExitStack() as undo:
                self._lock = undo.enter_context(lock_folder(folder))
                existing = stored_run(folder, resume, overwrite)  # another process may have changed it
                if existing is None or overwrite:
                    self._start(folder)
                else:
                    self._continue(folder, existing, resume)
                undo.pop_all()

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self._dynamics.num_classes

    @property
    def epochs(self) -> int:
        """The number of whole epochs."""
        return int(self._manifest["epochs"])

    @property
    def size(self) -> str:
        """What is stored, and its size in MB, as text."""
        what = f"{self._dynamics.samples:,} samples x {self.classes} classes"
        if self._reducers is not None:
            return f"{what} as running sums: {self._reducers.nbytes / 1e6:,.1f} MB"
        where = "in memory" if self._folder is None else f"in {self._folder}"
        dtype = np.dtype(self._manifest["dtype"])
        epoch_bytes = self._dynamics.samples * self.classes * dtype.itemsize
        return f"{what} as {dtype}: {epoch_bytes / 1e6:,.1f} MB per epoch {where}"

    def write(self, rows: NDArray[np.int64], logits: NDArray[Any]) -> None:
        """Store logits (n, K) of the samples in `rows` (n,)."""
        self._hold_lock()
        if self._reducers is not None:
            self._reduce(rows.copy(), logits.copy())
            return
        if self._epoch is None:
            shape = self._dynamics.samples, self.classes
            in_file = None if self._file is None else self._file.begin_epoch()
            self._epoch = np.full(shape, np.nan, self._manifest["dtype"]) if in_file is None else in_file
        self._epoch[rows] = logits

    def write_all(self, logits: NDArray[Any]) -> None:
        """Store logits (N, K) of all samples in order, as the first write of an epoch."""
        self._hold_lock()
        if self._reducers is not None:
            self._reduce(np.arange(len(logits)), logits.copy())
        elif self._file is not None:
            self._epoch = self._file.begin_epoch(logits)
        else:
            self._epoch = np.array(logits, dtype=self._manifest["dtype"], order="C")

    def _reduce(self, rows: NDArray[np.int64], logits: NDArray[Any]) -> None:
        assert self._reducers is not None
        if self._shared:
            self._reducers, self._shared = copy.deepcopy(self._reducers), False
        self._reducers.add(rows, logits, self._dynamics.labels)

    def end_epoch(self, *, durable: bool) -> None:
        """End the epoch. With durable=False it survives a crash only after `sync`."""
        checksums = list(self._manifest["checksums"])
        if self._reducers is not None:
            self._reducers.flush(self._dynamics.labels)
            if self._folder is not None:
                self._remove_older_sums(self._folder)
                save_arrays(self._folder / sums_file(self.epochs + 1), self._reducers.arrays_to_store())
        else:
            assert self._epoch is not None
            self._warned = self._warned or warn_if_probabilities(self._epoch, self.epochs)
            if self._file is not None:
                checksums.append(self._file.flush_epoch(durable=durable))
        self._remove_outdated()
        manifest = self._manifest | {"epochs": self.epochs + 1, "checksums": checksums}
        if self._folder is not None and (durable or self._reducers is not None):
            write_manifest(self._folder, manifest)
        # Everything that can fail has succeeded: count the epoch.
        self._manifest = manifest
        if self._file is not None:
            self._file.end_epoch()
        elif self._epoch is not None:
            self._in_memory.append(self._epoch)
        self._epoch = None
        if self._reducers is not None:
            self._reducers.end_epoch()

    def drop_epoch(self) -> None:
        """Discard the epoch in progress; running sums already include it and cannot."""
        if self._reducers is not None:
            raise InputError(
                "running sums cannot discard an epoch in progress; if they are in a folder, "
                "errata.Dynamics.open reads them as they were after the last whole epoch"
            )
        self._epoch = None

    def sync(self) -> None:
        """Write all epochs to disk."""
        if self._folder is not None and self._file is not None:
            self._file.sync()
            write_manifest(self._folder, self._manifest)

    def finish(self, **arrays: Any) -> Dynamics:
        """The dynamics of all whole epochs with the arrays of `added_arrays`. Releases the folder."""
        self._hold_lock()
        self.sync()
        passed = added_arrays(self._dynamics.samples, self.classes, **arrays)
        self._dynamics = replace(self._dynamics, **passed)
        if self._folder is not None:
            for name, array in passed.items():
                save_array(self._folder / f"{name}.npy", array)
            if self._reducers is not None:
                self._remove_older_sums(self._folder)
            dynamics = Dynamics.open(self._folder)
            self.close()
            return dynamics
        if self._reducers is None:
            return replace(self._dynamics, logits=np.stack(self._in_memory))
        self._shared = True
        return replace(self._dynamics, reducers=self._reducers)

    def close(self) -> None:
        """Write all epochs to disk and let others write the folder."""
        if self._lock is not None and self._lock.held:
            self.sync()
            self._lock.release()

    def _hold_lock(self) -> None:
        """Lock the folder again if it was released; refuse if another process wrote it since."""
        if self._folder is None or self._lock is None or self._lock.held:
            return
        with contextlib.ExitStack() as undo:
            lock = undo.enter_context(lock_folder(self._folder))
            if not is_stored(self._folder, self._manifest):
                raise StoreError(f"{self._folder} was changed after it was released; make another Recorder")
            undo.pop_all()
        self._lock = lock

    def _remove_outdated(self) -> None:
        """Remove arrays that belong to an earlier last epoch."""
        self._dynamics = replace(self._dynamics, swa_logits=None, features=None)
        if self._folder is not None:
            for name in ("swa_logits", "features"):
                (self._folder / f"{name}.npy").unlink(missing_ok=True)

    def _remove_older_sums(self, folder: Path) -> None:
        for file in folder.glob(SUMS):
            if file.name != sums_file(self.epochs):
                file.unlink()

    def _start(self, folder: Path) -> None:
        remove_unfinished(folder)
        start_folder(folder, self._manifest, self._dynamics)
        self._open_logits(folder)

    def _continue(self, folder: Path, existing: dict[str, Any], resume: bool | int) -> None:
        """Continue the run in a folder after `resume` epochs."""
        require_same_run(folder, existing, self._manifest)
        epochs = epochs_to_keep(folder, existing, resume)
        self._manifest = existing | {"epochs": epochs, "checksums": existing["checksums"][:epochs]}
        if epochs:
            self._check_files(folder)
        remove_unfinished(folder)
        if epochs < existing["epochs"]:
            self._remove_outdated()
            write_manifest(folder, self._manifest)
        if epochs:
            self._open_logits(folder)
        else:  # a crash may have left the first files unfinished
            self._start(folder)

    def _check_files(self, folder: Path) -> None:
        """Refuse files of another run; load the running sums."""
        stored = open_folder(folder, self._manifest)
        fold = self._dynamics.fold
        if not (stored.fold is None if fold is None else stored.fold is not None and np.array_equal(fold, stored.fold)):
            raise StoreError(f"{folder} was recorded with another fold: resume needs the same run")
        if self._reducers is not None and stored.reducers is not None:
            if stored.reducers.names != self._reducers.names:
                raise StoreError(f"{folder} was recorded with other methods: resume needs the same run")
            self._reducers = stored.reducers

    def _open_logits(self, folder: Path) -> None:
        if self._reducers is None:
            dtype = np.dtype(self._manifest["dtype"])
            self._file = LogitsFile(folder / "logits.npy", self._dynamics.samples, self.classes, dtype, self.epochs)


def stored_run(folder: Path, resume: bool | int, overwrite: bool) -> dict[str, Any] | None:
    """The manifest of the run in a folder, if there is one; refuses a folder that cannot be used."""
    if not has_manifest(folder):
        require_empty(folder)
        return None
    existing = read_manifest(folder)
    refuse_lost_epochs(folder, existing, resume, overwrite)
    return existing
