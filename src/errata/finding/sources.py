"""What `find` is given: dynamics that are there already, or data to train on."""

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.dynamics.files import MANIFEST
from errata.dynamics.reading import holds_logits, read_npy, read_npz
from errata.dynamics.store import Dynamics
from errata.errors import DataError, InputError
from errata.readers import UserData, open_data
from errata.readers.file_types import frame_of
from errata.readers.stored_images import from_stored_images
from errata.wording import one_line

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


@dataclass(frozen=True)
class Named:
    """A source that can be opened again: a path, and what was said of it."""

    path: Path
    label: str | None
    text: str | list[str] | None
    id: str | None
    skip_bad: bool

    @classmethod
    def of(cls, source: Any, label: Any, text: Any, id: Any, skip_bad: bool) -> "Named | None":  # noqa: A002
        """What was given, if all of it is names: arrays are not kept."""
        if not isinstance(source, str | Path) or not all(isinstance(name, str | None) for name in (label, id)):
            return None
        columns = list(text) if isinstance(text, Sequence) and not isinstance(text, str) else text
        return cls(Path(source).expanduser(), label, columns, id, skip_bad)

    @classmethod
    def recalled(cls, summary: dict[str, Any], folder: Path) -> "Named | None":
        """What the summary in a folder says of its source, if it says anything."""
        kept = summary.get("source")
        return None if kept is None else cls(**kept | {"path": folder / kept["path"]})

    def seen_from(self, folder: Path) -> dict[str, Any]:
        """The same for JSON, with the path that leads there from a folder: both may move together."""
        return asdict(self) | {"path": os.path.relpath(self.path, folder)}

    def open(self) -> UserData | Dynamics:
        """The data, or the dynamics."""
        if not self.path.exists():
            raise InputError(f"the data were read from {self.path}, and are not there; say where they are with --data")
        return open_source(self.path, self.label, self.text, self.id, self.skip_bad)


def open_source(source: Any, label: Any, text: Any, id: Any, skip_bad: bool) -> UserData | Dynamics:  # noqa: A002
    """Dynamics, if the source holds what a model said of its samples; else labelled data."""
    if isinstance(source, Dynamics):
        return source
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        if (path / MANIFEST).is_file():
            return Dynamics.open(path)
        if path.suffix.lower() == ".npz" and path.is_file() and holds_logits(path):
            return read_npz(path)
        logits = _logits_in_npy(path, label)
        if logits is not None:
            return logits
        if (path / SPLITS).is_file():
            parts = sorted(entry.name for entry in path.iterdir() if entry.is_dir())
            raise InputError(f"{path} holds the parts {', '.join(parts)} of a dataset; give one, as {path / parts[0]}")
        if is_saved_dataset(path):
            return _open_saved(path, label, text, id, skip_bad)
    return open_data(source, label, text=text, id=id, skip_bad=skip_bad)


def _logits_in_npy(path: Path, label: Any) -> Dynamics | None:
    """Logits in a .npy file with their labels in another, where these are there; inputs are read elsewhere."""
    if path.suffix.lower() != ".npy" or not path.is_file() or label is None:
        return None
    if isinstance(label, str | Path) and not Path(label).is_file():
        return None
    return read_npy(path, label)


def is_saved_dataset(folder: Path) -> bool:
    """Whether Hugging Face `datasets` has saved a table to this folder."""
    return (folder / STATE).is_file() and (folder / INFO).is_file()


def saved_dataset(folder: Path, only: Collection[str] = ()) -> "pd.DataFrame":
    """The table that Hugging Face `datasets` has saved to a folder, classes by their names.

    only: read these columns, if all of them are there; else all but images.
    """
    table, features = _saved_table(folder)
    images = _image_columns(table, features)
    there = [name for name in table.column_names if name not in images]
    frame = frame_of(table.select(only if only and set(only) <= set(there) else there))
    for name, feature in features.items():
        names = feature.get("names") if _is_feature(feature, "ClassLabel") else None
        if names and name in frame:
            frame[name] = [names[int(code)] if 0 <= code < len(names) else None for code in frame[name].fillna(-1)]
    return frame


def _open_saved(folder: Path, label: Any, text: Any, id: Any, skip_bad: bool) -> UserData:  # noqa: A002
    table, features = _saved_table(folder)
    images = _image_columns(table, features)
    frame = saved_dataset(folder)
    if not images:
        return open_data(frame, label, text=text, id=id)
    if text is not None:
        raise InputError(
            f"{folder} holds images, which are learned from; for its text, remove_columns({images!r}) first"
        )
    return from_stored_images({name: table.column(name) for name in images}, frame, label, id, folder, skip_bad)


def _saved_table(folder: Path) -> tuple["pa.Table", dict[str, Any]]:
    """All columns, which stay on disk, and what `datasets` says of each."""
    import pyarrow as pa

    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        features = json.loads((folder / INFO).read_text(encoding="utf-8")).get("features") or {}
        tables = [arrow_table(folder / part["filename"]) for part in state["_data_files"]]
    except (OSError, KeyError, ValueError, TypeError, pa.ArrowException) as error:
        raise DataError(f"{folder} is not a whole folder of Hugging Face datasets: {one_line(error)}") from error
    if state.get("_indices_data_files"):
        raise InputError(f"{folder} holds a selection of rows; call flatten_indices() before save_to_disk()")
    return pa.concat_tables(tables), features


def _image_columns(table: "pa.Table", features: dict[str, Any]) -> list[str]:
    return [name for name in table.column_names if _is_feature(features.get(name), "Image")]


def _is_feature(feature: Any, kind: str) -> bool:
    return isinstance(feature, dict) and feature.get("_type") == kind


def arrow_table(path: Path) -> "pa.Table":
    """The table in a file of Arrow's stream format, which stays on disk."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_stream(file).read_all()
