"""What the readers of tables share."""

import io
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.datasets.spec import Arrays, Content
from errata.errors import DataError
from errata.wording import one_line

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Texts = NDArray[np.str_]

BROKEN = (ValueError, OSError, EOFError, zlib.error)
"""What parsers and decompressors raise for a file that is broken."""


def read_numbers(path: Path, columns: int, separator: str = r"\s+") -> Floats:
    """Numbers (N, columns) of a text file without a header; a line that is cut short or not numbers is named."""
    return _numbers(path, str(path), columns, separator)


def parse_numbers(content: bytes, where: str, columns: int) -> Floats:
    """Numbers (N, columns) of text with blanks between them; `where` is what messages call it."""
    return _numbers(io.BytesIO(content), where, columns, r"\s+")


def read_cells(path: Path, columns: int) -> Texts:
    """Cells (N, columns) of a file with commas between them and no header, as they stand."""
    cells = _parse(path, str(path), ",", dtype=str, na_filter=False).astype(np.str_)
    _check_whole(str(path), cells, cells == "", columns)
    return cells


def as_integers(cells: Texts, where: str) -> Labels:
    """Cells that hold whole numbers, as such; the line of one that does not is named."""
    try:
        return cells.astype(np.int64)
    except ValueError as error:
        is_number = np.char.isdigit(np.char.lstrip(cells, "-")).all(axis=1)
        raise DataError(f"{where}: line {int(np.argmin(is_number)) + 1} holds a value that is no number") from error


def check_rows(where: str | Path, rows: int, expected: int) -> None:
    """Refuse a table that is not as long as the official one."""
    if rows != expected:
        asked = "; was the file cut short?" if rows < expected else ""
        raise DataError(f"{where} has {rows:,} rows, not {expected:,}{asked}")


def table_content(
    train: Floats, train_labels: Labels, test: Floats, test_labels: Labels, features: Sequence[str]
) -> Content:
    """A prepared table, its numbers as float32."""
    arrays: Arrays = {
        "train_inputs": train.astype(np.float32),
        "train_labels": train_labels.astype(np.int64),
        "test_inputs": test.astype(np.float32),
        "test_labels": test_labels.astype(np.int64),
    }
    return Content(arrays, tuple(features))


def _numbers(source: Path | io.BytesIO, where: str, columns: int, separator: str) -> Floats:
    values = _parse(source, where, separator, dtype=np.float64)
    _check_whole(where, values, np.isnan(values), columns)
    return values


def _parse(source: Path | io.BytesIO, where: str, separator: str, **options: Any) -> NDArray[Any]:
    import pandas as pd

    try:
        values: NDArray[Any] = pd.read_csv(source, sep=separator, header=None, **options).to_numpy()
    except BROKEN as error:
        raise DataError(f"{where} cannot be read: {one_line(error)}") from error
    return values


def _check_whole(where: str, values: NDArray[Any], empty: NDArray[np.bool_], columns: int) -> None:
    if values.shape[1] != columns:
        raise DataError(f"{where} has {values.shape[1]} columns, not {columns}")
    broken = empty.any(axis=1)
    if broken.any():
        raise DataError(f"{where}: line {int(np.argmax(broken)) + 1} is not whole; was the file cut short?")
