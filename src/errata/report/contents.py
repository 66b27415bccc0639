"""What the page shows of each sample, up to a limit on the page's size: a picture, a text or a row, and its losses."""

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

from errata.core.measures import CE
from errata.dynamics.ids import match_ids
from errata.dynamics.store import Dynamics
from errata.image_decoding import decode_image
from errata.readers.image_files import image_of
from errata.readers.user_data import UserData
from errata.report.table_contents import table_contents
from errata.wording import counted

if TYPE_CHECKING:
    from PIL import Image

MOST_CHARACTERS = 12_000_000  # of contents; larger pages open slowly
LONGEST_SIDE = 128  # pixels of a thumbnail
QUALITY = 80
BLOCK = 256  # thumbnails computed before the caller checks whether more fit
MOST_EPOCHS = 60  # points of a loss curve
TYPICAL_SAMPLES = 2_000  # for the median curve, evenly spaced over the ranking
HIGHEST = 254  # height of a loss of `top` or more
MISSING = 255  # the sample was not recorded at this epoch


def sample_contents(
    data: UserData | None, ids: NDArray[Any], listed: int, classes: Sequence[str], folder: Path | None
) -> dict[str, Any]:
    """The contents of the samples `ids` (n,), which are the first of the `listed` samples in the order of a review.

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
    rows = _first_that_fit(thumbnails(data, places))
    unreadable = rows.count("")
    note = [f"{counted(unreadable, 'image file')} could not be read for this page."] if unreadable else []
    return {
        "form": "picture",
        "rows": rows,
        "pixels": isinstance(data.inputs, np.ndarray) and data.inputs.ndim == 4,  # small images, drawn as sharp squares
        "files": None if data.root is None or folder is None else _relative_url(data.root, folder),
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
    return [f"{what} are included for the first {shown:,} samples of the queue only, so that this page opens quickly."]


def thumbnails(data: UserData, places: NDArray[np.int64]) -> Iterator[str]:
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
    try:
        return _data_uri(decode_image(path, LONGEST_SIDE))
    except Exception:  # decoders raise many kinds of errors for a file that has changed; the page reports how many
        return ""


def _data_uri(image: "Image.Image") -> str:
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=QUALITY)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def loss_curves(dynamics: Dynamics, ids: NDArray[Any], ranked: NDArray[Any]) -> dict[str, Any] | None:
    """The cross-entropy of the given label at up to MOST_EPOCHS epochs, for the samples `ids` (n,).

    `typical` is the median over samples of all ranks; `ranked` (N,) holds all ids in order. Heights are bytes: 0 is no
    loss, HIGHEST is `top` or more. None if the dynamics are running sums without single epochs.
    """
    if dynamics.logits is None:
        return None
    epochs = np.unique(np.linspace(0, dynamics.epochs - 1, min(MOST_EPOCHS, dynamics.epochs)).round().astype(np.int64))
    spread = ranked[:: max(1, -(-len(ranked) // TYPICAL_SAMPLES))]
    losses = losses_at(dynamics, match_ids(dynamics.ids, ids), epochs)
    typical = np.nanmedian(losses_at(dynamics, match_ids(dynamics.ids, spread), epochs), axis=0)
    top = _top(losses)
    return {
        "epochs": (epochs + 1).tolist(),
        "top": top,
        "heights": base64.b64encode(loss_heights(losses, top).tobytes()).decode(),
        "typical": loss_heights(typical, top).tolist(),
        "typicalOf": len(spread),
    }


def losses_at(dynamics: Dynamics, rows: NDArray[np.int64], epochs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Losses (n, epochs); NaN where a sample was not recorded."""
    assert dynamics.logits is not None
    losses = np.empty((len(rows), len(epochs)))
    for column, epoch in enumerate(epochs.tolist()):
        logits = np.array(dynamics.logits[epoch][rows])
        recorded = ~np.isnan(logits).any(axis=1)
        logits[~recorded] = 0
        losses[:, column] = np.where(recorded, CE(logits, dynamics.labels[rows]), np.nan)
    return losses


def _top(losses: NDArray[np.float64]) -> float:
    """The top of the axis: 1.2 times the highest median of a curve, so that one extreme epoch flattens no curve."""
    recorded = losses[~np.isnan(losses).all(axis=1)]
    return float(f"{1.2 * max(np.nanmedian(recorded, axis=1).max(), 1e-3):.3g}") if len(recorded) else 1.0


def loss_heights(losses: NDArray[np.float64], top: float) -> NDArray[np.uint8]:
    """Losses as bytes: 0 is no loss, HIGHEST is `top` or more, MISSING was not recorded."""
    heights = np.clip(losses / top, 0, 1) * HIGHEST
    return np.where(np.isnan(heights), MISSING, heights.round()).astype(np.uint8)
