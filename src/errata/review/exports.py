"""The ranking for other tools: Label Studio, FiftyOne and cleanlab.

For each tool, one function returns the content and one writes it to a folder.
"""

import base64
import io
import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.files import remove_unfinished, replace_atomically, save_arrays
from errata.dynamics.ids import match_ids, portable_ids
from errata.errors import InputError, StoreError
from errata.locks import lock_folder
from errata.readers import UserData
from errata.readers.image_files import image_of
from errata.terminal import write_table

if TYPE_CHECKING:
    import pandas as pd

    from errata.finding.found import Found

MEASURES = ("p_wrong", "agree", "mean_loss", "score")  # columns of the ranking
CONTROL, OBJECT = "label", "sample"  # names of the two parts of Label Studio's labelling interface
LOCAL_FILES = "/data/local-files/?d="  # where Label Studio serves local files
MAX_BUTTONS = 30  # with more classes, Label Studio shows a list instead of buttons
LEFTOVERS = (".part", ".lock")  # suffixes of what a killed process leaves
IMAGES = "data"  # the folder with the images of a FiftyOne dataset


def write_label_studio(
    found: "Found",
    folder: str | Path,
    *,
    data: UserData | None = None,
    top: int | None = None,
    images_at: str | None = None,
) -> Path:
    """Write tasks.json (to import) and config.xml (the labelling interface for these tasks)."""
    config = label_studio_config(found, data)
    tasks = label_studio_tasks(found, data=data, top=top, images_at=images_at)
    with _export_folder(folder, "tasks.json", "config.xml") as target:
        replace_atomically(target / "config.xml", lambda file: file.write(config.encode()))
        _write_json(target / "tasks.json", tasks)
    return target


def label_studio_tasks(
    found: "Found", *, data: UserData | None = None, top: int | None = None, images_at: str | None = None
) -> list[dict[str, Any]]:
    """One task per sample, most suspicious first. The suggested label is a prediction.

    data: the ranked data, if `found` does not hold them. images_at: the URL of the image folder. Default: the URL at
    which Label Studio serves the folder, if the folder is in its document root.
    """
    data = _data_of(found, data)
    rows, positions = _ranked_rows(found, data, top)
    _, field = _tag_and_field(data)
    version = f"errata {found.summary['version']} {found.summary['method']}"
    contents = _contents(data, positions, images_at)
    return [_task(row, field, content, version) for row, content in zip(rows, contents, strict=True)]


def label_studio_config(found: "Found", data: UserData | None = None) -> str:
    """The labelling interface: the given label, a choice of the classes, and the sample."""
    tag, field = _tag_and_field(_data_of(found, data))
    names = list(dict.fromkeys(_class_names(found)))
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


def write_fiftyone(found: "Found", folder: str | Path, *, data: UserData | None = None, top: int | None = None) -> Path:
    """Write samples.json with the paths of the image files. Images from an array are saved next to it."""
    data = _data_of(found, data)
    samples = fiftyone_samples(found, data=data, top=top)
    with _export_folder(folder, "samples.json", IMAGES) as target:
        if data.root is None:
            (target / IMAGES).mkdir(exist_ok=True)
            positions = match_ids(data.ids, found.ranking["id"].to_numpy()[: len(samples)])
            for sample, position in zip(samples, positions.tolist(), strict=True):
                image = image_of(data.inputs[position])
                replace_atomically(target / sample["filepath"], partial(image.save, format="PNG"))
        _write_json(target / "samples.json", {"samples": samples})
    return target


def fiftyone_samples(found: "Found", *, data: UserData | None = None, top: int | None = None) -> list[dict[str, Any]]:
    """The content of samples.json: one FiftyOne sample per image, most suspicious first.

    The paths are full paths of image files, or paths in the export folder for images from an array.
    """
    data = _data_of(found, data)
    rows, positions = _ranked_rows(found, data, top)
    if data.kind not in ("images", "image files"):
        raise InputError(f"FiftyOne shows images, and these samples are {data.kind}. Use --to label-studio.")
    if data.root is None:
        paths = [f"{IMAGES}/{position}.png" for position in positions.tolist()]
    else:
        paths = [str(data.root.resolve() / path) for path in data.inputs[positions].tolist()]
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
        for row, path in zip(rows, paths, strict=True)
    ]


def write_cleanlab(found: "Found", folder: str | Path, *, top: int | None = None) -> Path:
    """Write label_issues.csv, and label_issues.npz with the indices of the issues, the ids and the classes as well."""
    issues = label_issues(found, top=top)
    arrays = {
        **{str(name): issues[name].to_numpy() for name in issues.columns},
        "ranked_indices": _issue_positions(found, top),
        "ids": portable_ids(found.dynamics.ids),
        "classes": np.array(_class_names(found)),
    }
    with _export_folder(folder, "label_issues.csv", "label_issues.npz") as target:
        write_table(issues, target / "label_issues.csv")
        save_arrays(target / "label_issues.npz", arrays)
    return target


