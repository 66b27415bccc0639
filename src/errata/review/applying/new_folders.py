"""A folder that is there once all of it is written, and not before."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from errata.errors import StoreError


@contextmanager
def written_folder(target: Path) -> Iterator[Path]:
    """A folder to write to, which gets the name `target` in the end; if anything fails, nothing of it stays."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.mkdir()
        yield part
        part.rename(target)
    except BaseException as error:
        shutil.rmtree(part, ignore_errors=True)
        if isinstance(error, OSError) and not isinstance(error, StoreError):
            raise StoreError(f"{target} cannot be written: {error.strerror or error}") from error
        raise
