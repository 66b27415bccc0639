"""Locks on folders and files that only one process may write at a time. A lock ends with its process."""

import contextlib
import os
import weakref
from pathlib import Path
from types import TracebackType

from filelock import BaseFileLock, FileLock, Timeout

from errata.errors import LockedError, StoreError

LOCKS = ".*.lock"
"""Lock files in a folder, which are not part of its contents."""

_held: set[tuple[int, Path]] = set()  # lock files with the process that holds them


class WriteLock:
    """Held from its creation until `release`, the end of a `with` block, or its deletion.

    A forked process neither holds nor releases the locks of its parent.
    """

    def __init__(self, path: Path, file: Path) -> None:
        """Lock `path` through the lock file `file`; a LockedError if that is locked already."""
        file = file.resolve()
        lock = FileLock(file, thread_local=False)  # may be deleted in another thread
        try:
            lock.acquire(timeout=0)
        except Timeout:
            holder = (
                "elsewhere in this process. Finish or close that first"
                if (os.getpid(), file) in _held
                else "by another process. Wait for it, or choose another place"
            )
            raise LockedError(f"{path} is being written {holder}") from None
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error
        self._process = os.getpid()
        _held.add((self._process, file))
        self._release = weakref.finalize(self, _release, lock, file, self._process)

    @property
    def held(self) -> bool:
        """Whether this process holds the lock."""
        return self._release.alive and self._process == os.getpid()

    def release(self) -> None:
        """Let others write; does nothing if it was released before."""
        self._release()

    def __enter__(self) -> "WriteLock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


def lock_folder(folder: Path) -> WriteLock:
    """Lock a folder, which is created if it is missing. The lock file is inside."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder} cannot be created: {error.strerror}") from error
    return WriteLock(folder, folder / ".errata.lock")


def lock_file(path: Path) -> WriteLock:
    """Lock a file, which need not exist. The lock file is beside it."""
    return WriteLock(path, path.with_name(f".{path.name}.lock"))


def _release(lock: BaseFileLock, file: Path, process: int) -> None:
    if os.getpid() != process:
        return  # a forked process
    _held.discard((process, file))
    with contextlib.suppress(OSError):  # removed with its folder; on Windows it is removed when it is released
        file.unlink()
    lock.release()
