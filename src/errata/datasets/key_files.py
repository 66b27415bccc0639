"""Lists of image paths, one a line, as the big image datasets are annotated."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from errata.errors import DataError

LOOKED_FOR = 20  # images of a list: looking for all of a million would take minutes


def numbered_lines(path: Path, header: str = "") -> Iterator[tuple[int, str]]:
    """The lines of a text file that are not blank, with their numbers from 1; not the first if it begins with `header`.

    A file without any is refused.
    """
    found = False
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                text = line.strip()
                if not text or (header and number == 1 and text.startswith(header)):
                    continue
                found = True
                yield number, text
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    if not found:
        raise DataError(f"{path} is empty")


def read_keys(path: Path) -> list[str]:
    """The distinct lines of a file, in the order of their first appearance."""
    return list(dict.fromkeys(text for _, text in numbered_lines(path)))


def as_paths(keys: Iterable[str]) -> NDArray[np.bytes_]:
    """Paths (N,) as UTF-8 bytes."""
    return np.array([key.encode() for key in keys], dtype=np.bytes_)


def check_images(root: Path, folder: str, keys: Sequence[str], listed: Path) -> None:
    """Refuse a list whose images are not below `root`: their folder, or one of a few, spread over the list."""
    if not (root / folder).is_dir():
        raise DataError(f"there is no folder {root / folder} with the images that {listed} lists")
    for place in np.unique(np.linspace(0, len(keys) - 1, LOOKED_FOR).astype(np.int64)).tolist():
        if not (root / keys[place]).is_file():
            raise DataError(f"{root / keys[place]} is not there, though {listed} lists it")
