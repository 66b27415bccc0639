"""The ranking as Label Studio tasks: the suggested label is a prediction, the given label is shown with the sample."""

import base64
import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.files import replace_atomically
from errata.readers import UserData
from errata.readers.image_files import image_of
from errata.review.exports.export_samples import (
    MEASURES,
    ExportSamples,
    data_of,
    json_value,
    prepare_folder,
    write_json,
)

if TYPE_CHECKING:
    from errata.finding.found import Found

TASKS, CONFIG = "tasks.json", "config.xml"
CONTROL, OBJECT = "label", "sample"  # names of the two parts of the labelling interface
LOCAL_FILES = "/data/local-files/?d="  # where Label Studio serves local files
MAX_BUTTONS = 30  # with more classes, the interface shows a list instead of buttons


def write_label_studio(
    found: "Found",
    folder: str | Path,
    *,
    data: UserData | None = None,
    top: int | None = None,
    images_at: str | None = None,
) -> Path:
    """Write tasks.json (to import) and config.xml (the labelling interface for these tasks)."""
    target = Path(folder)
    config = label_studio_config(found, data)
    tasks = label_studio_tasks(found, data=data, top=top, images_at=images_at)
    prepare_folder(target, {TASKS, CONFIG})
    replace_atomically(target / CONFIG, lambda file: file.write(config.encode()))
    write_json(target / TASKS, tasks)
    return target


def label_studio_tasks(
    found: "Found", *, data: UserData | None = None, top: int | None = None, images_at: str | None = None
) -> list[dict[str, Any]]:
    """One task per sample, most suspicious first.

    data: the ranked data, if `found` does not hold them. images_at: the URL of the image folder. Default: the URL at
    which Label Studio serves the folder, if the folder is in its document root.
    """
    samples = ExportSamples.select(found, data, top)
    _, field = _tag_and_field(samples.data)
    version = f"errata {found.summary['version']} {found.summary['method']}"
    contents = _contents(samples.data, samples.positions, images_at)
    return [_task(row, field, content, version) for row, content in zip(samples.rows(), contents, strict=True)]


def label_studio_config(found: "Found", data: UserData | None = None) -> str:
    """The labelling interface: the given label, a choice of the classes, and the sample."""
    tag, field = _tag_and_field(data_of(found, data))
    dynamics = found.dynamics
    names = list(dict.fromkeys(str(dynamics.class_name(number)) for number in range(dynamics.num_classes)))
    view = ET.Element("View")
    ET.SubElement(view, "Header", value="Given label: $given_label")
    layout = "inline" if len(names) <= MAX_BUTTONS else "select"
    choices = ET.SubElement(
        view, "Choices", name=CONTROL, toName=OBJECT, choice="single", required="true", layout=layout
    )
    for name in names:
        ET.SubElement(choices, "Choice", value=name)
    # The sample is below the choices: a large image above would push them off the screen.
    ET.SubElement(view, tag, name=OBJECT, value=f"${field}")
    ET.indent(view)
    return ET.tostring(view, encoding="unicode") + "\n"


def _task(row: dict[str, Any], field: str, content: Any, version: str) -> dict[str, Any]:
    suggestion = {"from_name": CONTROL, "to_name": OBJECT, "type": "choices", "value": {"choices": [row["suggested"]]}}
    measures = {name: row[name] for name in MEASURES}
    return {
        "data": {field: content, "errata_id": row["id"], "given_label": row["label"]},
        "predictions": [{"model_version": version, "score": row["p_wrong"], "result": [suggestion]}],
        "meta": {"rank": row["rank"], "given_label": row["label"], **measures},
    }


def _tag_and_field(data: UserData) -> tuple[str, str]:
    """The tag of the labelling interface that shows a sample, and the field of a task that holds it."""
    if data.kind in ("images", "image files"):
        return "Image", "image"
    return ("Table", "row") if _text_column(data) is None else ("Text", "text")


def _text_column(data: UserData) -> str | None:
    """The only text column of text data; None for tables and several texts."""
    texts = [name for name, treatment in data.columns.items() if treatment == "text"]
    return texts[0] if data.kind == "text" and len(texts) == 1 else None


def _contents(data: UserData, positions: NDArray[np.int64], images_at: str | None) -> Iterable[Any]:
    """What the reviewer sees of the samples at these positions (n,): an image URL, a text, or a row by column."""
    inputs, text = data.inputs, _text_column(data)
    if data.root is not None:
        prefix = f"{LOCAL_FILES}{quote(data.root.resolve().name)}/" if images_at is None else images_at
        return [prefix + quote(path) for path in inputs[positions].tolist()]
    if data.kind == "images":
        return map(_data_url, inputs[positions])
    if text is not None:
        return [json_value(value) or "" for value in inputs[text].iloc[positions]]
    if hasattr(inputs, "iloc"):
        records = inputs.iloc[positions].to_dict("records")
        return [{str(name): json_value(value) for name, value in record.items()} for record in records]
    return [_numbered_columns(inputs[[position]]) for position in positions.tolist()]


def _numbered_columns(row: Any) -> dict[str, Any]:
    """A row (1, D) without column names. Zeros of a sparse row are left out."""
    columns = row.indices if hasattr(row, "tocsr") else np.arange(row.shape[1])
    values = row.data if hasattr(row, "tocsr") else row[0]
    return {f"column {column}": json_value(value) for column, value in zip(columns.tolist(), values, strict=True)}


def _data_url(pixels: NDArray[np.uint8]) -> str:
    """The pixels (3, H, W) as a URL that contains the whole image."""
    buffer = io.BytesIO()
    image_of(pixels).save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
