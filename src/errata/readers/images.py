"""Images of any origin: whether each can be read, and how large it is."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from errata.errors import DataError
from errata.readers.memory import check_fits
from errata.wording import counted, one_line

if TYPE_CHECKING:
    from PIL import Image

LARGEST_IN_MEMORY = 64  # pixels a side
FILES_AT_ONCE = 1024  # between which nothing piles up
NAMED_FILES = 20
ORIENTATION = 0x0112  # where EXIF says how a camera was held
SIDEWAYS = frozenset({5, 6, 7, 8})

Size = tuple[int, int]
File = Path | IO[bytes]


def read_sizes(
    names: Sequence[str], file_of: Callable[[str], File], *, upright: bool = False
) -> tuple[list[Size], dict[str, str]]:
    """The sizes of the images that can be read, as stored or as they are seen, and why the others cannot, by name."""
    sizes, broken = [], {}
    with ThreadPoolExecutor() as pool:
        for start in range(0, len(names), FILES_AT_ONCE):
            some = names[start : start + FILES_AT_ONCE]
            for name, result in zip(some, pool.map(lambda name: _size(name, file_of, upright), some), strict=True):
                if isinstance(result, str):
                    broken[name] = result
                else:
                    sizes.append(result)
    return sizes, broken


def refuse_broken(broken: Mapping[str, str], place: Callable[[str], str]) -> None:
    """Name the first image that cannot be read; `place` says where one is."""
    if broken:
        name, why = next(iter(broken.items()))
        more = f" (and {counted(len(broken) - 1, 'other file')})" if len(broken) > 1 else ""
        raise DataError(
            f"{place(name)}{more} cannot be read as an image: {why}; --skip-bad (skip_bad=True) leaves such files out"
        )


def skipped(broken: Mapping[str, str]) -> list[str]:
    """A remark on the images that are left out, if there are any."""
    if not broken:
        return []
    named = [f"{printable(name)} ({why})" for name, why in list(broken.items())[:NAMED_FILES]]
    more = [f"{len(broken) - NAMED_FILES:,} more"] if len(broken) > NAMED_FILES else []
    what = counted(len(broken), "file that cannot be read as an image is", "files that cannot be read as images are")
    return [f"{what} left out: {', '.join([*named, *more])}"]


def all_small(sizes: Sequence[Size]) -> bool:
    """Whether all images are of one size and can be held in memory as they are."""
    return len(set(sizes)) == 1 and max(sizes[0]) <= LARGEST_IN_MEMORY


def span(sizes: Sequence[Size]) -> str:
    """`of 32 × 32 pixels`, `from 20 × 30 to 640 × 480 pixels`."""
    smallest, largest = (choose(sizes, key=lambda size: size[0] * size[1]) for choose in (min, max))
    one = f"{smallest[0]} × {smallest[1]}"
    return f"of {one} pixels" if len(set(sizes)) == 1 else f"from {one} to {largest[0]} × {largest[1]} pixels"


def pixels_of(count: int, size: Size, image_at: "Callable[[int], Image.Image]") -> NDArray[np.uint8]:
    """Images (N, 3, H, W) of one size, by their numbers from 0."""
    width, height = size
    check_fits(3.0 * count * width * height, f"{count:,} images of {width} × {height} pixels")
    pixels = np.empty((count, 3, height, width), dtype=np.uint8)
    for number in range(count):
        pixels[number] = np.asarray(image_at(number)).transpose(2, 0, 1)
    return pixels


def printable(path: str | Path) -> str:
    """A path as text that can be written anywhere, whatever bytes its name is made of."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def _size(name: str, file_of: Callable[[str], File], upright: bool) -> Size | str:
    """Width and height of an image, or why it cannot be read: all of it is decoded, but a JPEG at an eighth."""
    from PIL import Image

    try:
        name.encode("utf-8")
        with Image.open(file_of(name)) as image:
            width, height = image.size
            turned = upright and image.getexif().get(ORIENTATION) in SIDEWAYS
            image.draft("RGB", (1, 1))
            image.load()
    except Exception as error:  # what a decoder raises for a broken file is anything from OSError to SyntaxError
        return one_line(error)
    return (height, width) if turned else (width, height)
