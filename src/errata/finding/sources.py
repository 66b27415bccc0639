"""What `find` is given: dynamics that are there already, or data to train on."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.datasets.own import OwnData, open_data
from errata.datasets.own.files import frame_of
from errata.dynamics.files import MANIFEST
from errata.dynamics.reading import holds_logits, read_npz
from errata.dynamics.store import Dynamics
from errata.errors import DataError, InputError
from errata.wording import one_line

if TYPE_CHECKING:
    import pandas as pd

STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


def open_source(source: Any, label: Any, text: Any, id: Any, skip_bad: bool) -> OwnData | Dynamics:  # noqa: A002
    """Dynamics, if the source holds what a model said of its samples; else labelled data."""
    if isinstance(source, Dynamics):
        return source
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        if (path / MANIFEST).is_file():
            return Dynamics.open(path)
        if path.suffix.lower() == ".npz" and path.is_file() and holds_logits(path):
            return read_npz(path)
        if (path / SPLITS).is_file():
            parts = sorted(entry.name for entry in path.iterdir() if entry.is_dir())
            raise InputError(f"{path} holds the parts {', '.join(parts)} of a dataset; give one, as {path / parts[0]}")
        if (path / STATE).is_file() and (path / INFO).is_file():
            return open_data(_saved_dataset(path), label, text=text, id=id)
    return open_data(source, label, text=text, id=id, skip_bad=skip_bad)


def _saved_dataset(folder: Path) -> "pd.DataFrame":
    """The table that Hugging Face `datasets` has saved to a folder, classes by their names."""
    import pyarrow as pa

    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        features = json.loads((folder / INFO).read_text(encoding="utf-8")).get("features") or {}
        tables = [_arrow_table(folder / part["filename"]) for part in state["_data_files"]]
    except (OSError, KeyError, ValueError, TypeError, pa.ArrowException) as error:
        raise DataError(f"{folder} is not a whole folder of Hugging Face datasets: {one_line(error)}") from error
    if state.get("_indices_data_files"):
        raise InputError(f"{folder} holds a selection of rows; call flatten_indices() before save_to_disk()")
    frame = frame_of(pa.concat_tables(tables))
    for name, feature in features.items():
        names = feature.get("names") if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" else None
        if names and name in frame:
            frame[name] = [names[int(code)] if 0 <= code < len(names) else None for code in frame[name].fillna(-1)]
        if isinstance(feature, dict) and feature.get("_type") == "Image":
            raise InputError(f"column {name!r} of {folder} holds images: save them as files in class folders")
    return frame


def _arrow_table(path: Path) -> Any:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_stream(file).read_all()
