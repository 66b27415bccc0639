"""What `errata.find` reads: recorded dynamics, or labelled data to train on."""

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.dynamics.files import MANIFEST
from errata.dynamics.reading import holds_logits, read_npy, read_npz
from errata.dynamics.store import Dynamics
from errata.errors import DataError, InputError
from errata.readers import UserData, open_data
from errata.readers.data_frames import frame_of
from errata.readers.stored_images import from_stored_images
from errata.wording import one_line

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


@dataclass(frozen=True, eq=False)
class DataSource:
    """A path or an object in memory, and which of its columns or arrays hold labels, text and ids."""

    source: Any
    label: Any = None
    text: str | Sequence[str] | None = None
    id: Any = None
    skip_bad: bool = False

    @classmethod
    def from_summary(cls, summary: dict[str, Any], folder: Path) -> "DataSource | None":
        """The source that a summary.json in `folder` names, or None."""
        stored = summary.get("source")
        if stored is None:
            return None
        return cls(folder / stored["path"], stored["label"], stored["text"], stored["id"], stored["skip_bad"])

    @property
    def path(self) -> Path | None:
        """The path of a file or folder; None for objects in memory."""
        return Path(self.source).expanduser() if isinstance(self.source, str | Path) else None

    def for_summary(self, folder: Path) -> dict[str, Any] | None:
        """The entry for summary.json, with the path relative to `folder`; None unless all parts are names."""
        if self.path is None or not all(isinstance(name, str | None) for name in (self.label, self.id)):
            return None
        text = self.text if isinstance(self.text, str | None) else list(self.text)
        path = os.path.relpath(self.path, folder)
        return {"path": path, "label": self.label, "text": text, "id": self.id, "skip_bad": self.skip_bad}

    def open(self) -> UserData | Dynamics:
        """Read the data or the dynamics."""
        return open_source(self.source, self.label, self.text, self.id, self.skip_bad)

    def reopen(self) -> UserData | Dynamics:
        """Read the data of an earlier run again."""
        if self.path is not None and not self.path.exists():
            raise InputError(f"the data were read from {self.path}, which no longer exists: pass `data=`")
        return self.open()


def open_source(
    source: Any,
    label: Any = None,
    text: Any = None,
    id: Any = None,  # noqa: A002
    skip_bad: bool = False,
) -> UserData | Dynamics:
    """Dynamics if the source holds recorded logits, otherwise labelled data."""
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
            splits = sorted(entry.name for entry in path.iterdir() if entry.is_dir())
            raise InputError(
                f"{path} holds the splits {', '.join(splits)} of a dataset; pass one of them, such as "
                f"{path / splits[0]}"
            )
        if is_saved_dataset(path):
            return _open_saved_dataset(path, label, text, id, skip_bad)
    return open_data(source, label, text=text, id=id, skip_bad=skip_bad)


def _logits_in_npy(path: Path, label: Any) -> Dynamics | None:
    """The logits in a .npy file with their labels in another; None if the shapes show that the file holds inputs."""
    if path.suffix.lower() != ".npy" or not path.is_file() or label is None:
        return None
    if isinstance(label, str | Path) and not Path(label).is_file():
        return None
    return read_npy(path, label)


def is_saved_dataset(folder: Path) -> bool:
    """True for a folder that Hugging Face `datasets` wrote with save_to_disk."""
    return (folder / STATE).is_file() and (folder / INFO).is_file()


def saved_dataset(folder: Path, only: Collection[str] = ()) -> "pd.DataFrame":
    """The table in a folder of Hugging Face `datasets`, without image columns, with class names as labels.

    only: read these columns if all of them exist, otherwise all.
    """
    table, features = _saved_table(folder)
    images = _image_columns(table, features)
    columns = [name for name in table.column_names if name not in images]
    frame = frame_of(table.select(only if only and set(only) <= set(columns) else columns))
    for name, feature in features.items():
        names = feature.get("names") if _is_feature(feature, "ClassLabel") else None
        if names and name in frame:
            frame[name] = [names[int(code)] if 0 <= code < len(names) else None for code in frame[name].fillna(-1)]
    return frame


def _open_saved_dataset(folder: Path, label: Any, text: Any, id: Any, skip_bad: bool) -> UserData:  # noqa: A002
    table, features = _saved_table(folder)
    images = _image_columns(table, features)
    frame = saved_dataset(folder)
    if not images:
        return open_data(frame, label, text=text, id=id)
    if text is not None:
        raise InputError(
            f"{folder} holds images, which are used for training; to train on its text, "
            f"remove_columns({images!r}) first"
        )
    return from_stored_images({name: table.column(name) for name in images}, frame, label, id, folder, skip_bad)


def _saved_table(folder: Path) -> tuple["pa.Table", dict[str, Any]]:
    """All columns, memory-mapped, and the description of each by `datasets`."""
    import pyarrow as pa

    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        features = json.loads((folder / INFO).read_text(encoding="utf-8")).get("features") or {}
        tables = [arrow_table(folder / part["filename"]) for part in state["_data_files"]]
    except (OSError, KeyError, ValueError, TypeError, pa.ArrowException) as error:
        raise DataError(f"{folder} is not a complete folder of Hugging Face datasets: {one_line(error)}") from error
    if state.get("_indices_data_files"):
        raise InputError(f"{folder} holds a selection of rows; call flatten_indices() before save_to_disk()")
    return pa.concat_tables(tables), features


def _image_columns(table: "pa.Table", features: dict[str, Any]) -> list[str]:
    return [name for name in table.column_names if _is_feature(features.get(name), "Image")]


def _is_feature(feature: Any, kind: str) -> bool:
    return isinstance(feature, dict) and feature.get("_type") == kind


def arrow_table(path: Path) -> "pa.Table":
    """The table in a file of Arrow's stream format, memory-mapped."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_stream(file).read_all()
