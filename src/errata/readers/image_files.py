"""Image files: folders with one folder of images per class as user data, and decoding of images from any source."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from errata.errors import DataError
from errata.extras import require_pillow
from errata.readers.label_encoding import encode_labels
from errata.readers.memory import check_fits
from errata.readers.user_data import UserData
from errata.wording import counted, listed, one_line

if TYPE_CHECKING:
    from PIL import Image

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
SPLIT_NAMES = frozenset({"train", "training", "test", "testing", "val", "valid", "validation", "dev"})
MAX_SIDE_IN_MEMORY = 64  # pixels
BLOCK_FILES = 1024  # decoded before the results are collected
MAX_LISTED_FILES = 20
ORIENTATION = 0x0112  # the EXIF tag for the orientation of the camera
SIDEWAYS = frozenset({5, 6, 7, 8})

Size = tuple[int, int]
File = Path | IO[bytes]


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
    top_files = [entry for entry in root.iterdir() if entry.is_file() and not entry.name.startswith(".")]
    outside = sum(entry.suffix.lower() in IMAGE_SUFFIXES for entry in top_files)
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
    return ImageListing(sorted(paths), sorted([*others, *(entry.name for entry in top_files)]), remarks)


def read_sizes(
    names: Sequence[str], file_of: Callable[[str], File], *, upright: bool = False
) -> tuple[list[Size], dict[str, str]]:
    """The sizes of the readable images, and the errors of the others by name. upright: sizes after EXIF rotation."""
    sizes, errors = [], {}
    with ThreadPoolExecutor() as pool:
        for start in range(0, len(names), BLOCK_FILES):
            block = names[start : start + BLOCK_FILES]
            for name, result in zip(block, pool.map(lambda name: _size(name, file_of, upright), block), strict=True):
                if isinstance(result, str):
                    errors[name] = result
                else:
                    sizes.append(result)
    return sizes, errors


def raise_unreadable(errors: Mapping[str, str], place: Callable[[str], str]) -> None:
    """Raise an error for the first unreadable image, if there is one. place: how messages name an image."""
    if errors:
        name, error = next(iter(errors.items()))
        more = f" (and {counted(len(errors) - 1, 'other file')})" if len(errors) > 1 else ""
        hint = "Ignore such files with `skip_bad=True`"
        raise DataError(f"{place(name)}{more} cannot be read as an image: {error}. {hint}")


def unreadable_remarks(errors: Mapping[str, str]) -> list[str]:
    """A remark on the unreadable images, if there are any."""
    if not errors:
        return []
    shown = [f"{printable(name)} ({error})" for name, error in list(errors.items())[:MAX_LISTED_FILES]]
    more = [f"{len(errors) - MAX_LISTED_FILES:,} more"] if len(errors) > MAX_LISTED_FILES else []
    what = counted(len(errors), "file that cannot be read as an image is", "files that cannot be read as images are")
    return [f"{what} left out: {', '.join([*shown, *more])}"]


def fit_in_memory(sizes: Sequence[Size]) -> bool:
    """Whether all images have the same small size."""
    return len(set(sizes)) == 1 and max(sizes[0]) <= MAX_SIDE_IN_MEMORY


def size_range(sizes: Sequence[Size]) -> str:
    """`of 32 × 32 pixels`, `from 20 × 30 to 640 × 480 pixels`."""
    smallest, largest = (choose(sizes, key=lambda size: size[0] * size[1]) for choose in (min, max))
    first = f"{smallest[0]} × {smallest[1]}"
    return f"of {first} pixels" if len(set(sizes)) == 1 else f"from {first} to {largest[0]} × {largest[1]} pixels"


def pixels_of(count: int, size: Size, image_at: "Callable[[int], Image.Image]") -> NDArray[np.uint8]:
    """The pixels (N, 3, H, W) of `count` images of one size. image_at: the image with a number from 0."""
    width, height = size
    check_fits(3.0 * count * width * height, f"{count:,} images of {width} × {height} pixels")
    pixels = np.empty((count, 3, height, width), dtype=np.uint8)
    for number in range(count):
        pixels[number] = np.asarray(image_at(number)).transpose(2, 0, 1)
    return pixels


def image_of(pixels: NDArray[np.uint8]) -> "Image.Image":
    """The pixels (3, H, W) as an image."""
    require_pillow("showing or exporting images")
    from PIL import Image

    return Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))


def on_white(image: "Image.Image") -> "Image.Image":
    """The image in RGB, with a white background in place of transparency."""
    from PIL import Image

    background = Image.new("RGBA", image.size, "white")
    background.alpha_composite(image.convert("RGBA"))
    return background.convert("RGB")


def printable(path: str | Path) -> str:
    """A path as valid UTF-8, with other bytes escaped."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(place) / name for name in names if not name.startswith("."))


def _image(path: Path) -> "Image.Image":
    from PIL import Image

    with Image.open(path) as image:
        return image.convert("RGB")


def _size(name: str, file_of: Callable[[str], File], upright: bool) -> Size | str:
    """Width and height of an image, or an error message. The image is decoded, a JPEG at an eighth of its size."""
    from PIL import Image

    try:
        name.encode("utf-8")
        with Image.open(file_of(name)) as image:
            width, height = image.size
            is_sideways = upright and image.getexif().get(ORIENTATION) in SIDEWAYS
            image.draft("RGB", (1, 1))
            image.load()
    except Exception as error:  # decoders raise many kinds of errors for damaged files
        return one_line(error)
    return (height, width) if is_sideways else (width, height)
