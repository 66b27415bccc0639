"""Decoding of image files, the same for training and for the pictures of a report."""

from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from errata.errors import DataError

if TYPE_CHECKING:
    from PIL import Image

File = str | Path | IO[bytes]
Size = tuple[int, int]

# The only formats that are opened: Pillow hands PostScript to Ghostscript, which runs what the file says.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
ALPHA_MODES = ("RGBA", "LA", "PA", "La", "RGBa")
ORIENTATION = 0x0112  # the EXIF tag for the orientation of the camera
# The transpositions of Pillow by orientation: FLIP_LEFT_RIGHT, ROTATE_180, FLIP_TOP_BOTTOM, TRANSPOSE, ROTATE_270,
# TRANSVERSE, ROTATE_90.
TRANSPOSITIONS = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}
FIRST_SIDEWAYS = 5  # from here on, width and height are exchanged


def open_image(file: File) -> "Image.Image":
    """Open an image; its pixels are not read. Only regular files are opened: reading a FIFO would never end."""
    from PIL import Image

    if isinstance(file, str | Path) and Path(file).exists() and not Path(file).is_file():
        raise DataError("not a regular file")
    return Image.open(file, formats=FORMATS)


def decode_image(file: File, side: int | None = None) -> "Image.Image":
    """An image in 8-bit RGB, upright as its EXIF data states, on white where it is transparent.

    side: the longer side that is needed; a JPEG is decoded at the smallest size that is not below it, which is faster.
    """
    with open_image(file) as image:
        if side is not None:
            image.draft("RGB", (side, side))
        return _in_rgb(image)


def checked_size(file: File) -> Size:
    """Width and height of the upright image, which is decoded to find damage: a JPEG at an eighth of its size."""
    with open_image(file) as image:
        width, height = image.size
        image.draft("RGB", (1, 1))
        _in_rgb(image)
        if image.format == "TIFF":  # which Pillow turns upright by itself, when it is loaded
            return image.size
        return (height, width) if _orientation(image) >= FIRST_SIDEWAYS else (width, height)


def _in_rgb(image: "Image.Image") -> "Image.Image":
    image.load()
    turn = TRANSPOSITIONS.get(_orientation(image))
    upright = image if turn is None else image.transpose(turn)  # type: ignore[arg-type]
    if upright.mode.startswith(("I", "F")):
        return _eight_bits(upright, image.format == "PNG").convert("RGB")
    is_transparent = upright.mode in ALPHA_MODES or "transparency" in upright.info
    return _on_white(upright) if is_transparent else upright.convert("RGB")


def _orientation(image: "Image.Image") -> int:
    """The EXIF orientation from 1 to 8; 1, upright, if it is missing or damaged."""
    try:
        orientation: Any = image.getexif().get(ORIENTATION)
    except Exception:  # Pillow raises many kinds of errors for damaged EXIF data; the pixels are fine
        return 1
    return orientation if orientation in TRANSPOSITIONS else 1


def _eight_bits(image: "Image.Image", is_png: bool) -> "Image.Image":
    """A grey image of 16 or 32 bits per pixel as one of 8 bits, with one scale per type of image.

    16 bits are scaled from 0..65535. For 32 bits the range is the first of 0..1 (fractions), 0..255 and 0..65535 that
    holds all pixels, otherwise from the smallest to the largest pixel. is_png: its pixels have 16 bits in any mode.
    """
    from PIL import Image

    pixels = np.asarray(image)
    values = np.nan_to_num(pixels.astype(np.float64), posinf=0.0, neginf=0.0)
    low, high = 0.0, 65535.0
    if image.mode in ("I", "F") and not is_png:
        usual = (1.0, 255.0, 65535.0) if image.mode == "F" else (255.0, 65535.0)
        smallest, largest = float(values.min()), float(values.max())
        fitting = [limit for limit in usual if smallest >= 0 and largest <= limit]
        low, high = (0.0, fitting[0]) if fitting else (smallest, largest)
    scaled = np.round((values - low) * (255 / max(high - low, 1e-9))).astype(np.uint8)
    if "transparency" in image.info:  # one of the grey values
        scaled[pixels == image.info["transparency"]] = 255
    return Image.fromarray(scaled)


def _on_white(image: "Image.Image") -> "Image.Image":
    from PIL import Image

    background = Image.new("RGBA", image.size, "white")
    background.alpha_composite(image.convert("RGBA"))
    return background.convert("RGB")
