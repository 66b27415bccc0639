"""Folders with one folder of images per class as user data."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from errata.errors import DataError
from errata.extras import require_pillow
from errata.readers.images import (
    fit_in_memory,
    pixels_of,
    printable,
    raise_unreadable,
    read_sizes,
    size_range,
    unreadable_remarks,
)
from errata.readers.label_encoding import encode_labels
from errata.readers.user_data import UserData
from errata.wording import counted, listed

if TYPE_CHECKING:
    from PIL import Image

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
SPLIT_NAMES = frozenset({"train", "training", "test", "testing", "val", "valid", "validation", "dev"})


@dataclass(frozen=True)
class ImageListing:
    """The image files below a folder and its other files, as relative paths, and remarks. Hidden files are ignored."""

    paths: list[str]
    others: list[str]
    remarks: list[str]


def read_folder(root: Path, skip_bad: bool) -> UserData:
    """Read images whose class is the first folder below `root`.

    All files are decoded once, to find damaged ones. Small images of one size are kept in memory.
    """
    require_pillow(f"reading the images in {root}")
    listing = list_images(root)
    sizes, errors = read_sizes(listing.paths, lambda path: root / path)
    if not skip_bad:
        raise_unreadable(errors, lambda path: printable(root / path))
    paths = [path for path in listing.paths if path not in errors]
    if not paths:
        raise DataError(f"{root} has no readable image")
    encoded = encode_labels([path.split("/", 1)[0] for path in paths], f"the folder {root}")
    in_memory = fit_in_memory(sizes)
    ids = np.array(paths)
    return UserData(
        kind="images" if in_memory else "image files",
        inputs=pixels_of(len(paths), sizes[0], lambda number: _image(root / paths[number])) if in_memory else ids,
        labels=encoded.labels,
        classes=encoded.classes,
        ids=ids,
        rows=encoded.rows,
        columns={"files": f"{counted(len(paths), 'image')} {size_range(sizes)}"},
        remarks=(*listing.remarks, *unreadable_remarks(errors), *encoded.remarks),
        root=None if in_memory else root,
    )


def list_images(root: Path) -> ImageListing:
    """List the image files in class folders, sorted, with remarks on ignored files."""
    folders = sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if folders and SPLIT_NAMES.issuperset(name.casefold() for name in folders):
        raise DataError(
            f"The folders in {root} are {listed(folders)}: splits of a dataset, not classes. Pass one of them"
        )
    paths: list[str] = []
    others: list[str] = []
    empty = []
    for folder in folders:
        before = len(paths)
        for path in _files(root / folder):
            is_image = path.suffix.lower() in IMAGE_SUFFIXES
            (paths if is_image else others).append(path.relative_to(root).as_posix())
        if len(paths) == before:
            empty.append(folder)
    beside = [entry for entry in root.iterdir() if entry.is_file() and not entry.name.startswith(".")]
    outside = sum(entry.suffix.lower() in IMAGE_SUFFIXES for entry in beside)
    if not paths:
        hint = f". It has {counted(outside, 'image')} outside of class folders" if outside else ""
        raise DataError(f"{root} has no images in class folders, such as {root / 'cat' / '1.jpg'}{hint}")
    remarks = []
    if others:
        suffixes = ", ".join(sorted({Path(path).suffix.lower() or "no suffix" for path in others}))
        remarks.append(f"ignored: {counted(len(others), 'file')} of other types ({suffixes})")
    if outside:
        remarks.append(f"ignored: {counted(outside, 'image')} outside of class folders")
    if empty:
        remarks.append(f"ignored: {counted(len(empty), 'folder')} without images ({listed(empty)})")
    return ImageListing(sorted(paths), sorted([*others, *(entry.name for entry in beside)]), remarks)


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(place) / name for name in names if not name.startswith("."))


def _image(path: Path) -> "Image.Image":
    from PIL import Image

    with Image.open(path) as image:
        return image.convert("RGB")
