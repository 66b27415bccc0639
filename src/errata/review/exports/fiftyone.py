"""The ranking as a FiftyOne dataset: images with the given label, the suggested label and the scores."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.errors import InputError
from errata.readers import UserData
from errata.readers.image_files import image_of
from errata.review.exports.export_samples import MEASURES, ExportSamples, prepare_folder, write_json

if TYPE_CHECKING:
    from errata.finding.found import Found

SAMPLES, IMAGES = "samples.json", "data"


def write_fiftyone(found: "Found", folder: str | Path, *, data: UserData | None = None, top: int | None = None) -> Path:
    """Write samples.json with the paths of the image files. Images from an array are saved next to it."""
    target = Path(folder)
    images = _select_images(found, data, top)
    prepare_folder(target, {SAMPLES, IMAGES})
    if images.data.root is None:
        (target / IMAGES).mkdir(exist_ok=True)
        for position, path in zip(images.positions.tolist(), _paths(images), strict=True):
            image_of(images.data.inputs[position]).save(target / path)
    write_json(target / SAMPLES, {"samples": _samples(images)})
    return target


def fiftyone_samples(found: "Found", *, data: UserData | None = None, top: int | None = None) -> list[dict[str, Any]]:
    """The content of samples.json: one FiftyOne sample per image, most suspicious first."""
    return _samples(_select_images(found, data, top))


def _select_images(found: "Found", data: UserData | None, top: int | None) -> ExportSamples:
    samples = ExportSamples.select(found, data, top)
    if samples.data.kind not in ("images", "image files"):
        raise InputError(f"FiftyOne shows images, and these samples are {samples.data.kind}. Use --to label-studio.")
    return samples


def _samples(images: ExportSamples) -> list[dict[str, Any]]:
    return [
        {
            "filepath": path,
            "tags": [],
            "errata_id": row["id"],
            "ground_truth": {"_cls": "Classification", "label": row["label"]},
            "suggested": {"_cls": "Classification", "label": row["suggested"]},
            "mistakenness": row["p_wrong"],  # the name of FiftyOne's own estimate
            "rank": row["rank"],
            **{name: row[name] for name in MEASURES},
        }
        for row, path in zip(images.rows(), _paths(images), strict=True)
    ]


def _paths(images: ExportSamples) -> list[str]:
    """Full paths of image files, or paths in the export folder for images from an array."""
    if images.data.root is None:
        return [f"{IMAGES}/{position}.png" for position in images.positions.tolist()]
    root = images.data.root.resolve()
    return [str(root / path) for path in images.data.inputs[images.positions].tolist()]
