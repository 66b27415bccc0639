"""What a reviewer looks at: the picture, the text or the row of each suspicious sample, as far as there is room."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.readers.user_data import UserData
from errata.report.shown_tables import table_of
from errata.report.thumbnails import missing_pillow, pictures, way_to_files
from errata.report.training_curves import rows_of
from errata.report.unlearned import unlearned_of

ROOM = 12_000_000  # characters of contents: a page that every browser opens


def contents_of(
    data: UserData | None, ids: NDArray[Any], listed: int, classes: Sequence[str], folder: Path
) -> dict[str, Any]:
    """What of the samples `ids` (n,), the first of those listed, can be seen.

    `form` is picture, columns or nothing; `rows` are of the first samples, as many as there is room for.
    """
    if data is None:
        return _nothing(
            "The data were not at hand when this page was made: samples are known by their ids alone. To see them, "
            "name the data: errata find ... --data, or errata.find(dynamics, data=...)."
        )
    places = rows_of(data.ids, ids)
    if data.kind not in ("images", "image files"):
        table = table_of(data, places, classes).beside(unlearned_of(data, places))
        rows = _that_fit(table.rows)
        shown = {"form": "columns", "rows": rows, "columns": table.columns, "typical": table.typical}
        return shown | {"notes": [*table.notes, *_cut(len(rows), listed, "The contents of samples")]}
    if missing_pillow():
        return _nothing("Pictures are drawn with Pillow, which is not installed: pip install 'errata[data]'.")
    rows = _that_fit(pictures(data, places))
    lost = rows.count("")
    unread = [f"{lost:,} of the image files could not be read when this page was made."] if lost else []
    return {
        "form": "picture",
        "rows": rows,
        "pixels": isinstance(data.inputs, np.ndarray) and data.inputs.ndim == 4,  # each is shown as a square
        "files": None if data.root is None else way_to_files(data.root, folder),
        "notes": [*unread, *_cut(len(rows), listed, "Pictures")],
    }


def _nothing(why: str) -> dict[str, Any]:
    return {"form": "nothing", "rows": [], "notes": [why]}


def _that_fit(rows: Iterable[Any]) -> list[Any]:
    """The first rows, up to the one with which the room is filled."""
    taken: list[Any] = []
    length = 0
    for row in rows:
        taken.append(row)
        length += len(row) if isinstance(row, str) else sum(map(len, row))
        if length > ROOM:
            break
    return taken


def _cut(shown: int, listed: int, what: str) -> list[str]:
    if shown == listed:
        return []
    return [f"{what} are in this page for the {shown:,} most suspicious of them, so that it opens quickly."]
