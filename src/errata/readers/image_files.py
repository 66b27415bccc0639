"""Images: folders with one folder of images per class as user data, encoded images of a table, and decoding of both."""

import hashlib
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.errors import DataError
from errata.extras import require_pillow
from errata.image_decoding import File, Size, checked_size, decode_image
from errata.memory import check_fits
from errata.readers.file_access import file_errors, regular_file
from errata.readers.label_encoding import encode_labels
from errata.readers.user_data import Rows, UserData
from errata.wording import counted, listed, one_line

if TYPE_CHECKING:
    import pyarrow as pa
    from PIL import Image

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
SPLIT_NAMES = frozenset({"train", "training", "test", "testing", "val", "valid", "validation", "dev"})
MAX_SIDE_IN_MEMORY = 64  # pixels
BLOCK_FILES = 1024  # decoded before the results are collected
MAX_LISTED_FILES = 20


@dataclass(frozen=True)
class ImageListing:
    """The image files below a folder and its other files, as relative paths, and remarks. Hidden files are ignored."""

    paths: list[str]
    others: list[str]
    remarks: list[str]


@dataclass(frozen=True, eq=False)
class StoredImages:
    """N images of any size that are decoded on access: `images[index]` gives pixels (3, H, W).

    column: all images of a table, as encoded `bytes` or as a `path` in `folder`. rows (N,): the rows of the table.
    sizes: width and height of each of the N images.
    """

    column: "pa.ChunkedArray"
    folder: Path
    rows: Rows
    sizes: tuple[Size, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        """Pixels (3, H, W) of one sample, or a selection of the images."""
        if isinstance(index, int | np.integer):
            return np.asarray(self.image(int(index))).transpose(2, 0, 1)
        chosen = np.arange(len(self))[index]
        return replace(self, rows=self.rows[chosen], sizes=tuple(self.sizes[place] for place in chosen.tolist()))

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        return (self[index] for index in range(len(self)))

    def image(self, index: int) -> "Image.Image":
        """A sample in RGB, rotated upright, with a white background if it is transparent."""
        return decode_image(io.BytesIO(self.encoded(int(self.rows[index]))))

    def digests(self) -> Iterator[bytes]:
        """A hash of each of the N encoded images."""
        return (hashlib.blake2b(self.encoded(row), digest_size=16).digest() for row in self.rows.tolist())

    def encoded(self, row: int) -> bytes:
        """The encoded image in a row of the table."""
        stored = self.column[row].as_py() or {}
        content, path = stored.get("bytes"), stored.get("path")
        if content is not None:
            return bytes(content)
        if path is None:
            raise DataError("no image")
        return regular_file(Path(self.folder, path)).read_bytes()


def read_folder(root: Path, skip_bad: bool) -> UserData:
    """Read images whose class is the first folder below `root`.

    All files are decoded once, to find damaged ones. Small images of one size are kept in memory.
    """
    require_pillow(f"reading the images in {root}", "images")
    listing = list_images(root, skip_bad)
    files = {path: root / path for path in listing.paths}
    sizes, remarks = readable_images(files, files.__getitem__, skip_bad, str(root), lambda path: printable(files[path]))
    paths = list(sizes)
    encoded = encode_labels([path.split("/", 1)[0] for path in paths], f"the folder {root}")
    pixels = small_images(list(sizes.values()), lambda number: decode_image(files[paths[number]]))
    ids = np.array(paths)
    return UserData(
        kind="image files" if pixels is None else "images",
        inputs=ids if pixels is None else pixels,
        labels=encoded.labels,
        classes=encoded.classes,
        ids=ids,
        rows=encoded.rows,
        columns={"files": size_range(list(sizes.values()))},
        remarks=(*listing.remarks, *remarks, *encoded.remarks),
        root=root if pixels is None else None,
    )


def list_images(root: Path, skip_bad: bool | None = None) -> ImageListing:
    """List the image files in class folders, sorted, with remarks on ignored files.

    skip_bad: whether to leave out folders that cannot be read; None: they cannot be left out.
    """
    with file_errors(root):
        entries = [entry for entry in sorted(root.iterdir()) if not entry.name.startswith(".")]
        folders = [entry.name for entry in entries if entry.is_dir()]
        top_files = [entry for entry in entries if entry.is_file()]
    if folders and SPLIT_NAMES.issuperset(name.casefold() for name in folders):
        raise DataError(
            f"The folders in {root} are {listed(folders)}: splits of a dataset, not classes. Pass one of them"
        )
    unreadable: dict[Path, str] = {}
    files = [path for folder in folders for path in _files(root / folder, unreadable)]
    if unreadable and not skip_bad:
        place, reason = next(iter(unreadable.items()))
        hint = "" if skip_bad is None else ", or leave such folders out with `skip_bad=True`"
        raise DataError(f"The folder {printable(place)} cannot be read: {reason}. Change its permissions{hint}")
    paths = [path.relative_to(root).as_posix() for path in files if _is_image(path)]
    others = [path.relative_to(root).as_posix() for path in files if not _is_image(path)]
    outside = sum(map(_is_image, top_files))
    if not paths:
        hint = f". It has {counted(outside, 'image')} outside of class folders" if outside else ""
        raise DataError(f"{root} has no images in class folders, such as {root / 'cat' / '1.jpg'}{hint}")
    remarks = []
    if others:
        suffixes = ", ".join(sorted({Path(path).suffix.lower() or "no suffix" for path in others}))
        remarks.append(f"ignored: {counted(len(others), 'file')} of other types ({suffixes})")
    if outside:
        remarks.append(f"ignored: {counted(outside, 'image')} outside of class folders")
    if unreadable:
        what = counted(len(unreadable), "folder that cannot be read is", "folders that cannot be read are")
        remarks.append(_left_out(what, unreadable))
    classes = {path.split("/", 1)[0] for path in paths}
    empty = [folder for folder in folders if folder not in classes and root / folder not in unreadable]
    if empty:
        remarks.append(f"ignored: {counted(len(empty), 'folder')} without images ({listed(empty)})")
    return ImageListing(sorted(paths), sorted([*others, *(entry.name for entry in top_files)]), remarks)


def readable_images(
    names: Sequence[str] | Mapping[str, Any],
    file_of: Callable[[str], File],
    skip_bad: bool,
    origin: str,
    place: Callable[[str], str],
) -> tuple[dict[str, Size], list[str]]:
    """The sizes of the readable images by name, and remarks on the others. Raise an error without `skip_bad`.

    origin, place: how messages name the source and an image.
    """
    sizes: dict[str, Size] = {}
    errors: dict[str, str] = {}
    all_names = list(names)
    with ThreadPoolExecutor() as pool:
        for start in range(0, len(all_names), BLOCK_FILES):
            block = all_names[start : start + BLOCK_FILES]
            for name, result in zip(block, pool.map(lambda name: _size(name, file_of), block), strict=True):
                if isinstance(result, str):
                    errors[name] = result
                else:
                    sizes[name] = result
    if errors and not skip_bad:
        name, error = next(iter(errors.items()))
        more = f" (and {counted(len(errors) - 1, 'other file')})" if len(errors) > 1 else ""
        hint = "Ignore such files with `skip_bad=True`"
        raise DataError(f"{place(name)}{more} cannot be read as an image: {error}. {hint}")
    if not sizes:
        raise DataError(f"{origin} has no readable image")
    if not errors:
        return sizes, []
    what = counted(len(errors), "file that cannot be read as an image is", "files that cannot be read as images are")
    return sizes, [_left_out(what, errors)]


def size_range(sizes: Sequence[Size]) -> str:
    """`20 images of 32 × 32 pixels`, `20 images from 20 × 30 to 640 × 480 pixels`."""
    smallest, largest = (choose(sizes, key=lambda size: size[0] * size[1]) for choose in (min, max))
    first, images = f"{smallest[0]} × {smallest[1]}", counted(len(sizes), "image")
    if len(set(sizes)) == 1:
        return f"{images} of {first} pixels"
    return f"{images} from {first} to {largest[0]} × {largest[1]} pixels"


def small_images(sizes: Sequence[Size], image_at: "Callable[[int], Image.Image]") -> NDArray[np.uint8] | None:
    """The pixels (N, 3, H, W) if all images have the same small size, else None. image_at: the image of a number."""
    width, height = sizes[0]
    if len(set(sizes)) > 1 or max(width, height) > MAX_SIDE_IN_MEMORY:
        return None
    check_fits(3.0 * len(sizes) * width * height, f"{len(sizes):,} images of {width} × {height} pixels")
    pixels = np.empty((len(sizes), 3, height, width), dtype=np.uint8)
    for number in range(len(sizes)):
        pixels[number] = np.asarray(image_at(number)).transpose(2, 0, 1)
    return pixels


def image_of(pixels: NDArray[np.uint8]) -> "Image.Image":
    """The pixels (3, H, W) as an image."""
    require_pillow("showing or exporting images")
    from PIL import Image

    return Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))


def printable(path: str | Path) -> str:
    """A path as valid UTF-8, with other bytes escaped."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES


def _left_out(what: str, reasons: Mapping[Any, str]) -> str:
    """A remark with the first files or folders that are left out, each with the reason."""
    shown = [f"{printable(name)} ({reason})" for name, reason in list(reasons.items())[:MAX_LISTED_FILES]]
    more = [f"{len(reasons) - MAX_LISTED_FILES:,} more"] if len(reasons) > MAX_LISTED_FILES else []
    return f"{what} left out: {', '.join([*shown, *more])}"


def _files(folder: Path, unreadable: dict[Path, str]) -> Iterator[Path]:
    """The files below a folder. unreadable: gets the folders that cannot be listed, with the reason."""

    def add(error: OSError) -> None:
        unreadable[Path(error.filename)] = error.strerror or one_line(error)

    for place, folders, names in os.walk(folder, onerror=add):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(place) / name for name in names if not name.startswith("."))


def _size(name: str, file_of: Callable[[str], File]) -> Size | str:
    """Width and height of an image, or an error message."""
    try:
        name.encode("utf-8")
        return checked_size(file_of(name))
    except Exception as error:  # decoders raise many kinds of errors for damaged files
        return one_line(error)
