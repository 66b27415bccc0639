"""The files of AG News and CLINC150."""

import json
from pathlib import Path

from errata.datasets.column_tables import LABEL, TEXT, parse_columns
from errata.datasets.spec import ParsedArrays, class_names
from errata.datasets.table_datasets import check_rows
from errata.errors import DataError
from errata.readers.file_access import file_errors

AG_NEWS_CLASSES = ("1", "2", "3", "4")  # world, sports, business, science and technology
AG_NEWS_ROWS = 7600
INTENTS = class_names("clinc150")
CLINC_PARTS = {"train": 15_000, "val": 3000, "test": 4500}  # questions outside of the 150 intents are not used


def read_ag_news(path: Path) -> ParsedArrays:
    """Read lines of class number, title and description; title and description are one text."""
    import pandas as pd

    with file_errors(path):
        cells = pd.read_csv(path, header=None, dtype=str, na_filter=False)
    if cells.shape[1] != 3:
        raise DataError(f"{path} has {cells.shape[1]} columns, not 3")
    check_rows(path, len(cells), AG_NEWS_ROWS)
    frame = pd.DataFrame({TEXT: cells[1] + " " + cells[2], LABEL: cells[0]})
    return parse_columns(frame, AG_NEWS_CLASSES, path)


def read_clinc(path: Path) -> ParsedArrays:
    """Read the questions of all three parts, each a pair of text and intent."""
    import pandas as pd

    with file_errors(path):
        content = json.loads(path.read_text(encoding="utf-8"))
    rows: list[list[str]] = []
    for part, expected in CLINC_PARTS.items():
        pairs = content.get(part) if isinstance(content, dict) else None
        if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            raise DataError(f"{path} has no list of pairs under {part!r}")
        check_rows(f"{path}: {part}", len(pairs), expected)
        rows += pairs
    return parse_columns(pd.DataFrame(rows, columns=[TEXT, LABEL], dtype=object), INTENTS, path)
