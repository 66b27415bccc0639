"""A folder of images in class folders as a user's own data."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from errata.datasets.own.data import OwnData
from errata.datasets.own.labels import encode_labels
from errata.datasets.own.memory import check_fits
from errata.datasets.own.wording import counted, listed
from errata.errors import DataError
from errata.extras import require_pillow
from errata.wording import one_line

ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
PARTS = frozenset({"train", "training", "test", "testing", "val", "valid", "validation", "dev"})
LARGEST_IN_MEMORY = 64  # pixels a side
FILES_AT_ONCE = 1024  # between which nothing piles up
NAMED_FILES = 20

Size = tuple[int, int]


@dataclass(frozen=True)
class Listing:
    """The image files below a folder, as paths from it, and what else lies there."""

    paths: list[str]
    remarks: list[str]


def read_folder(root: Path, skip_bad: bool) -> OwnData:
    """Images whose class is the folder they are in, the first below `root`.

    Every file is opened once. One that cannot be read is named and refused, or left out with a remark if `skip_bad`.
    Small images of one size are held in memory, others stay in their files.
    """
    require_pillow(f"reading the images in {root}")
    listing = _listing(root)
    sizes, broken = _opened(root, listing.paths)
    if broken and not skip_bad:
        path, why = next(iter(broken.items()))
        more = f" (and {counted(len(broken) - 1, 'other file')})" if len(broken) > 1 else ""
        raise DataError(
            f"{_printable(root / path)}{more} cannot be read as an image: {why}; skip_bad leaves such files out"
        )
    paths = [path for path in listing.paths if path not in broken]
    if not paths:
        raise DataError(f"{root} holds no image that can be read")
    encoded = encode_labels([path.split("/", 1)[0] for path in paths], f"the folder {root}")
    in_memory = _all_small(sizes)
    ids = np.array(paths)
    return OwnData(
        kind="images" if in_memory else "image files",
        inputs=_pixels(root, paths, sizes[0]) if in_memory else ids,
        labels=encoded.labels,
        classes=encoded.classes,
        ids=ids,
        rows=encoded.rows,
        columns={"files": f"{counted(len(paths), 'image')} {_span(sizes)}"},
        remarks=(*listing.remarks, *_skipped(broken), *encoded.remarks),
        root=None if in_memory else root,
    )


def _listing(root: Path) -> Listing:
    """Image files in sorted order; hidden ones are passed over in silence, others with a remark."""
    folders = sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if folders and PARTS.issuperset(name.casefold() for name in folders):
        raise DataError(f"the folders in {root} are {listed(folders)}, parts of a dataset and no classes: give one")
    paths: list[str] = []
    others: Counter[str] = Counter()
    empty = []
    for folder in folders:
        before = len(paths)
        for path in _files(root / folder):
            if path.suffix.lower() in ENDINGS:
                paths.append(path.relative_to(root).as_posix())
            else:
                others[path.suffix.lower() or "no ending"] += 1
        if len(paths) == before:
            empty.append(folder)
    outside = sum(entry.suffix.lower() in ENDINGS for entry in root.iterdir() if entry.is_file())
    if not paths:
        raise DataError(f"{root} has no images in class folders, as in {root / 'cat' / '1.jpg'}{_hint(outside)}")
    remarks = []
    if others:
        kinds = ", ".join(sorted(others))
        remarks.append(f"passed over: {counted(sum(others.values()), 'file')} of other kinds ({kinds})")
    if outside:
        remarks.append(f"passed over: {counted(outside, 'image')} in no class folder")
    if empty:
        remarks.append(f"passed over: {counted(len(empty), 'folder')} without an image ({listed(empty)})")
    return Listing(sorted(paths), remarks)


def _hint(outside: int) -> str:
    return f": its {counted(outside, 'image lies', 'images lie')} beside each other" if outside else ""


def _files(folder: Path) -> Iterator[Path]:
    for place, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if not name.startswith(".")]
        yield from (Path(place) / name for name in names if not name.startswith("."))


def _opened(root: Path, paths: Sequence[str]) -> tuple[list[Size], dict[str, str]]:
    """The sizes of the images that can be read, and why the others cannot."""
    sizes, broken = [], {}
    with ThreadPoolExecutor() as pool:
        for start in range(0, len(paths), FILES_AT_ONCE):
            some = paths[start : start + FILES_AT_ONCE]
            for path, result in zip(some, pool.map(lambda path: _size(root / path), some), strict=True):
                if isinstance(result, str):
                    broken[path] = result
                else:
                    sizes.append(result)
    return sizes, broken


def _size(path: Path) -> Size | str:
    """Width and height of an image, or why it cannot be read: all of it is decoded, but a JPEG at an eighth."""
    from PIL import Image

    try:
        path.name.encode("utf-8")
        with Image.open(path) as image:
            size = image.size
            image.draft("RGB", (1, 1))
            image.load()
    except Exception as error:  # what a decoder raises for a broken file is anything from OSError to SyntaxError
        return one_line(error)
    return size


def _all_small(sizes: Sequence[Size]) -> bool:
    return len(set(sizes)) == 1 and max(sizes[0]) <= LARGEST_IN_MEMORY


def _pixels(root: Path, paths: Sequence[str], size: Size) -> NDArray[np.uint8]:
    """Images (N, 3, H, W)."""
    from PIL import Image

    width, height = size
    check_fits(3.0 * len(paths) * width * height, f"{len(paths):,} images of {width} × {height} pixels")
    pixels = np.empty((len(paths), 3, height, width), dtype=np.uint8)
    for row, path in enumerate(paths):
        with Image.open(root / path) as image:
            pixels[row] = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    return pixels


def _span(sizes: Sequence[Size]) -> str:
    smallest, largest = (choose(sizes, key=lambda size: size[0] * size[1]) for choose in (min, max))
    one = f"{smallest[0]} × {smallest[1]}"
    return f"of {one} pixels" if len(set(sizes)) == 1 else f"from {one} to {largest[0]} × {largest[1]} pixels"


def _skipped(broken: dict[str, str]) -> list[str]:
    if not broken:
        return []
    named = [f"{_printable(path)} ({why})" for path, why in list(broken.items())[:NAMED_FILES]]
    more = [f"{len(broken) - NAMED_FILES:,} more"] if len(broken) > NAMED_FILES else []
    what = counted(len(broken), "file that cannot be read as an image is", "files that cannot be read as images are")
    return [f"{what} left out: {', '.join([*named, *more])}"]


def _printable(path: str | Path) -> str:
    """A path as text that can be written anywhere, whatever bytes its name is made of."""
    return str(path).encode("utf-8", "backslashreplace").decode()
