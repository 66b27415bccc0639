"""What the page shows of each sample: a picture, a text or the row of a table, up to a limit on the page's size."""

import base64
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.ids import match_ids
from errata.readers.image_files import image_of, on_white
from errata.readers.user_data import UserData
from errata.report.table_contents import table_contents
from errata.wording import counted

if TYPE_CHECKING:
    from PIL import Image

MOST_CHARACTERS = 12_000_000  # of contents; larger pages open slowly
LONGEST_SIDE = 128  # pixels of a thumbnail
QUALITY = 80
BLOCK = 256  # thumbnails computed before the caller checks whether more fit


def sample_contents(
    data: UserData | None, ids: NDArray[Any], listed: int, classes: Sequence[str], folder: Path
) -> dict[str, Any]:
    """The contents of the samples `ids` (n,), which are the first of the `listed` samples.

    `form` is picture, columns or nothing. `rows` holds the first samples, as many as fit.
    """
    if data is None:
        return _nothing(
            "The data were not available, so samples are shown by their ids only. To see them, pass the data: "
            "errata find ... --data, or errata.find(dynamics, data=...)."
        )
    places = match_ids(data.ids, ids)
    if data.kind not in ("images", "image files"):
        columns, every_row, typical, notes = table_contents(data, places, classes)
        rows = _first_that_fit(every_row)
        notes = [*notes, *_limit_note(len(rows), listed, "The contents of samples")]
        return {"form": "columns", "rows": rows, "columns": columns, "typical": typical, "notes": notes}
    if find_spec("PIL") is None:
        return _nothing("Pictures need Pillow, which is not installed: pip install 'errata[data]'.")
    rows = _first_that_fit(_thumbnails(data, places))
    unreadable = rows.count("")
    note = [f"{counted(unreadable, 'image file')} could not be read for this page."] if unreadable else []
    return {
        "form": "picture",
        "rows": rows,
        "pixels": isinstance(data.inputs, np.ndarray) and data.inputs.ndim == 4,  # small images, drawn as sharp squares
        "files": None if data.root is None else _relative_url(data.root, folder),
        "notes": [*note, *_limit_note(len(rows), listed, "Pictures")],
    }


def _nothing(reason: str) -> dict[str, Any]:
    return {"form": "nothing", "rows": [], "notes": [reason]}


def _first_that_fit(rows: Iterable[Any]) -> list[Any]:
    """The first rows, up to and including the one that exceeds the limit."""
    taken: list[Any] = []
    length = 0
    for row in rows:
        taken.append(row)
        length += len(row) if isinstance(row, str) else sum(map(len, row))
        if length > MOST_CHARACTERS:
            break
    return taken


def _limit_note(shown: int, listed: int, what: str) -> list[str]:
    if shown == listed:
        return []
    return [f"{what} are included for the {shown:,} most suspicious samples only, so that this page opens quickly."]


def _thumbnails(data: UserData, places: NDArray[np.int64]) -> Iterator[str]:
    """A data URI per sample at the rows `places` (n,), computed in blocks; "" for a file that cannot be read."""

    def thumbnail(place: int) -> str:
        return _from_file(data.root / data.inputs[place]) if data.root else _data_uri(image_of(data.inputs[place]))

    with ThreadPoolExecutor() as pool:
        for start in range(0, len(places), BLOCK):
            yield from pool.map(thumbnail, places[start : start + BLOCK].tolist())


def _relative_url(root: Path, folder: Path) -> str | None:
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
