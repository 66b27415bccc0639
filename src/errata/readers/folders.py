"""A folder of images in class folders as a user's own data."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from errata.errors import DataError
from errata.extras import require_pillow
from errata.readers.images import all_small, pixels_of, printable, read_sizes, refuse_broken, skipped, span
from errata.readers.label_encoding import encode_labels
from errata.readers.user_data import UserData
from errata.wording import counted, listed

if TYPE_CHECKING:
    from PIL import Image

ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
PARTS = frozenset({"train", "training", "test", "testing", "val", "valid", "validation", "dev"})


@dataclass(frozen=True)
class Listing:
    """The image files below a folder, as paths from it, and what else lies there; hidden files are not listed."""

    paths: list[str]
    others: list[str]
    remarks: list[str]


def read_folder(root: Path, skip_bad: bool) -> UserData:
    """Images whose class is the folder they are in, the first below `root`.

    Every file is opened once. One that cannot be read is named and refused, or left out with a remark if `skip_bad`.
    Small images of one size are held in memory, others stay in their files.
    """
    require_pillow(f"reading the images in {root}")
    listing = list_images(root)
    sizes, broken = read_sizes(listing.paths, lambda path: root / path)
    if not skip_bad:
        refuse_broken(broken, lambda path: printable(root / path))
    paths = [path for path in listing.paths if path not in broken]
    if not paths:
        raise DataError(f"{root} holds no image that can be read")
    encoded = encode_labels([path.split("/", 1)[0] for path in paths], f"the folder {root}")
    in_memory = all_small(sizes)
    ids = np.array(paths)
    return UserData(
        kind="images" if in_memory else "image files",
        inputs=pixels_of(len(paths), sizes[0], lambda number: _image(root / paths[number])) if in_memory else ids,
        labels=encoded.labels,
        classes=encoded.classes,
        ids=ids,
        rows=encoded.rows,
        columns={"files": f"{counted(len(paths), 'image')} {span(sizes)}"},
        remarks=(*listing.remarks, *skipped(broken), *encoded.remarks),
        root=None if in_memory else root,
    )


def list_images(root: Path) -> Listing:
    """Image files in sorted order; hidden ones are passed over in silence, others with a remark."""
    folders = sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if folders and PARTS.issuperset(name.casefold() for name in folders):
        raise DataError(f"the folders in {root} are {listed(folders)}, parts of a dataset and no classes: give one")
    paths: list[str] = []
    others: list[str] = []
    empty = []
    for folder in folders:
        before = len(paths)
        for path in _files(root / folder):
            known = path.suffix.lower() in ENDINGS
            (paths if known else others).append(path.relative_to(root).as_posix())
        if len(paths) == before:
            empty.append(folder)
    beside = [entry for entry in root.iterdir() if entry.is_file() and not entry.name.startswith(".")]
    outside = sum(entry.suffix.lower() in ENDINGS for entry in beside)
    if not paths:
        raise DataError(f"{root} has no images in class folders, as in {root / 'cat' / '1.jpg'}{_hint(outside)}")
    remarks = []
    if others:
        kinds = ", ".join(sorted({Path(path).suffix.lower() or "no ending" for path in others}))
        remarks.append(f"passed over: {counted(len(others), 'file')} of other kinds ({kinds})")
    if outside:
        remarks.append(f"passed over: {counted(outside, 'image')} in no class folder")
    if empty:
        remarks.append(f"passed over: {counted(len(empty), 'folder')} without an image ({listed(empty)})")
    return Listing(sorted(paths), sorted([*others, *(entry.name for entry in beside)]), remarks)


def _hint(outside: int) -> str:
    return f": its {counted(outside, 'image lies', 'images lie')} in no class folder" if outside else ""


def _files(folder: Path) -> Iterator[Path]:
    for place, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if not name.startswith(".")]
        yield from (Path(place) / name for name in names if not name.startswith("."))


def _image(path: Path) -> "Image.Image":
    from PIL import Image

    with Image.open(path) as image:
        return image.convert("RGB")
