"""JSON files: one object per line, a list of objects, or an object of lists."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from errata.errors import DataError
from errata.readers.file_access import encoding_of, open_text
from errata.readers.file_types import TableContents, TableReader
from errata.wording import listed

if TYPE_CHECKING:
    import pandas as pd

# A half of a surrogate pair, such as the first one of an emoji that was cut in two.
HALF_CHARACTER = re.compile(
    r"\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f][0-9a-f]{2})|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f][0-9a-f]{2}", re.IGNORECASE
)
LONG_NUMBER = re.compile("[0-9]{4300}")


def read_json_lines(path: Path) -> TableContents:
    """Read one object per line."""
    encoding, remarks = encoding_of(path)
    return TableContents(_frame_of_records(_lines(path, encoding)), remarks)


def read_json(path: Path) -> TableContents:
    """Read a list of objects, an object of equally long lists, or one object per line."""
    encoding, remarks = encoding_of(path)
    with open_text(path, encoding) as file:
        text = file.read()
    try:
        content = _parsed(text, path, 1)
    except DataError as error:
        is_syntax = isinstance(error.__cause__, json.JSONDecodeError)
        if is_syntax and text.lstrip().startswith("{") and "\n" in text.strip():
            return read_json_lines(path)
        raise
    if isinstance(content, dict) and content and all(isinstance(values, list) for values in content.values()):
        if len({len(values) for values in content.values()}) > 1:
            raise DataError(f"{path}: the lists {listed(content)} are not equally long")
        return TableContents(_frame_of_lists(content), remarks)
    if not isinstance(content, list):
        raise DataError(f"{path} must hold a list of objects or an object of lists")
    records = (_checked(record, f"{path}: item {row}") for row, record in enumerate(content))
    return TableContents(_frame_of_records(records), remarks)


TABLE_READERS: dict[str, TableReader] = {
    ".jsonl": read_json_lines,
    ".jsonl.gz": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json,
}


def _lines(path: Path, encoding: str) -> Iterator[dict[str, Any]]:
    with open_text(path, encoding) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _checked(_parsed(line.strip(), path, number), f"{path}: line {number}")


def _parsed(text: str, path: Path, first_line: int) -> Any:
    """The values of a JSON text that starts in this line of the file."""

    def refused(place: int, problem: str) -> DataError:
        return DataError(f"{path}: line {first_line + text.count(chr(10), 0, place)} {problem}")

    half = HALF_CHARACTER.search(text)
    try:
        content = json.loads(text)
        if half:
            json.dumps(content, ensure_ascii=False).encode("utf-8")
    except RecursionError as error:
        raise refused(0, "nests lists or objects too deeply for a table") from error
    except json.JSONDecodeError as error:
        raise refused(error.pos, f"is not valid JSON ({error.msg} at column {error.colno})") from error
    except UnicodeEncodeError as error:
        assert half
        raise refused(half.start(), f"has half of a character ({half[0]}). Replace it") from error
    except ValueError as error:  # Python converts no longer whole numbers
        long = LONG_NUMBER.search(text)
        raise refused(long.start() if long else 0, "has a number with thousands of digits. Quote it") from error
    return content


def _checked(record: Any, where: str) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise DataError(f"{where} holds a {type(record).__name__}, not an object with named values")
    return record


def _frame_of_records(records: Iterable[dict[str, Any]]) -> "pd.DataFrame":
    """One row per record; a value that a record lacks is missing."""
    columns: dict[str, list[Any]] = {}
    for row, record in enumerate(records):
        for name, value in record.items():
            if name not in columns:
                columns[name] = [None] * row
            columns[name].append(value)
        if len(record) < len(columns):
            for values in columns.values():
                values.extend([None] * (row + 1 - len(values)))
    return _frame_of_lists(columns)


def _frame_of_lists(columns: dict[str, list[Any]]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame({name: _typed(values) for name, values in columns.items()})


def _typed(values: list[Any]) -> Any:
    """Values of one type as an array of that type with gaps, others as objects."""
    import pandas as pd

    types = {type(value) for value in values} - {type(None)}
    if (types <= {int, float} and not _has_equal_int_and_float(values)) or (len(types) == 1 and types <= {bool, str}):
        try:
            return pd.array(values)
        except OverflowError:  # a fraction and a whole number beyond float64
            pass
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


def _has_equal_int_and_float(values: list[Any]) -> bool:
    """Whether a number occurs both as 1 and as 1.0, which matters if the values are labels."""
    whole = {value for value in values if type(value) is int}
    return bool(whole) and any(type(value) is float and value in whole for value in values)