def label_issues(found: "Found", *, top: int | None = None) -> "pd.DataFrame":
    """One row per sample in the order of the data, with the columns of cleanlab's CleanLearning.get_label_issues().

    is_label_issue: whether the sample is among the `top` most suspicious; default: the estimated number of errors.
    label_quality: the estimated probability that the label is correct. given_label, predicted_label: class numbers.
    """
    import pandas as pd

    names = _class_names(found)
    numbers = {name: number for number, name in reversed(list(enumerate(names)))}  # the first of equal names
    dtype = np.int16 if len(names) < np.iinfo(np.int16).max else np.int32
    is_issue = np.zeros(len(found.ranking), np.bool_)
    is_issue[_issue_positions(found, top)] = True
    in_data_order = found.ranking.iloc[np.argsort(_issue_positions(found, len(found.ranking)))]
    return pd.DataFrame(
        {
            "is_label_issue": is_issue,
            "label_quality": 1 - in_data_order["p_wrong"].to_numpy(),
            "given_label": found.dynamics.labels.astype(dtype),
            "predicted_label": np.array([numbers[str(name)] for name in in_data_order["suggested"]], dtype),
        }
    )


def _issue_positions(found: "Found", top: int | None) -> NDArray[np.int64]:
    """The positions of the issues in the data, most suspicious first."""
    count = found.expected if top is None else _checked_top(top, len(found.ranking))
    return match_ids(found.dynamics.ids, found.ranking["id"].to_numpy())[:count]


def _class_names(found: "Found") -> list[str]:
    return [str(found.dynamics.class_name(number)) for number in range(found.dynamics.num_classes)]


def _data_of(found: "Found", data: UserData | None) -> UserData:
    """The ranked data: as passed, or from `found` if it still holds them."""
    data = found.data if data is None else data
    if data is None:
        raise InputError("the result does not contain the samples. Pass the data that were ranked as data=.")
    return data


def _checked_top(top: int | None, samples: int) -> int:
    """The number of samples to export: `top`, at most all of them. Default: all."""
    if top is not None and top < 1:
        raise InputError(f"top must be 1 or more, not {top}")
    return samples if top is None else min(top, samples)


def _ranked_rows(found: "Found", data: UserData, top: int | None) -> tuple[list[dict[str, Any]], NDArray[np.int64]]:
    """The `top` most suspicious samples, or all: their rows of the ranking for JSON, and positions (n,) in the data.

    Data with other labels than were ranked are refused. Labels are not compared if the class names differ.
    """
    ranking = found.ranking.head(_checked_top(top, len(found.ranking)))
    ranking = ranking.astype({"id": str, "label": str, "suggested": str})
    positions = match_ids(data.ids, found.ranking["id"].to_numpy()[: len(ranking)])
    classes = [str(name) for name in data.classes]
    rows = [{str(name): _json_value(value) for name, value in row.items()} for row in ranking.to_dict("records")]
    if {row["label"] for row in rows} <= set(classes):
        for row, number in zip(rows, data.labels[positions].tolist(), strict=True):
            if row["label"] != classes[number]:
                raise InputError(
                    f"sample {row['id']} has the label {classes[number]}, but had {row['label']} when it was ranked. "
                    "Pass the data that were ranked."
                )
    return rows, positions


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
        return [_json_value(value) or "" for value in inputs[text].iloc[positions]]
    if hasattr(inputs, "iloc"):
        records = inputs.iloc[positions].to_dict("records")
        return [{str(name): _json_value(value) for name, value in record.items()} for record in records]
    return [_numbered_columns(inputs[[position]]) for position in positions.tolist()]


def _numbered_columns(row: Any) -> dict[str, Any]:
    """A row (1, D) without column names. Zeros of a sparse row are left out."""
    columns = row.indices if hasattr(row, "tocsr") else np.arange(row.shape[1])
    values = row.data if hasattr(row, "tocsr") else row[0]
    return {f"column {column}": _json_value(value) for column, value in zip(columns.tolist(), values, strict=True)}


def _data_url(pixels: NDArray[np.uint8]) -> str:
    """The pixels (3, H, W) as a URL that contains the whole image."""
    buffer = io.BytesIO()
    image_of(pixels).save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _json_value(value: Any) -> Any:
    """A number, text or Boolean for JSON; None if the value is missing or not finite."""
    import pandas as pd

    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return None if not hasattr(value, "__len__") and pd.isna(value) else str(value)


def _write_json(path: Path, content: Any) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    replace_atomically(path, lambda file: file.write(text.encode()))


@contextmanager
def _export_folder(folder: str | Path, *names: str) -> Iterator[Path]:
    """Create and lock the folder of an export. A folder with other files than these is refused."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise StoreError(f"{target} is a file. Choose a folder for the export.")
    others = {entry.name for entry in target.iterdir() if entry.suffix not in LEFTOVERS} if target.is_dir() else set()
    if others - set(names):
        other = min(others - set(names))
        raise StoreError(f"{target} contains other files, such as {other}. Choose a new folder for the export.")
    with lock_folder(target):
        for place in (target, target / IMAGES):
            remove_unfinished(place)
        yield target
