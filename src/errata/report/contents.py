"""What the page shows of each sample: a picture, a text or the row of a table, up to a limit on the page's size."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.ids import match_ids
from errata.readers.user_data import UserData
from errata.report.table_contents import excluded_columns, training_columns
from errata.report.thumbnails import pillow_is_missing, relative_address, thumbnails
from errata.wording import counted

MOST_CHARACTERS = 12_000_000  # of contents; larger pages open slowly


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
        table = training_columns(data, places, classes).beside(excluded_columns(data, places))
        rows = _first_that_fit(table.rows)
        shown = {"form": "columns", "rows": rows, "columns": table.columns, "typical": table.typical}
        return shown | {"notes": [*table.notes, *_limit_note(len(rows), listed, "The contents of samples")]}
    if pillow_is_missing():
        return _nothing("Pictures need Pillow, which is not installed: pip install 'errata[data]'.")
    rows = _first_that_fit(thumbnails(data, places))
    unreadable = rows.count("")
    note = [f"{counted(unreadable, 'image file')} could not be read for this page."] if unreadable else []
    return {
        "form": "picture",
        "rows": rows,
        "pixels": isinstance(data.inputs, np.ndarray) and data.inputs.ndim == 4,  # small images, drawn as sharp squares
        "files": None if data.root is None else relative_address(data.root, folder),
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
