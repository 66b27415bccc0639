"""Small CSV files that errata wrote and people may have edited: every row must be whole."""

from pathlib import Path

from errata.errors import DataError
from errata.readers.formats.csv_files import csv_dialect, numbered_rows
from errata.wording import counted


def rows_by_line(path: Path) -> tuple[list[str], dict[int, list[str]]]:
    """The header and all other rows, by the line on which they begin. Blank rows are omitted.

    Raises DataError with the line for bytes of another encoding, NUL characters, open quotes, and rows with more or
    fewer cells than the header.
    """
    header: list[str] = []
    rows: dict[int, list[str]] = {}
    for line, _, cells in numbered_rows(path, csv_dialect(path)):
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
    return header, rows
