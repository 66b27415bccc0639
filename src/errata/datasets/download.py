"""Fetch a dataset: download its official files, verify what they hold, and only then put them in their place."""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from errata.datasets.archives import NoRoomError, move_files, unpack
from errata.datasets.loading import read_verified
from errata.datasets.registry import dataset as find_dataset
from errata.datasets.spec import Dataset
from errata.datasets.transfer import Report, transfer
from errata.datasets.where import Found, dataset_folder, how_to_get, locate
from errata.errors import DataError, ErrataError, MissingDataError, StoreError

STAGING, ARCHIVES, LOCK = ".fetching", "archives", ".fetching.lock"

if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[Any]) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(file: IO[Any]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def fetch(dataset: Dataset, folder: Path, progress: Report = lambda arrived: None) -> list[Path]:
    """Bring a dataset's official files into its folder below `folder`, and those of the one it labels anew.

    Returns the dataset's own files. Where they are already there and what they hold is right, nothing touches the
    network. Interrupted at any moment, the next call goes on.
    """
    if dataset.inputs_from:
        fetch(find_dataset(dataset.inputs_from), folder, progress)
    there = _complete(dataset, folder)
    if there:
        return list(there.paths)
    place = dataset_folder(dataset, folder)
    if not dataset.downloads:
        raise MissingDataError(f"the official {dataset.name} is not in {place}: {how_to_get(dataset, folder)}")
    try:
        with _alone(dataset, place):
            there = _complete(dataset, folder)  # somebody else may just have brought it
            return list(there.paths) if there else _bring(dataset, place, progress)
    except ErrataError:
        raise
    except OSError as error:
        raise StoreError(f"{dataset.name} cannot be fetched into {place}: {error.strerror or error}") from error


def _complete(dataset: Dataset, folder: Path) -> Found | None:
    """The official data, if it is there; files that are something else under its name are left to their owner."""
    try:
        found = locate(dataset, folder)
    except DataError:  # not there, or not all of it
        return None
    if not found.source.complete:
        return None
    try:
        raw = read_verified(dataset, found)
    except DataError as error:
        raise DataError(f"{error}; move it away to fetch it again") from error
    return found if raw.complete else None


@contextlib.contextmanager
def _alone(dataset: Dataset, place: Path) -> Iterator[None]:
    """Let no other process fetch the same; the system gives the lock back however a process ends.

    Of a fetch that failed nothing stays but what the next one goes on with.
    """
    missing = [path for path in (place, *place.parents) if not path.exists()]
    place.mkdir(parents=True, exist_ok=True)
    lock = place / LOCK
    with lock.open("a") as file:
        try:
            _lock(file)
            if not os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                raise BlockingIOError("the process that held this lock removed it, and another made a new one")
        except (BlockingIOError, PermissionError, FileNotFoundError) as error:
            raise DataError(f"another process is fetching {dataset.name} into {place}; let it finish") from error
        try:
            yield
        finally:
            with contextlib.suppress(PermissionError):  # Windows deletes nothing that is open
                lock.unlink()
            staging = place / STAGING
            _remove_empty([*(staging / name for name in (ARCHIVES, dataset.name)), staging, *missing])


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _bring(dataset: Dataset, place: Path, progress: Report) -> list[Path]:
    # Everything is made ready beside, so that nothing lies in the dataset's folder that was not verified.
    staging = place / STAGING
    archives, ready = staging / ARCHIVES, dataset_folder(dataset, staging)
    archives.mkdir(parents=True, exist_ok=True)
    ready.mkdir(exist_ok=True)
    for download in dataset.downloads:
        transfer(download.url, (archives if download.unpack else ready) / download.name, progress)
    try:
        for download in dataset.downloads:
            if download.unpack:
                unpack(archives / download.name, ready)
        verified = _verified(dataset, staging)
    except NoRoomError:
        raise
    except DataError as error:
        shutil.rmtree(staging)
        sentence = str(error).replace(f"{archives}{os.sep}", "").replace(f"{ready}{os.sep}", "")
        raise DataError(f"what was downloaded for {dataset.name} is of no use and was removed: {sentence}") from error
    move_files(ready, place)
    shutil.rmtree(staging)
    return [place / path.relative_to(ready) for path in verified.paths]


def _verified(dataset: Dataset, staging: Path) -> Found:
    try:
        found = locate(dataset, staging)
    except MissingDataError as error:  # which says how to fetch it
        raise DataError(f"it does not hold {dataset.sources[0].files[0]}") from error
    if not (found.source.complete and read_verified(dataset, found).complete):
        raise DataError(f"{found.paths[0]} is not the complete official data")
    return found
