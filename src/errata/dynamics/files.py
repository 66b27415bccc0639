"""Reading and writing the files of a dynamics folder, so that a crash loses at most the epoch in progress."""

import contextlib
import errno
import glob
import io
import json
import lzma
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from errata.errors import ErrataError, InputError, StoreError
from errata.locks import LOCKS, WriteLock, lock_folder
from errata.memory import check_fits
from errata.wording import one_line

MANIFEST = "manifest.json"
DYNAMICS = "dynamics"  # the dynamics in a folder that `errata find` wrote
ENCRYPTED = 1  # a bit of the flags of a member of a zip file
_PARTS = ".*.part"
# All exceptions of numpy and zipfile for a file with one changed byte.
_DAMAGED = (
    *(ValueError, EOFError, OverflowError, RuntimeError, KeyError),
    *(tokenize.TokenError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)


@contextlib.contextmanager
def store_errors(what: object, failure: str = "cannot be written") -> Iterator[None]:
    """Raise an OSError of the block as a StoreError: what failed, how, and the cause."""
    try:
        yield
    except ErrataError:  # says all this already
        raise
    except OSError as error:
        short_write = error.errno is None and "requested and" in str(error)  # by numpy
        reason = os.strerror(errno.ENOSPC) if short_write else error.strerror or error
        raise StoreError(f"{what} {failure}: {reason}") from error


@contextlib.contextmanager
def _whole_file(path: Path, kind: str) -> Iterator[None]:
    """Raise an error of the block, which reads a file, as a StoreError that says what is wrong with the file.

    Only regular files are read: reading a FIFO would never end.
    """
    try:
        if path.exists() and not path.is_file():
            raise StoreError(f"{path} is not a regular file")
        yield
    except ErrataError:
        raise
    except FileNotFoundError:
        raise StoreError(f"{path} is missing") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error
    except RecursionError:
        raise StoreError(f"{path} is nested too deeply") from None
    except _DAMAGED as error:
        raise StoreError(f"{path} is not a whole {kind} file: {one_line(error)}") from None


def is_url(path: object) -> bool:
    """Whether a path names a store, such as s3://bucket/run, rather than a local file or folder."""
    return isinstance(path, str) and "://" in path and urlsplit(path).scheme.isidentifier()


def check_path(path: object) -> Path:
    """The path of a local folder or file."""
    if not isinstance(path, str | Path) or "\0" in str(path):
        raise InputError(f"a path must be text, not {one_line(repr(path))}")
    if is_url(path):
        raise InputError(f"{path} is a URL, and a local path is needed here; only shards can be in a store")
    return Path(path)


def replace_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Call `write(file)` on a new file, which replaces `path` only when it is complete and on disk.

    Unfinished files for `path` that killed processes left are removed.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        if _is_dead(left.name.split(".")[-2]):
            with contextlib.suppress(OSError):
                left.unlink()
    try:
        with store_errors(path):
            with part.open("wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            _sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def write_file(path: Path, content: str | bytes) -> None:
    """Replace a file, completely or not at all. Its folder is created if it is missing. Text is written as UTF-8."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = content if isinstance(content, bytes) else content.encode()
    replace_atomically(path, lambda file: file.write(written))


def _is_dead(process: str) -> bool:
    """Whether no process has this number; False if the system does not say."""
    if os.name != "posix" or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # of another user
        return False
    return False


def _sync_folder(folder: Path) -> None:
    """Write a new file name to disk; only POSIX can open a folder for that."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def require_empty(folder: Path) -> None:
    """Refuse a folder that holds files, except lock files and the unfinished files of a crash."""
    try:
        others = sorted(set(folder.iterdir()) - set(folder.glob(_PARTS)) - set(folder.glob(LOCKS)))
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"{folder} cannot be created: {error.strerror}") from error
    if others:
        raise StoreError(f"{folder} holds other files ({others[0].name}, ...); choose an empty or a new folder")


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[WriteLock]:
    """Create and lock a folder for a run; if the block fails, all its files and new folders are removed.

    After the block, the caller releases the lock.
    """
    require_empty(folder)
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    with contextlib.ExitStack() as undo:
        undo.callback(_remove_folders, created)
        lock = undo.enter_context(lock_folder(folder))
        require_empty(folder)  # another process may have written to it before it was locked
        remove_unfinished(folder)
        undo.callback(_remove_run, folder)
        yield lock
        undo.pop_all()


def _remove_folders(folders: Iterable[Path]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):  # never made, or used by another process
            folder.rmdir()


def _remove_run(folder: Path) -> None:
    for pattern in (MANIFEST, "*.npy", "*.npz"):
        for file in folder.glob(pattern):
            file.unlink()


def remove_unfinished(folder: Path) -> None:
    """Delete the unfinished files of a killed process."""
    for part in folder.glob(_PARTS):
        part.unlink()


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as .npy, completely or not at all, without pickle."""
    replace_atomically(path, lambda file: np.save(file, array, allow_pickle=False))


def load_array(path: Path, *, mapped: bool = False) -> NDArray[Any]:
    """Read a .npy file; refuses one that is missing, truncated, of another format or pickled."""
    with _whole_file(path, ".npy"):
        # Mapped even if it is then copied: a header that promises more than the file holds is refused at once.
        array = np.lib.format.open_memmap(path, mode="r")
    return array if mapped else np.array(array)


def npy_bytes(array: NDArray[Any]) -> bytes:
    """An array as a .npy file."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def npz_bytes(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Named arrays as a .npz file."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def arrays_in(data: bytes) -> dict[str, NDArray[Any]]:
    """The arrays in a .npz file that this process or another one wrote just now, or whose checksum was compared."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        return dict(file)


def save_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write named arrays as .npz, completely or not at all."""
    replace_atomically(path, lambda file: np.savez(file, allow_pickle=False, **arrays))


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays in a .npz file; refuses a damaged file, and one whose arrays do not fit into memory.

    Members that are not arrays are ignored.
    """
    with _whole_file(path, ".npz"), path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is damaged or truncated")
        with zipfile.ZipFile(file) as packed:
            members = {member.filename: member for member in packed.infolist() if member.filename.endswith(".npy")}
            for member in members.values():
                _check_header(packed, member)
            check_fits(sum(member.file_size for member in members.values()), f"the arrays in {path}")
            return {name.removesuffix(".npy"): _read_member(packed, name) for name in members}


def _check_header(packed: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Refuse an array whose header and size differ, so that no memory is allocated for it."""
    if member.flag_bits & ENCRYPTED:
        raise ValueError(f"{member.filename} is encrypted; save it without a password")
    with packed.open(member) as file:
        version = np.lib.format.read_magic(file)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in read_header:
            raise ValueError(f"{member.filename} has version {version} of the format")
        shape, _, dtype = read_header[version](file)
        stored = member.file_size - file.tell()
    if dtype.hasobject:
        raise ValueError(f"{member.filename} holds Python objects, which are never read; save text or numbers")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != stored:
        raise ValueError(f"{member.filename} holds {stored:,} bytes, but its header says {shape} {dtype}")


def _read_member(packed: zipfile.ZipFile, name: str) -> NDArray[Any]:
    with packed.open(name) as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def load_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; refuses a file that is missing, damaged or holds something else."""
    with _whole_file(path, "JSON"):
        stored = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(stored, dict):
        raise StoreError(f"{path} must hold a JSON object with names and values, not {one_line(repr(stored))}")
    return stored
