"""Folders written by Hugging Face `Dataset.save_to_disk` as user data."""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.errors import DataError, InputError
from errata.readers.data_frames import frame_of, from_frame
from errata.readers.stored_images import from_stored_images
from errata.readers.user_data import UserData
from errata.wording import one_line

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


@dataclass(frozen=True, eq=False)
class SavedDataset:
    """A saved dataset. state, info: its two JSON files. tables: the memory-mapped table of each data file, by name."""

    folder: Path
    state: dict[str, Any] = field(repr=False)
    info: dict[str, Any] = field(repr=False)
    tables: "dict[str, pa.Table]" = field(repr=False)

    @classmethod
    def open(cls, folder: Path) -> "SavedDataset":
        """Open all files of the folder. Columns stay on disk until they are used."""
        import pyarrow as pa

        try:
            state, info = (json.loads((folder / name).read_text(encoding="utf-8")) for name in (STATE, INFO))
            names = [part["filename"] for part in state["_data_files"]]
            dataset = cls(folder, state, info, {name: _memory_mapped(folder / name) for name in names})
        except (OSError, KeyError, ValueError, TypeError, pa.ArrowException) as error:
            raise DataError(f"{folder} is not a complete folder of Hugging Face datasets: {one_line(error)}") from error
        if state.get("_indices_data_files"):
            raise InputError(f"{folder} holds a selection of rows; call flatten_indices() before save_to_disk()")
        return dataset

    def table(self) -> "pa.Table":
        """All rows."""
        import pyarrow as pa

        return pa.concat_tables(self.tables.values())

    def class_names(self, column: str) -> list[str] | None:
        """The class names of a ClassLabel column, which holds class numbers. None for other columns."""
        return (self._feature(column, "ClassLabel") or {}).get("names")

    @property
    def image_columns(self) -> list[str]:
        """The columns with images."""
        return [name for name in self.table().column_names if self._feature(name, "Image")]

    def frame(self, only: Collection[str] = ()) -> "pd.DataFrame":
        """The columns without images, with class names instead of class numbers.

        only: read these columns if all of them exist, otherwise all.
        """
        table, images = self.table(), self.image_columns
        columns = [name for name in table.column_names if name not in images]
        frame = frame_of(table.select(only if only and set(only) <= set(columns) else columns))
        for name in frame.columns:
            names = self.class_names(name)
            if names:
                frame[name] = [names[int(code)] if 0 <= code < len(names) else None for code in frame[name].fillna(-1)]
        return frame

    def _feature(self, column: str, kind: str) -> dict[str, Any] | None:
        """The description of a column by `datasets`, if the column is of this kind."""
        feature = (self.info.get("features") or {}).get(column)
        return feature if isinstance(feature, dict) and feature.get("_type") == kind else None


def is_saved_dataset(folder: Path) -> bool:
    """True for a folder that Hugging Face `datasets` wrote with save_to_disk. Splits of a dataset are refused."""
    if (folder / SPLITS).is_file():
        splits = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
        raise InputError(
            f"{folder} holds the splits {', '.join(splits)} of a dataset; pass one of them, such as "
            f"{folder / splits[0]}"
        )
    return (folder / STATE).is_file() and (folder / INFO).is_file()


def read_saved_dataset(folder: Path, label: Any, text: Any, id: Any, skip_bad: bool) -> UserData:  # noqa: A002
    """The images of a saved dataset if it has any, otherwise its table."""
    dataset = SavedDataset.open(folder)
    images = dataset.image_columns
    if not images:
        return from_frame(dataset.frame(), label, text, id)
    if text is not None:
        raise InputError(
            f"{folder} holds images, which are used for training; to train on its text, "
            f"remove_columns({images!r}) first"
        )
    columns = {name: dataset.table().column(name) for name in images}
    return from_stored_images(columns, dataset.frame(), label, id, folder, skip_bad)


def _memory_mapped(path: Path) -> "pa.Table":
    """The table in a file of Arrow's stream format."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_stream(file).read_all()
