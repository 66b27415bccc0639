"""Images in a column of a table, as Hugging Face `datasets` saves them, as user data."""

import hashlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.errors import DataError, InputError
from errata.extras import require_pillow
from errata.readers.data_frames import labelled_table
from errata.readers.image_files import (
    Size,
    fit_in_memory,
    on_white,
    pixels_of,
    raise_unreadable,
    read_sizes,
    size_range,
    unreadable_remarks,
)
from errata.readers.user_data import Rows, UserData
from errata.wording import counted, listed

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from PIL import Image

ALPHA_MODES = ("RGBA", "LA", "PA", "La", "RGBa")


@dataclass(frozen=True, eq=False)
class StoredImages:
    """N images of any size that are decoded on access: `images[index]` gives pixels (3, H, W).

    column: all images of the table, as encoded `bytes` or as a `path` in `folder`. rows (N,): the rows of the table.
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
        from PIL import Image, ImageOps

        with Image.open(self.file(int(self.rows[index]))) as image:
            upright: Image.Image = ImageOps.exif_transpose(image)
            if upright.mode not in ALPHA_MODES and "transparency" not in upright.info:
                return upright.convert("RGB")
            return on_white(upright)

    def file(self, row: int) -> io.BytesIO:
        """The encoded image in a row of the table."""
        return io.BytesIO(self._encoded(row))

    def digests(self) -> Iterator[bytes]:
        """A hash of each of the N encoded images."""
        return (hashlib.blake2b(self._encoded(row), digest_size=16).digest() for row in self.rows.tolist())

    def _encoded(self, row: int) -> bytes:
        stored = self.column[row].as_py() or {}
        content, path = stored.get("bytes"), stored.get("path")
        if content is not None:
            return bytes(content)
        if path is None:
            raise DataError("no image")
        return Path(self.folder, path).read_bytes()


def from_stored_images(
    columns: "Mapping[str, pa.ChunkedArray]",
    frame: "pd.DataFrame",
    label: Any,
    id: Any,  # noqa: A002
    folder: Path,
    skip_bad: bool,
) -> UserData:
    """User data from a table. columns: the columns with images. frame: the other columns."""
    require_pillow(f"reading the images in {folder}")
    if len(columns) > 1:
        raise InputError(f"{folder} has images in the columns {listed(columns)}. Keep one, with remove_columns()")
    ((name, column),) = columns.items()
    stored = StoredImages(column, folder, np.arange(len(column)))
    numbers = {f"row {row}": row for row in range(len(column))}
    sizes, errors = read_sizes(list(numbers), lambda row: stored.file(numbers[row]), upright=True)
    if not skip_bad:
        raise_unreadable(errors, lambda row: f"The image in {row} of column {name!r} of {folder}")
    if not sizes:
        raise DataError(f"{folder} has no readable image")
    readable = np.array([number for row, number in numbers.items() if row not in errors])
    table = labelled_table(frame, label, id, str(folder), readable)
    size_of = dict(zip(readable.tolist(), sizes, strict=True))
    sizes = [size_of[row] for row in table.encoded.rows.tolist()]
    images = replace(stored, rows=table.encoded.rows, sizes=tuple(sizes))
    others = [other for other in table.frame.columns if other not in table.roles]
    remarks = [f"only the images are used; {counted(len(others), 'other column')} left out: {listed(others)}"]
    return UserData(
        kind="images",
        inputs=pixels_of(len(images), sizes[0], images.image) if fit_in_memory(sizes) else images,
        labels=table.encoded.labels,
        classes=table.encoded.classes,
        ids=table.ids,
        rows=table.encoded.rows,
        columns={**table.roles, name: f"{counted(len(images), 'image')} {size_range(sizes)}"},
        remarks=(*table.remarks, *unreadable_remarks(errors), *table.encoded.remarks, *(remarks if others else [])),
    )
