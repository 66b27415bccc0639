"""Folders written by Hugging Face `Dataset.save_to_disk` as user data."""

import io
import json
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from errata.errors import InputError
from errata.extras import require_pillow
from errata.readers.data_frames import frame_of, from_frame, labelled_table, refuse_column_names
from errata.readers.file_access import file_errors, regular_file
from errata.readers.image_files import StoredImages, readable_images, size_range, small_images
from errata.readers.user_data import UserData
from errata.wording import counted, listed

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

        kinds = (OSError, KeyError, ValueError, TypeError, pa.ArrowException)
        with file_errors(folder, "is not a complete folder of Hugging Face datasets", kinds):
            state, info = (json.loads((folder / name).read_text(encoding="utf-8")) for name in (STATE, INFO))
            names = [part["filename"] for part in state["_data_files"]]
            dataset = cls(folder, state, info, {name: _memory_mapped(folder / name) for name in names})
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


def read_saved_dataset(
    folder: Path,
    label: Any,
    text: Any,
    id: Any,  # noqa: A002
    ignore: Any,
    skip_bad: bool,
) -> UserData:
    """The images of a saved dataset if it has any, otherwise its table."""
    dataset = SavedDataset.open(folder)
    images = dataset.image_columns
    if not images:
        return from_frame(dataset.frame(), label, text, id, ignore)
    if text is not None:
        raise InputError(
            f"{folder} holds images, which are used for training; to train on its text, "
            f"remove_columns({images!r}) first"
        )
    refuse_column_names(f"{folder} holds images", ignore=ignore)
    require_pillow(f"reading the images in {folder}")
    if len(images) > 1:
        raise InputError(f"{folder} has images in the columns {listed(images)}. Keep one, with remove_columns()")
    return _read_images(dataset, images[0], label, id, skip_bad)


def _read_images(dataset: SavedDataset, column: str, label: Any, id: Any, skip_bad: bool) -> UserData:  # noqa: A002
    """The images in a column, with the labels and ids in other columns."""
    folder = dataset.folder
    all_images = StoredImages(dataset.table().column(column), folder, np.arange(dataset.table().num_rows))
    names = {f"row {row}": row for row in range(len(all_images))}
    size_of, unreadable = readable_images(
        names,
        lambda name: io.BytesIO(all_images.encoded(names[name])),
        skip_bad,
        str(folder),
        lambda name: f"The image in {name} of column {column!r} of {folder}",
    )
    table = labelled_table(dataset.frame(), label, id, str(folder), np.array([names[name] for name in size_of]))
    rows = table.encoded.rows
    sizes = [size_of[f"row {row}"] for row in rows.tolist()]
    images = replace(all_images, rows=rows, sizes=tuple(sizes))
    pixels = small_images(sizes, images.image)
    others = [other for other in table.frame.columns if other not in table.roles]
    remark = f"only the images are used; {counted(len(others), 'other column')} left out: {listed(others)}"
    return UserData(
        kind="images",
        inputs=images if pixels is None else pixels,
        labels=table.encoded.labels,
        classes=table.encoded.classes,
        ids=table.ids,
        rows=rows,
        columns={**table.roles, column: size_range(sizes)},
        remarks=(*table.remarks, *unreadable, *table.encoded.remarks, *([remark] if others else [])),
    )


def _memory_mapped(path: Path) -> "pa.Table":
    """The table in a file of Arrow's stream format."""
    import pyarrow as pa

    with pa.memory_map(str(regular_file(path))) as file:
        return pa.ipc.open_stream(file).read_all()
