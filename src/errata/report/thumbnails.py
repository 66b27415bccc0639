"""Thumbnails as data URIs, which are stored inside the page."""

import base64
import io
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from errata.readers.image_files import image_of, on_white
from errata.readers.user_data import UserData

if TYPE_CHECKING:
    from PIL import Image

LONGEST_SIDE = 128  # pixels
QUALITY = 80
BLOCK = 256  # thumbnails computed before the caller checks whether more fit


def pillow_is_missing() -> bool:
    """True if no thumbnails can be made."""
    return find_spec("PIL") is None


def thumbnails(data: UserData, places: NDArray[np.int64]) -> Iterator[str]:
    """A data URI per sample at the rows `places` (n,), computed in blocks; "" for a file that cannot be read."""

    def thumbnail(place: int) -> str:
        return _from_file(data.root / data.inputs[place]) if data.root else _data_uri(image_of(data.inputs[place]))

    with ThreadPoolExecutor() as pool:
        for start in range(0, len(places), BLOCK):
            yield from pool.map(thumbnail, places[start : start + BLOCK].tolist())


def relative_address(root: Path, folder: Path) -> str | None:
    """The URL of the image folder relative to the page's folder; None if there is no relative path (other drive)."""
    try:
        return quote(Path(os.path.relpath(root.resolve(), folder.resolve())).as_posix())
    except ValueError:
        return None


def _from_file(path: Path) -> str:
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            image.draft("RGB", (LONGEST_SIDE, LONGEST_SIDE))  # decodes a JPEG at a reduced size
            return _data_uri(on_white(ImageOps.exif_transpose(image)))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return ""  # the page reports how many


def _data_uri(image: "Image.Image") -> str:
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=QUALITY)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()
