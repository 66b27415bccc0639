"""The files of a dynamics folder: written so that a crash loses at most the epoch in progress."""

import contextlib
import json
import os
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from errata.errors import StoreError

MANIFEST = "manifest.json"
SCHEMA = 1
_FILL_BYTES = 1 << 24


def replace_atomically(path: Path, write: Any) -> None:
    """Call `write(file)` on a new file that takes the place of `path` only once it is whole and on disk."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise StoreError(f"{path.parent} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise StoreError(f"{path} cannot be written: {error.strerror}") from error
        raise


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Replace the manifest: what it says is what the folder holds."""
    text = json.dumps(manifest, indent=1, default=str) + "\n"
    replace_atomically(folder / MANIFEST, lambda file: file.write(text.encode()))


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a dynamics folder, refused if it is not one or is newer than this code."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{folder} is not a dynamics folder: it has no {MANIFEST}") from None
    except NotADirectoryError:
        raise StoreError(f"{folder} is a file, not a dynamics folder") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} is not a manifest: {error}") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    if not isinstance(schema, int):
        raise StoreError(f"{path} is not a manifest of errata: it names no schema")
    if schema > SCHEMA:
        raise StoreError(f"{folder} was written with schema {schema}; this errata reads up to {SCHEMA}: upgrade errata")
    return manifest


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as .npy, whole or not at all, never pickled."""
    replace_atomically(path, lambda file: np.save(file, array, allow_pickle=False))


def load_array(path: Path, *, mapped: bool = False) -> NDArray[Any]:
    """Read a .npy, refusing one that is missing, truncated, foreign or pickled."""
    try:
        return np.asanyarray(np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False))
    except FileNotFoundError:
        raise StoreError(f"{path} is missing") from None
    except (ValueError, EOFError) as error:
        raise StoreError(f"{path} is not a whole .npy file: {error}") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error


def save_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write named arrays as .npz, whole or not at all."""
    replace_atomically(path, lambda file: np.savez(file, allow_pickle=False, **arrays))


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read a .npz, refusing one that is missing, truncated or foreign."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        raise StoreError(f"{path} is missing") from None
    except (ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise StoreError(f"{path} is not a whole .npz file: {error}") from None


class LogitsFile:
    """logits.npy of shape (E, N, K), grown by an epoch at a time; any np.load opens it at any moment."""

    def __init__(self, path: Path, samples: int, classes: int, dtype: np.dtype[Any], epochs: int) -> None:
        """Open at `epochs` epochs, creating the file or cutting off whatever lies beyond them."""
        self.path = path
        self._shape = (samples, classes)
        self._dtype = dtype
        self.epoch_bytes = samples * classes * dtype.itemsize
        self._pending: np.memmap[Any, Any] | None = None
        try:
            with path.open("r+b" if epochs else "w+b") as file:
                self._header_bytes = self._write_header(file, epochs)
                file.truncate(self._header_bytes + epochs * self.epoch_bytes)
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror}") from error
        self.epochs = epochs

    def begin_epoch(self) -> NDArray[Any]:
        """Room (N, K) for the next epoch, filled with NaN; taken from the disk now, so that it cannot run out later."""
        start = self._header_bytes + self.epochs * self.epoch_bytes
        blank = np.full(_FILL_BYTES // self._dtype.itemsize, np.nan, dtype=self._dtype).tobytes()
        try:
            with self.path.open("r+b") as file:
                file.seek(start)
                for written in range(0, self.epoch_bytes, len(blank)):
                    file.write(blank[: self.epoch_bytes - written])
        except OSError as error:
            with contextlib.suppress(OSError):
                os.truncate(self.path, start)
            raise StoreError(
                f"{self.path}: no room for epoch {self.epochs} ({self.epoch_bytes:,} bytes): {error.strerror}"
            ) from error
        self._pending = np.memmap(self.path, self._dtype, "r+", start, self._shape)
        return self._pending

    def end_epoch(self) -> int:
        """Bring the epoch to disk and count it; returns its checksum."""
        assert self._pending is not None
        self._pending.flush()
        checksum = zlib.crc32(self._pending.data)
        self._pending = None
        with self.path.open("r+b") as file:
            os.fsync(file.fileno())
            self._write_header(file, self.epochs + 1)
        self.epochs += 1
        return checksum

    def _write_header(self, file: BinaryIO, epochs: int) -> int:
        # numpy pads the header so that the first axis may grow in place: its length does not depend on `epochs`.
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": (epochs, *self._shape)}
        file.seek(0)
        np.lib.format.write_array_header_1_0(file, header)
        return file.tell()
