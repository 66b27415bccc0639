"""A copy and its log, written beside their places and moved there together.

A copy is prepared in the folder `.NAME.part`, which is renamed `.NAME.ready` when both files are complete. Then both
are moved out. A process that is killed leaves one of the two folders, from which `finish_interrupted` goes on.
"""

import filecmp
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from errata.errors import StoreError
from errata.locks import lock_file


@contextmanager
def staging_folder(copy: Path) -> Iterator[Path]:
    """An empty folder for the files that `move_into_place` moves beside `copy`. Only one process at a time has it.

    It is deleted at the end, with everything that was not moved.
    """
    unfinished, _ = _folders(copy)
    with lock_file(copy):
        try:
            finish_interrupted(copy)
            unfinished.mkdir()
            yield unfinished
        except OSError as error:
            staged = str(unfinished / copy.name)
            if not isinstance(error, StoreError):
                raise StoreError(f"{copy} cannot be written: {error.strerror or error}") from error
            if staged not in str(error):
                raise
            raise StoreError(str(error).replace(staged, str(copy))) from error
        finally:
            finish_interrupted(copy)


def move_into_place(copy: Path, log: Path) -> None:
    """Move both files out of the staging folder, replacing earlier files."""
    unfinished, ready = _folders(copy)
    unfinished.rename(ready)
    for path in (copy, log):
        (ready / path.name).replace(path)
    ready.rmdir()


def finish_interrupted(copy: Path) -> None:
    """Delete what a killed process had not completed. If it had moved the copy, move the log as well."""
    unfinished, ready = _folders(copy)
    if ready.is_dir():
        if not (ready / copy.name).exists():
            for log in ready.iterdir():
                log.replace(copy.with_name(log.name))
        shutil.rmtree(ready)
    if unfinished.is_dir():
        shutil.rmtree(unfinished)


def same_contents(first: Path, second: Path) -> bool:
    """Whether two files, or all files in two folders, are equal."""
    if not (first.is_dir() and second.is_dir()):
        return first.is_file() and second.is_file() and filecmp.cmp(first, second, shallow=False)
    names = [{path.relative_to(folder) for path in folder.rglob("*")} for folder in (first, second)]
    return names[0] == names[1] and all(
        (first / name).is_dir() or same_contents(first / name, second / name) for name in names[0]
    )


def _folders(copy: Path) -> tuple[Path, Path]:
    """The folder of files that are being written, and the folder of complete files."""
    return copy.with_name(f".{copy.name}.part"), copy.with_name(f".{copy.name}.ready")
