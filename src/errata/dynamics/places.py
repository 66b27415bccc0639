"""Places that hold shards and results: a local folder, or a folder in any store that fsspec supports."""

import contextlib
import io
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from errata.dynamics.files import check_path, is_url, replace_atomically
from errata.errors import ErrataError, StoreError
from errata.extras import require
from errata.wording import one_line

ATTEMPTS = 3
"""How often a read is tried before it fails: object stores drop connections now and then."""

LOCAL = ("file://", "local://")
_CHECK = ".errata-write-check"


@dataclass(frozen=True)
class Place:
    """A folder: a local path, or a URL such as s3://bucket/run. Names are relative to it, with "/" between folders."""

    url: str

    def __post_init__(self) -> None:
        """Find the folder now: in another process, a relative path would be another folder."""
        _ = self.folder

    @cached_property
    def folder(self) -> Path | None:
        """The absolute path of a local folder; None in a store."""
        path = self.url.removeprefix(LOCAL[0]).removeprefix(LOCAL[1])
        return None if is_url(path) else check_path(path).absolute()

    @cached_property
    def _store(self) -> tuple[Any, str]:
        """The fsspec file system, and the path of the folder in it."""
        require("fsspec", "fsspec", "stores", self.url)
        import fsspec

        try:
            return fsspec.core.url_to_fs(self.url)  # type: ignore[no-any-return]
        except ImportError as error:
            raise StoreError(f"{self.url} cannot be read: {one_line(error)}") from None
        except ValueError as error:
            raise StoreError(f"{self.url} is not a store that fsspec supports: {one_line(error)}") from None
        except Exception as error:  # of the libraries of stores, and of the network
            raise StoreError(f"{self.url} cannot be opened: {one_line(error)}") from error

    def path(self, name: str) -> str:
        """The path or URL of a file, for messages."""
        return f"{self.url.rstrip('/')}/{name}"

    def files(self) -> dict[str, int]:
        """The names of all files in this folder and its subfolders, and their sizes in bytes."""
        if self.folder is not None:
            with self._errors(self.url, "cannot be read"):
                paths = sorted(path for path in self.folder.rglob("*") if path.is_file())
                return {path.relative_to(self.folder).as_posix(): path.stat().st_size for path in paths}
        store, root = self._store
        with self._errors(self.url, "cannot be read", missing=self._bucket):
            store.invalidate_cache()
            found = store.find(root, detail=True)
            if not found:  # `find` leaves out folders that it cannot read, also this one
                with contextlib.suppress(FileNotFoundError):
                    store.ls(root)
        return {path[len(root) :].lstrip("/"): int(entry["size"]) for path, entry in sorted(found.items())}

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """The bytes of a file from `start` to before `end`; a failing read is tried again."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self._errors(self.path(name), "cannot be read"):
                    data = self._read(name, start, end)
                    if end is not None and len(data) != end - start:
                        raise OSError(f"{len(data):,} of {end - start:,} bytes arrived")
                    return data
            except StoreError as error:
                if attempt == ATTEMPTS or isinstance(error.__cause__, FileNotFoundError | PermissionError):
                    raise
        raise AssertionError

    def _read(self, name: str, start: int, end: int | None) -> bytes:
        if self.folder is None:
            store, root = self._store
            return bytes(store.cat_file(f"{root}/{name}", start=start, end=end))
        with (self.folder / name).open("rb") as file:
            file.seek(start)
            return file.read(-1 if end is None else end - start)

    def write(self, name: str, content: bytes | Path) -> None:
        """Write bytes, or a copy of a local file; it becomes visible, and replaces an older one, only when complete."""
        if self.folder is not None:
            path = self.folder / name
            with self._errors(path, "cannot be written"):
                path.parent.mkdir(parents=True, exist_ok=True)
            with content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as source:
                replace_atomically(path, lambda file: shutil.copyfileobj(source, file))
            return
        store, root = self._store
        target = f"{root}/{name}"
        with self._errors(self.path(name), "cannot be written", missing=self._bucket):
            if self._renames:
                store.makedirs(store._parent(target), exist_ok=True)
            part = f"{target}.{uuid.uuid4().hex}.part" if self._renames else target
            if isinstance(content, Path):
                store.put_file(str(content), part)
            else:
                store.pipe_file(part, content)
            if self._renames:
                _rename(store, part, target)

    @property
    def _renames(self) -> bool:
        """Whether the store has a function that renames: a file then gets its name when it is complete.

        Others are object stores, whose objects are visible only when they are complete.
        """
        from fsspec.spec import AbstractFileSystem

        return type(self._store[0]).mv is not AbstractFileSystem.mv

    def check_writable(self) -> None:
        """Refuse a place that cannot be written to, before work starts."""
        self.write(_CHECK, b"")
        self.remove(_CHECK)

    @property
    def _bucket(self) -> str:
        """What is missing if a store has no such folder: it makes folders itself."""
        return f"the bucket {self._store[1].split('/', 1)[0]!r}"

    def remove(self, name: str) -> None:
        """Delete a file if there is one."""
        with self._errors(self.path(name), "cannot be deleted"):
            if self.folder is not None:
                (self.folder / name).unlink(missing_ok=True)
                return
            store, root = self._store
            if store.exists(f"{root}/{name}"):
                store.rm_file(f"{root}/{name}")

    def delete(self) -> None:
        """Delete this folder with all its files, if there is one."""
        with self._errors(self.url, "cannot be deleted"):
            if self.folder is not None:
                shutil.rmtree(self.folder, ignore_errors=True)
                return
            store, root = self._store
            store.invalidate_cache()  # other processes may have written here
            if store.exists(root):
                store.rm(root, recursive=True)

    @contextlib.contextmanager
    def _errors(self, what: object, failure: str, missing: str = "it") -> Iterator[None]:
        """Raise every error of a store as a StoreError: the libraries of stores have exceptions of their own."""
        try:
            yield
        except ErrataError:
            raise
        except FileNotFoundError as error:
            raise StoreError(f"{what} {failure}: {missing} does not exist") from error
        except PermissionError as error:
            raise StoreError(f"{what} {failure}: access is denied; check the credentials") from error
        except Exception as error:
            if type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError"):
                raise StoreError(f"{what} {failure}: no credentials were found; set those of the store") from None
            raise StoreError(f"{what} {failure}: {one_line(error)}") from error


def _rename(store: Any, part: str, path: str) -> None:
    """Rename a file. Stores that do not replace files (SMB) have none for a moment, but never half of one."""
    try:
        store.mv(part, path)
    except OSError:  # each store has its own type for a file that is there already
        if not (store.exists(path) and store.exists(part)):
            raise
        store.rm_file(path)
        store.mv(part, path)
