"""A dataset that FiftyOne opens: images with the given and the suggested label, and how probably the given is wrong."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from errata.dynamics.files import replace_atomically
from errata.errors import InputError
from errata.extras import require_pillow
from errata.readers import UserData
from errata.review.exports.samples import Chosen, check_target, choose, plain

if TYPE_CHECKING:
    from errata.finding.found import Found

SAMPLES, MEDIA = "samples.json", "data"


def write_fiftyone(found: "Found", folder: str | Path, *, data: UserData | None = None, top: int | None = None) -> Path:
    """Write samples.json, which names the image files where they are; images of an array are written beside it."""
    target = Path(folder)
    chosen = _images(found, data, top)
    check_target(target, {SAMPLES, MEDIA})
    if chosen.data.root is None:
        _write_images(chosen, target / MEDIA)
    text = json.dumps({"samples": _samples(chosen)}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    replace_atomically(target / SAMPLES, lambda file: file.write(text.encode()))
    return target


def fiftyone_samples(found: "Found", *, data: UserData | None = None, top: int | None = None) -> list[dict[str, Any]]:
    """A sample an image, most suspicious first, as FiftyOne keeps them in samples.json."""
    return _samples(_images(found, data, top))


def _images(found: "Found", data: UserData | None, top: int | None) -> Chosen:
    chosen = choose(found, data, top)
    if chosen.data.kind not in ("images", "image files"):
        raise InputError(f"FiftyOne shows images, and these samples are {chosen.data.kind}: export to label-studio")
    return chosen


def _samples(chosen: Chosen) -> list[dict[str, Any]]:
    return [_sample(row, file) for row, file in zip(chosen.rows(), _files(chosen), strict=True)]


def _sample(row: dict[str, Any], file: str) -> dict[str, Any]:
    return {
        "filepath": file,
        "tags": [],
        "errata_id": str(row["id"]),
        "ground_truth": _classification(row["label"]),
        "suggested": _classification(row["suggested"]),
        "mistakenness": float(row["p_wrong"]),  # what FiftyOne's own estimate is called
        "rank": int(row["rank"]),
        **{name: plain(row[name]) for name in ("p_wrong", "agree", "mean_loss", "score")},
    }


def _classification(label: Any) -> dict[str, Any]:
    return {"_cls": "Classification", "label": str(label)}


def _files(chosen: Chosen) -> list[str]:
    """Where the images lie: anywhere, or in the folder of the export."""
    if chosen.data.root is None:
        return [f"{MEDIA}/{place}.png" for place in chosen.places.tolist()]
    root = chosen.data.root.resolve()
    return [str(root / path) for path in chosen.data.inputs[chosen.places].tolist()]


def _write_images(chosen: Chosen, folder: Path) -> None:
    require_pillow("an export of images")
    from PIL import Image

    folder.mkdir(exist_ok=True)
    for place in chosen.places.tolist():
        pixels = np.ascontiguousarray(chosen.data.inputs[place].transpose(1, 2, 0))
        Image.fromarray(pixels).save(folder / f"{place}.png")
