"""Mosaics: many small images as one lossless picture, row by row, with their labels beside."""

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.datasets.spec import Arrays, Raw
from errata.errors import DataError
from errata.extras import require_pillow
from errata.wording import one_line

TILE = 32
LABELS = "labels.npz"


def mosaic_names(train: int, test: int) -> tuple[str, ...]:
    """The files of a dataset that is kept in so many mosaics a part."""
    parts = (("train", train), ("test", test))
    return (*(f"{part}_{number:02d}.webp" for part, count in parts for number in range(count)), LABELS)


def read_mosaics(paths: Sequence[Path]) -> Raw:
    """Images and labels of files named as `mosaic_names` does."""
    *pictures, labels_path = paths
    arrays: Arrays = {}
    for part in ("train", "test"):
        labels = _read_labels(labels_path, part)
        images = np.concatenate([unmosaic(path) for path in pictures if path.name.startswith(part)])
        if len(images) != len(labels):
            raise DataError(f"{labels_path} has {len(labels)} {part} labels for {len(images)} images")
        arrays |= {f"{part}_inputs": images, f"{part}_labels": labels}
    return Raw(arrays)


def unmosaic(path: Path) -> NDArray[np.uint8]:
    """The images (n, 3, 32, 32) of one mosaic."""
    require_pillow(f"reading {path}")
    from PIL import Image

    try:
        with Image.open(path) as picture:
            pixels = np.asarray(picture.convert("RGB"))
    except Exception as error:  # what a decoder raises for a broken file is anything from OSError to SyntaxError
        raise DataError(f"{path} cannot be read: {one_line(error)}") from error
    height, width, _ = pixels.shape
    if height % TILE or width % TILE:
        raise DataError(f"{path} is {width} x {height} pixels, not whole tiles of {TILE}")
    tiles = pixels.reshape(height // TILE, TILE, width // TILE, TILE, 3)
    return tiles.transpose(0, 2, 4, 1, 3).reshape(-1, 3, TILE, TILE)


def _read_labels(path: Path, part: str) -> NDArray[np.int64]:
    try:
        with np.load(path) as file:
            labels: NDArray[Any] = file[part]
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} cannot be read: {one_line(error)}") from error
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(f"{path}: {part} must be whole numbers (N,), not {labels.dtype} {labels.shape}")
    return labels.astype(np.int64)
