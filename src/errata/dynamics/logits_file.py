"""logits.npy of a run that is being recorded: it grows by one epoch at a time."""

import contextlib
import os
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.files import store_errors
from errata.errors import StoreError

_FILL_BYTES = 1 << 24


class LogitsFile:
    """logits.npy of shape (E, N, K), which grows by one epoch at a time. np.load can open it at any moment."""

    def __init__(self, path: Path, samples: int, classes: int, dtype: np.dtype[Any], epochs: int) -> None:
        """Create the file, or open it and cut it off after `epochs` epochs."""
        self.path = path
        self._shape = (samples, classes)
        self._dtype = dtype
        self.epoch_bytes = samples * classes * dtype.itemsize
        self._pending: np.memmap[Any, Any] | None = None
        with store_errors(path), path.open("r+b" if epochs else "w+b") as file:
            self._header_bytes = self._write_header(file, epochs)
            file.truncate(self._header_bytes + epochs * self.epoch_bytes)
        self.epochs = epochs

    def begin_epoch(self, logits: NDArray[Any] | None = None) -> NDArray[Any]:
        """The next epoch (N, K), memory-mapped: the given logits, or NaN.

        Its disk space is allocated now, so that the disk cannot be full later.
        """
        start = self._header_bytes + self.epochs * self.epoch_bytes
        try:
            with store_errors(f"{self.path}:", f"no room for epoch {self.epochs} ({self.epoch_bytes:,} bytes)"):
                with self.path.open("r+b") as file:
                    file.seek(start)
                    if logits is None:
                        self._fill(file)
                    else:
                        file.write(np.ascontiguousarray(logits, self._dtype).data)
                self._pending = np.memmap(self.path, self._dtype, "r+", start, self._shape)
        except StoreError:
            with contextlib.suppress(OSError):
                os.truncate(self.path, start)
            raise
        return self._pending

    def _fill(self, file: BinaryIO) -> None:
        blank = np.full(min(_FILL_BYTES, self.epoch_bytes) // self._dtype.itemsize, np.nan, self._dtype).tobytes()
        for written in range(0, self.epoch_bytes, len(blank)):
            file.write(blank[: self.epoch_bytes - written])

    def flush_epoch(self, *, durable: bool) -> int:
        """Add the epoch in progress to the header, and sync it to disk if `durable`; returns its checksum."""
        assert self._pending is not None
        with store_errors(f"{self.path}: epoch {self.epochs}"):
            if durable:
                self._pending.flush()
            with self.path.open("r+b") as file:
                self._write_header(file, self.epochs + 1)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
        return zlib.crc32(self._pending.data)

    def sync(self) -> None:
        """Sync all epochs to disk."""
        with store_errors(self.path), self.path.open("r+b") as file:
            os.fsync(file.fileno())

    def end_epoch(self) -> None:
        """Count the epoch in progress, after it was flushed."""
        self._pending = None
        self.epochs += 1

    def _write_header(self, file: BinaryIO, epochs: int) -> int:
        # numpy pads the header so that the first axis can grow: its length does not depend on `epochs`.
        descr = np.lib.format.dtype_to_descr(self._dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (epochs, *self._shape)}
        file.seek(0)
        np.lib.format.write_array_header_1_0(file, header)
        return file.tell()
