"""Annotation files with one image path per line, as Clothing1M and Food-101N have them."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from errata.errors import DataError
from errata.readers.file_access import file_errors

CHECKED_IMAGES = 20  # per list: checking a million files would take minutes


def numbered_lines(path: Path, header: str = "") -> Iterator[tuple[int, str]]:
    """The non-blank lines of a text file with their numbers from 1, without a first line that starts with `header`."""
    empty = True
    with file_errors(path), path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            text = line.strip()
            if not text or (header and number == 1 and text.startswith(header)):
                continue
            empty = False
            yield number, text
    if empty:
        raise DataError(f"{path} is empty")


def read_keys(path: Path) -> list[str]:
    """The distinct lines of a file, in order."""
    return list(dict.fromkeys(text for _, text in numbered_lines(path)))


def as_paths(keys: Iterable[str]) -> NDArray[np.bytes_]:
    """Paths (N,) as UTF-8 bytes."""
    return np.array([key.encode() for key in keys], dtype=np.bytes_)


def check_images(root: Path, folder: str, keys: Sequence[str], listed: Path) -> None:
    """Raise an error if the image folder, or one of a few images spread over the list, does not exist below `root`."""
    if not (root / folder).is_dir():
        raise DataError(f"The folder {root / folder} with the images listed in {listed} is missing")
    for place in np.unique(np.linspace(0, len(keys) - 1, CHECKED_IMAGES).astype(np.int64)).tolist():
        if not (root / keys[place]).is_file():
            raise DataError(f"{root / keys[place]} is missing, but {listed} lists it")
