"""The files of a dynamics folder: written so that a crash loses at most the epoch in progress."""

import contextlib
import os
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from errata.errors import StoreError
from errata.wording import one_line

MANIFEST = "manifest.json"
_PARTS = ".*.part"
_FILL_BYTES = 1 << 24


def replace_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Call `write(file)` on a new file that takes the place of `path` only once it is whole and on disk."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _sync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        if isinstance(error, OSError):
            raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error
        raise


def _sync_folder(folder: Path) -> None:
    """Bring a new name to disk; only POSIX lets a folder be opened for that."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def refuse_taken(folder: Path) -> None:
    """Refuse a folder that holds anything but what a crash left before there was a run."""
    try:
        others = sorted(set(folder.iterdir()) - set(folder.glob(_PARTS)))
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"{folder} cannot be created: {error.strerror}") from error
    if others:
        raise StoreError(f"{folder} holds other files ({others[0].name}, ...); take an empty or a new folder")


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Make a folder for a run; if what is written there in the block fails, nothing of it stays."""
    refuse_taken(folder)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{folder} cannot be created: {error.strerror}") from error
        drop_parts(folder)
        yield
    except BaseException:
        for pattern in (MANIFEST, "*.npy"):
            for file in folder.glob(pattern):
                file.unlink()
        for path in made:
            if path.exists():
                path.rmdir()
        raise


def drop_parts(folder: Path) -> None:
    """Delete what a killed process was still writing."""
    for part in folder.glob(_PARTS):
        part.unlink()


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as .npy, whole or not at all, never pickled."""
    replace_atomically(path, lambda file: np.save(file, array, allow_pickle=False))


def load_array(path: Path, *, mapped: bool = False) -> NDArray[Any]:
    """Read a .npy, refusing one that is missing, truncated, foreign or pickled."""
    try:
        # Mapped even if it is then copied: a header that promises more than the file holds is refused at once.
        array = np.lib.format.open_memmap(path, mode="r")
    except FileNotFoundError:
        raise StoreError(f"{path} is missing") from None
    except (ValueError, EOFError, OverflowError, tokenize.TokenError) as error:
        raise StoreError(f"{path} is not a whole .npy file: {one_line(error)}") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error
    return array if mapped else np.array(array)


def save_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write named arrays as .npz, whole or not at all."""
    replace_atomically(path, lambda file: np.savez(file, allow_pickle=False, **arrays))


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read a .npz, refusing one that is missing, truncated or foreign."""
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise StoreError(f"{path} is not a whole .npz file")
            file.seek(0)
            with np.load(file, allow_pickle=False) as stored:
                return {name: np.asarray(stored[name]) for name in stored.files}
    except FileNotFoundError:
        raise StoreError(f"{path} is missing") from None
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error
    # What numpy and zipfile raise where one byte of an archive is changed, in whatever place.
    except (ValueError, EOFError, RuntimeError, KeyError, tokenize.TokenError, zipfile.BadZipFile, zlib.error) as error:
        raise StoreError(f"{path} is not a whole .npz file: {one_line(error)}") from None


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

    def begin_epoch(self, whole: NDArray[Any] | None = None) -> NDArray[Any]:
        """The next epoch (N, K): whole, if it is there already, or room for it, filled with NaN.

        It is taken from the disk now, so that it cannot run out later.
        """
        start = self._header_bytes + self.epochs * self.epoch_bytes
        try:
            with self.path.open("r+b") as file:
                file.seek(start)
                if whole is None:
                    self._fill(file)
                else:
                    file.write(np.ascontiguousarray(whole, self._dtype).data)
            self._pending = np.memmap(self.path, self._dtype, "r+", start, self._shape)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.truncate(self.path, start)
            raise StoreError(
                f"{self.path}: no room for epoch {self.epochs} ({self.epoch_bytes:,} bytes): {error.strerror}"
            ) from error
        return self._pending

    def _fill(self, file: BinaryIO) -> None:
        blank = np.full(min(_FILL_BYTES, self.epoch_bytes) // self._dtype.itemsize, np.nan, self._dtype).tobytes()
        for written in range(0, self.epoch_bytes, len(blank)):
            file.write(blank[: self.epoch_bytes - written])

    def flush_epoch(self, *, durable: bool) -> int:
        """Put the epoch in progress into the header, and on disk if it is to be durable; returns its checksum."""
        assert self._pending is not None
        try:
            if durable:
                self._pending.flush()
            with self.path.open("r+b") as file:
                self._write_header(file, self.epochs + 1)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"{self.path}: epoch {self.epochs} cannot be written: {error.strerror}") from error
        return zlib.crc32(self._pending.data)

    def sync(self) -> None:
        """Bring all epochs to disk."""
        try:
            with self.path.open("r+b") as file:
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}") from error

    def end_epoch(self) -> None:
        """Count the epoch in progress, once it is flushed."""
        self._pending = None
        self.epochs += 1

    def _write_header(self, file: BinaryIO, epochs: int) -> int:
        # numpy pads the header so that the first axis may grow in place: its length does not depend on `epochs`.
        descr = np.lib.format.dtype_to_descr(self._dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (epochs, *self._shape)}
        file.seek(0)
        np.lib.format.write_array_header_1_0(file, header)
        return file.tell()
