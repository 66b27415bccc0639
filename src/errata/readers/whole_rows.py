"""Small CSV files that errata wrote and people may have edited: every row must be whole."""

import csv
import io
from pathlib import Path

from errata.errors import DataError
from errata.readers.file_access import open_text
from errata.readers.formats.csv_files import csv_dialect
from errata.wording import counted, one_line


def rows_by_line(path: Path) -> tuple[list[str], dict[int, list[str]]]:
    """The header and all other rows, by the line on which they begin. Blank rows are omitted.

    Raises DataError with the line for bytes of another encoding, NUL characters, open quotes, and rows with more or
    fewer cells than the header.
    """
    dialect = csv_dialect(path)
    with open_text(path, dialect.encoding) as file:
        text = file.read()
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=dialect.separator, strict=True)
    header: list[str] = []
    rows: dict[int, list[str]] = {}
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise DataError(f"{path}: line {line}: {one_line(error)}. Check the quotes.") from error
        if cells is None:
            return header, rows
        if any("\0" in cell for cell in cells):
            raise DataError(f"{path}: line {line} contains a NUL character")
        if not any(map(str.strip, cells)):
            continue
        if not header:
            header = [name.strip() for name in cells]
            continue
        if len(cells) < len(header) or any(map(str.strip, cells[len(header) :])):
            width = f"but the header has {len(header)}"
            raise DataError(f"{path}: line {line} has {counted(len(cells), 'cell')}, {width}. Check commas and quotes.")
        rows[line] = cells[: len(header)]
