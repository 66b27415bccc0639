"""Thumbnails that travel inside the page."""

import base64
import io
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from errata.readers.user_data import UserData

if TYPE_CHECKING:
    from PIL import Image

SIDE = 128  # pixels, at most
QUALITY = 80
AT_ONCE = 256  # pictures made before asking whether there is room for more


def missing_pillow() -> bool:
    """Whether pictures cannot be made at all."""
    return find_spec("PIL") is None


def pictures(data: UserData, places: NDArray[np.int64]) -> Iterator[str]:
    """The samples at those places as data URIs, made as they are asked for; "" for a file that cannot be read."""

    def made(place: int) -> str:
        return _from_file(data.root / data.inputs[place]) if data.root else _from_pixels(data.inputs[place])

    with ThreadPoolExecutor() as pool:
        for start in range(0, len(places), AT_ONCE):
            yield from pool.map(made, places[start : start + AT_ONCE].tolist())


def way_to_files(root: Path, folder: Path) -> str | None:
    """The relative address of the images' folder, as seen from the page; None where there is none (another drive)."""
    try:
        return quote(Path(os.path.relpath(root.resolve(), folder.resolve())).as_posix())
    except ValueError:
        return None


def _from_pixels(pixels: NDArray[np.uint8]) -> str:
    from PIL import Image

    return _address(Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0))))


def _from_file(path: Path) -> str:
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            image.draft("RGB", (SIDE, SIDE))  # a JPEG is decoded no larger than it is needed
            return _address(_on_white(ImageOps.exif_transpose(image)))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return ""  # the page says how many there are


def _on_white(image: Any) -> "Image.Image":
    """Without transparency, which would show the colour of the page."""
    from PIL import Image

    opaque = image.convert("RGBA")
    paper = Image.new("RGBA", opaque.size, "white")
    paper.alpha_composite(opaque)
    return paper.convert("RGB")


def _address(image: "Image.Image") -> str:
    image.thumbnail((SIDE, SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=QUALITY)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()
