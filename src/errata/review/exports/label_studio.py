"""Tasks for Label Studio: the suggested label as a prediction, the given one beside the sample."""

import base64
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.files import replace_atomically
from errata.extras import require_pillow
from errata.readers import UserData
from errata.review.exports.samples import check_target, choose, class_names, data_of, plain

if TYPE_CHECKING:
    from errata.finding.found import Found

TASKS, CONFIG = "tasks.json", "config.xml"
CONTROL, OBJECT = "label", "sample"  # how the two parts of the labelling interface are called
LOCAL_FILES = "/data/local-files/?d="  # what Label Studio serves from its own machine
MOST_BUTTONS = 30  # classes; more of them are a list to choose from

Places = NDArray[np.int64]


@dataclass(frozen=True)
class _Content:
    """What a reviewer looks at: a tag of the labelling interface, the field of a task that it shows, and its values."""

    tag: str
    field: str
    values: Callable[[Places], Iterable[Any]]  # of the samples at some places, in their order


def write_label_studio(
    found: "Found",
    folder: str | Path,
    *,
    data: UserData | None = None,
    top: int | None = None,
    images_at: str | None = None,
) -> Path:
    """Write tasks.json, to be imported, and config.xml, the labelling interface that goes with it."""
    target = Path(folder)
    config = label_studio_config(found, data)
    tasks = label_studio_tasks(found, data=data, top=top, images_at=images_at)
    check_target(target, {TASKS, CONFIG})
    text = json.dumps(tasks, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    replace_atomically(target / CONFIG, lambda file: file.write(config.encode()))
    replace_atomically(target / TASKS, lambda file: file.write(text.encode()))
    return target


def label_studio_tasks(
    found: "Found", *, data: UserData | None = None, top: int | None = None, images_at: str | None = None
) -> list[dict[str, Any]]:
    """A task a sample, most suspicious first.

    data: what was ranked, where `found` does not hold it. images_at: the address of the folder of images, by default
    where Label Studio serves it from, if the folder lies in its document root.
    """
    chosen = choose(found, data, top)
    content = _content(chosen.data, images_at)
    made_by = f"errata {found.summary['version']} {found.summary['method']}"
    values = content.values(chosen.places)
    return [_task(row, content.field, value, made_by) for row, value in zip(chosen.rows(), values, strict=True)]


def label_studio_config(found: "Found", data: UserData | None = None) -> str:
    """The labelling interface: the label that was given, a choice among the classes, and the sample."""
    content = _content(data_of(found, data), None)
    names = class_names(found)
    view = ET.Element("View")
    ET.SubElement(view, "Header", value="Given label: $given_label")
    layout = "inline" if len(names) <= MOST_BUTTONS else "select"
    choices = ET.SubElement(
        view, "Choices", name=CONTROL, toName=OBJECT, choice="single", required="true", layout=layout
    )
    for name in names:
        ET.SubElement(choices, "Choice", value=name)
    # Below the choices: a large picture would push them off the screen.
    ET.SubElement(view, content.tag, name=OBJECT, value=f"${content.field}")
    ET.indent(view)
    return ET.tostring(view, encoding="unicode") + "\n"


def _task(row: dict[str, Any], field: str, value: Any, made_by: str) -> dict[str, Any]:
    suggestion = {
        "from_name": CONTROL,
        "to_name": OBJECT,
        "type": "choices",
        "value": {"choices": [str(row["suggested"])]},
    }
    return {
        "data": {field: value, "errata_id": str(row["id"]), "given_label": str(row["label"])},
        "predictions": [{"model_version": made_by, "score": float(row["p_wrong"]), "result": [suggestion]}],
        "meta": {
            "rank": int(row["rank"]),
            "given_label": str(row["label"]),
            **{name: plain(row[name]) for name in ("p_wrong", "agree", "mean_loss", "score")},
        },
    }


def _content(data: UserData, images_at: str | None) -> _Content:
    inputs = data.inputs
    if data.kind == "image files":
        assert data.root is not None
        before = f"{LOCAL_FILES}{quote(data.root.resolve().name)}/" if images_at is None else images_at
        return _Content("Image", "image", lambda places: [before + quote(path) for path in inputs[places].tolist()])
    if data.kind == "images":
        require_pillow("an export of images")
        return _Content("Image", "image", lambda places: map(_address, inputs[places]))
    texts = [name for name, treatment in data.columns.items() if treatment == "text"]
    if data.kind == "text" and len(texts) == 1:
        return _Content("Text", "text", lambda places: [plain(text) or "" for text in inputs[texts[0]].iloc[places]])
    return _Content("Table", "row", lambda places: _rows(inputs, places))


def _rows(inputs: Any, places: Places) -> Iterable[dict[str, Any]]:
    """Rows of a table by column; of a sparse one, what is not 0."""
    if hasattr(inputs, "iloc"):
        for record in inputs.iloc[places].to_dict("records"):
            yield {str(name): plain(value) for name, value in record.items()}
        return
    for place in places.tolist():
        row = inputs[[place]]
        columns = row.indices if hasattr(row, "tocsr") else np.arange(row.shape[1])
        values = row.data if hasattr(row, "tocsr") else row[0]
        yield {f"column {column}": plain(value) for column, value in zip(columns.tolist(), values, strict=True)}


def _address(pixels: NDArray[np.uint8]) -> str:
    """An image (3, H, W) as an address that holds all of it."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0))).save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
