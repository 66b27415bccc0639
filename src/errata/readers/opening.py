"""One door for a user's own data, whatever form it has."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.errors import DataError, InputError, MissingDataError
from errata.readers.arrays import from_arrays, from_named, read_npy, read_npz
from errata.readers.csv_files import read_csv, read_tsv
from errata.readers.file_types import Read, frame_of, read_parquet
from errata.readers.folders import read_folder
from errata.readers.json_files import read_json, read_json_lines
from errata.readers.table_rows import from_frame, is_name
from errata.readers.user_data import UserData

if TYPE_CHECKING:
    import pandas as pd

TABLES: dict[str, Callable[[Path], Read]] = {
    ".csv": read_csv,
    ".csv.gz": read_csv,
    ".tsv": read_tsv,
    ".tsv.gz": read_tsv,
    ".parquet": read_parquet,
    ".jsonl": read_json_lines,
    ".jsonl.gz": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json,
}
ARRAYS: dict[str, Callable[[Path, Any, Any], UserData]] = {".npz": read_npz, ".npy": read_npy}


def open_data(
    source: Any,
    label: Any = None,
    *,
    text: str | Sequence[str] | None = None,
    id: Any = None,  # noqa: A002
    skip_bad: bool = False,
) -> UserData:
    """Understand labelled data; nothing of it is ever written to.

    source: the path of a table (.csv .tsv .parquet .jsonl .ndjson .json, some of them packed as .gz), of arrays (.npz
    .npy) or of a folder of images in class folders; a data frame (pandas, polars, Arrow); a pair (X, y) or X with `y`
    as `label` (numpy, torch, scipy-sparse, lists of text); or a dataset of scikit-learn.
    label: the column that holds the labels, or the labels themselves. text: columns to read as text whatever they look
    like. id: the column that tells samples apart, or the ids themselves; by default it is the row, the first being 0.
    skip_bad: leave out image files that cannot be read, instead of refusing the folder.
    """
    if source is None:
        raise InputError("there is nothing to open: the source is None")
    if isinstance(source, str | Path):
        return _open_path(Path(source).expanduser(), label, text, id, skip_bad)
    if isinstance(source, Mapping) and not hasattr(source, "tocsr"):  # a sparse table may be a mapping of its cells
        return from_named(source, label, id, text, "the dataset")
    if isinstance(source, tuple) and len(source) == 2 and label is None:
        source, label = source
    frame = _as_frame(source)
    if frame is not None:
        return from_frame(frame, label, text, id)
    if label is None or is_name(label):
        raise InputError("inputs need their labels: give a pair (X, y), or the labels (N,) as label=")
    return from_arrays(source, label, id, text)


def _open_path(path: Path, label: Any, text: Any, id: Any, skip_bad: bool) -> UserData:  # noqa: A002
    if path.is_dir():
        given = [f"--{name}" for name, value in (("label", label), ("text", text), ("id", id)) if value is not None]
        if given:
            raise InputError(
                f"{path} is a folder, in which the class of an image is its folder and its id is its path: "
                f"leave out {' and '.join(given)}"
            )
        return read_folder(path, skip_bad)
    ending = known_ending(path)
    if ending in ARRAYS:
        if text is not None:
            raise InputError(f"text= names a column of a table, and {path} holds arrays")
        return ARRAYS[ending](path, label, id)
    read = TABLES[ending](path)
    return from_frame(
        read.frame, label, text, id, origin=str(path), remarks=read.remarks, decimal_comma=read.decimal_comma
    )


def known_ending(path: Path) -> str:
    """The ending of a file that is there and can be read: a key of `TABLES` or `ARRAYS`."""
    if not path.exists():
        raise MissingDataError(f"{path} is not there")
    ending = "".join(path.suffixes[-2:]) if path.suffix.lower() == ".gz" else path.suffix
    ending = ending.lower()
    if ending not in TABLES and ending not in ARRAYS:
        known = " ".join([*TABLES, *ARRAYS])
        raise InputError(f"{path} has no ending that is read, which are {known}; or give a folder of images")
    if not path.stat().st_size:
        raise DataError(f"{path} is empty")
    return ending


def _as_frame(source: Any) -> "pd.DataFrame | None":
    """A data frame of any library as one of pandas; None for anything else."""
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        return source
    if hasattr(source, "collect") and hasattr(source, "collect_schema"):  # a lazy frame of polars
        source = source.collect()
    if hasattr(source, "columns") and hasattr(source, "to_arrow"):
        return frame_of(source.to_arrow())
    if type(source).__module__.startswith("pyarrow") and hasattr(source, "column_names"):
        return frame_of(source)
    converted = source.to_pandas() if hasattr(source, "to_pandas") and hasattr(source, "columns") else None
    return converted if isinstance(converted, pd.DataFrame) else None
