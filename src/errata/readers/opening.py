"""`open_data`: user data in any supported form."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from errata.errors import InputError
from errata.readers.arrays import from_arrays, from_named
from errata.readers.data_frames import as_frame, from_frame, is_name, refuse_column_names
from errata.readers.file_types import array_readers, file_suffix, table_readers
from errata.readers.image_files import read_folder
from errata.readers.saved_datasets import is_saved_dataset, read_saved_dataset
from errata.readers.user_data import UserData


def open_data(
    source: Any,
    label: Any = None,
    *,
    text: str | Sequence[str] | None = None,
    id: Any = None,  # noqa: A002
    ignore: str | Sequence[str] | None = None,
    skip_bad: bool = False,
) -> UserData:
    """Read labelled data. The source is never changed.

    source: the path of a table (.csv .tsv .parquet .jsonl .ndjson .json, some also as .gz), of arrays (.npz .npy), of a
    folder with one folder of images per class, or of a folder saved by Hugging Face `datasets`; a data frame (pandas,
    polars, Arrow); a pair (X, y), or X with y as `label` (numpy, torch, scipy sparse, lists of text); or a dataset of
    scikit-learn.
    label: the column with the labels, or the labels. text: columns to read as text. id: the column with the sample ids,
    or the ids; by default the index of a pandas data frame, or the row number from 0. ignore: columns that
    no model uses. skip_bad: ignore images that cannot be read.
    """
    if source is None:
        raise InputError("There is no data: the source is None")
    if isinstance(source, str | Path):
        return _open_path(Path(source).expanduser(), label, text, id, ignore, skip_bad)
    if isinstance(source, Mapping) and not hasattr(source, "tocsr"):  # a sparse array can be a mapping of its cells
        return from_named(source, label, id, "the dataset", text, ignore)
    if isinstance(source, tuple) and len(source) == 2 and label is None:
        source, label = source
    frame = as_frame(source)
    if frame is not None:
        return from_frame(frame, label, text, id, ignore)
    if label is None or is_name(label):
        raise InputError("The inputs have no labels. Pass a pair (X, y), or the labels (N,) as label=")
    return from_arrays(source, label, id, text, ignore)


def _open_path(path: Path, label: Any, text: Any, id: Any, ignore: Any, skip_bad: bool) -> UserData:  # noqa: A002
    if is_saved_dataset(path):
        return read_saved_dataset(path, label, text, id, ignore, skip_bad)
    if path.is_dir():
        given = {"label": label, "text": text, "id": id, "ignore": ignore or None}
        options = [f"`{name}=`" for name, value in given.items() if value is not None]
        if options:
            raise InputError(
                f"{path} is a folder: the class of an image is its folder and its id is its path. "
                f"Omit {' and '.join(options)}"
            )
        return read_folder(path, skip_bad)
    suffix = file_suffix(path)
    if suffix in array_readers():
        refuse_column_names(f"{path} holds arrays", text=text, ignore=ignore)
        return array_readers()[suffix](path, label, id)
    table = table_readers()[suffix](path)
    return from_frame(
        table.frame, label, text, id, ignore, origin=str(path), remarks=table.remarks, decimal_comma=table.decimal_comma
    )
