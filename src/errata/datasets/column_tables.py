"""Tables of mixed columns, and texts, with the class of each row in the column `label`.

The features are those that `errata.readers` makes of a user's own table: scaled numbers, one column per category,
TF-IDF of texts. They are fitted on the training rows.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from errata.datasets.spec import Arrays, ParsedArrays, PreparedArrays
from errata.datasets.table_datasets import check_rows, stratified_split
from errata.errors import DataError
from errata.readers import open_data
from errata.readers.columns import as_numbers, as_texts
from errata.readers.formats.parquet_files import read_parquet

if TYPE_CHECKING:
    import pandas as pd

LABEL, TEXT = "label", "text"
TRAIN_SHARE = 0.75
NUMBER_KINDS = "iufb"


def read_columns(classes: Sequence[str], path: Path) -> ParsedArrays:
    """Read a Parquet file whose labels are all in `classes`."""
    return parse_columns(read_parquet(path).frame, classes, path)


def read_complete(classes: Sequence[str], counts: Sequence[int], path: Path) -> ParsedArrays:
    """Read a Parquet file with that number of rows of each class."""
    parsed = read_columns(classes, path)
    found = np.bincount(parsed.arrays["labels"], minlength=len(classes))
    for name, count, expected in zip(classes, found.tolist(), counts, strict=True):
        check_rows(f"class {name} of {path}", count, expected)
    return parsed


def parse_columns(frame: "pd.DataFrame", classes: Sequence[str], where: str | Path) -> ParsedArrays:
    """The columns of a data frame as arrays. where: how messages name it.

    labels (N,): class numbers. numbers (N, a): NaN where a value is missing. texts (N, b): categories and texts, empty
    where a value is missing. number_columns (a,), text_columns (b,): their names. No array has a width of 0.
    """
    if LABEL not in frame:
        raise DataError(f"{where} has no column {LABEL!r}")
    places = {name: place for place, name in enumerate(classes)}
    given = as_texts(frame[LABEL])
    wrong = [row for row, name in enumerate(given) if name not in places]
    if wrong:
        raise DataError(f"{where}: row {wrong[0]} has the class {given[wrong[0]]!r}. Classes: {', '.join(classes)}")
    inputs = frame.drop(columns=LABEL)
    is_number = [column.dtype.kind in NUMBER_KINDS for _, column in inputs.items()]
    arrays: Arrays = {"labels": np.array([places[str(name)] for name in given], dtype=np.int64)}
    arrays |= _side_by_side("number", inputs.loc[:, is_number], as_numbers)
    arrays |= _side_by_side("text", inputs.loc[:, [not number for number in is_number]], _filled_texts)
    return ParsedArrays(arrays)


def prepare_table(parsed: ParsedArrays) -> PreparedArrays:
    """Three quarters for training; scaled numbers, one column per category."""
    return _prepare(parsed, None)


def prepare_texts(parsed: ParsedArrays) -> PreparedArrays:
    """Three quarters for training; TF-IDF of words and word pairs."""
    return _prepare(parsed, TEXT)


def _prepare(parsed: ParsedArrays, text: str | None) -> PreparedArrays:
    labels = parsed.arrays["labels"]
    data = open_data(_frame(parsed), labels, text=text)
    train, test = stratified_split(labels, round(TRAIN_SHARE * len(labels)))
    matrix = data.prepare(np.sort(train)).matrix
    arrays: Arrays = {"train_inputs": matrix[train], "train_labels": labels[train]}
    return PreparedArrays(arrays | {"test_inputs": matrix[test], "test_labels": labels[test]}, data.remarks)


def _frame(parsed: ParsedArrays) -> "pd.DataFrame":
    """The columns of parsed arrays, with None for a missing text."""
    import pandas as pd

    arrays = parsed.arrays
    columns: dict[str, Any] = {}
    if "numbers" in arrays:
        columns |= dict(zip(arrays["number_columns"].tolist(), arrays["numbers"].T, strict=True))
    if "texts" in arrays:
        filled = [[text or None for text in column] for column in arrays["texts"].T.tolist()]
        columns |= dict(zip(arrays["text_columns"].tolist(), filled, strict=True))
    return pd.DataFrame(columns)


def _side_by_side(kind: str, frame: "pd.DataFrame", convert: "Callable[[pd.Series[Any]], Any]") -> Arrays:
    if not len(frame.columns):
        return {}
    columns = [convert(frame[name]) for name in frame]
    return {f"{kind}s": np.column_stack(columns), f"{kind}_columns": np.array([str(name) for name in frame])}


def _filled_texts(column: "pd.Series[Any]") -> np.ndarray[Any, Any]:
    return np.array([text or "" for text in as_texts(column)], dtype=np.str_)
