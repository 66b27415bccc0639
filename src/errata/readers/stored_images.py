"""Images that are kept in a column of a table, as Hugging Face `datasets` saves them, as a user's own data."""

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
from errata.readers.images import Size, all_small, pixels_of, read_sizes, refuse_broken, skipped, span
from errata.readers.table_rows import labelled_rows
from errata.readers.user_data import Rows, UserData
from errata.wording import counted, listed

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from PIL import Image

WITH_ALPHA = ("RGBA", "LA", "PA", "La", "RGBa")


@dataclass(frozen=True, eq=False)
class StoredImages:
    """N images of any size, each decoded when it is asked for: `images[place]` is pixels (3, H, W).

    column: all images of the table, encoded (`bytes`) or in files (`path`) of a folder. rows (N,): which of them.
    sizes: width and height of each of the N.
    """

    column: "pa.ChunkedArray"
    folder: Path
    rows: Rows
    sizes: tuple[Size, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, places: Any) -> Any:
        """Pixels (3, H, W) of one sample, or fewer images by their places (n,)."""
        if isinstance(places, int | np.integer):
            return np.asarray(self.image(int(places))).transpose(2, 0, 1)
        chosen = np.arange(len(self))[places]
        return replace(self, rows=self.rows[chosen], sizes=tuple(self.sizes[place] for place in chosen.tolist()))

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        return (self[place] for place in range(len(self)))

    def image(self, place: int) -> "Image.Image":
        """A sample in RGB, upright, on white where it is transparent."""
        from PIL import Image, ImageOps

        with Image.open(self.file(int(self.rows[place]))) as image:
            upright: Image.Image = ImageOps.exif_transpose(image)
            if upright.mode not in WITH_ALPHA and "transparency" not in upright.info:
                return upright.convert("RGB")
            paper = Image.new("RGBA", upright.size, "white")
            paper.alpha_composite(upright.convert("RGBA"))
            return paper.convert("RGB")

    def file(self, row: int) -> io.BytesIO:
        """The encoded image in a row of the table."""
        return io.BytesIO(self._encoded(row))

    def digests(self) -> Iterator[bytes]:
        """What tells the N images apart."""
        return (hashlib.blake2b(self._encoded(row), digest_size=16).digest() for row in self.rows.tolist())

    def _encoded(self, row: int) -> bytes:
        stored = self.column[row].as_py() or {}
        content, path = stored.get("bytes"), stored.get("path")
        if content is not None:
            return bytes(content)
        if path is None:
            raise DataError("there is none")
        return Path(self.folder, path).read_bytes()


def from_stored_images(
    columns: "Mapping[str, pa.ChunkedArray]",
    frame: "pd.DataFrame",
    label: Any,
    id: Any,  # noqa: A002
    folder: Path,
    skip_bad: bool,
) -> UserData:
    """Images in one of the columns of a table, with labels and ids in the others (`frame`) or given beside it."""
    require_pillow(f"reading the images in {folder}")
    if len(columns) > 1:
        raise InputError(f"{folder} has images in the columns {listed(columns)}: keep one, with remove_columns()")
    ((name, column),) = columns.items()
    stored = StoredImages(column, folder, np.arange(len(column)))
    numbers = {f"row {row}": row for row in range(len(column))}
    sizes, broken = read_sizes(list(numbers), lambda row: stored.file(numbers[row]), upright=True)
    if not skip_bad:
        refuse_broken(broken, lambda row: f"the image in {row} of column {name!r} of {folder}")
    if not sizes:
        raise DataError(f"{folder} holds no image that can be read")
    readable = np.array([number for row, number in numbers.items() if row not in broken])
    rows = labelled_rows(frame, label, id, str(folder), readable)
    size_of = dict(zip(readable.tolist(), sizes, strict=True))
    kept = tuple(size_of[row] for row in rows.encoded.rows.tolist())
    images = replace(stored, rows=rows.encoded.rows, sizes=kept)
    others = [other for other in rows.frame.columns if other not in rows.taken]
    beside = [f"the images are learned from, and {counted(len(others), 'other column')} left out: {listed(others)}"]
    return UserData(
        kind="images",
        inputs=pixels_of(len(images), kept[0], images.image) if all_small(kept) else images,
        labels=rows.encoded.labels,
        classes=rows.encoded.classes,
        ids=rows.ids,
        rows=rows.encoded.rows,
        columns={**rows.taken, name: f"{counted(len(images), 'image')} {span(kept)}"},
        remarks=(*rows.remarks, *skipped(broken), *rows.encoded.remarks, *(beside if others else [])),
    )
