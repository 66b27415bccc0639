"""Cardiotocography: the state of a foetus, from its heart rate and the uterine contractions."""

import os
from pathlib import Path

import numpy as np

from errata.datasets import table_datasets as tables
from errata.datasets.spec import PaperRow, ParsedArrays, PreparedArrays, Source
from errata.errors import DataError
from errata.extras import require
from errata.readers.file_access import file_errors
from errata.training.recipes import Recipe

NAME = "cardiotocography"
FEATURES = (
    *("LB", "AC", "FM", "UC", "ASTV", "MSTV", "ALTV", "MLTV", "DL", "DS", "DP"),
    *("Width", "Min", "Max", "Nmax", "Nzeros", "Mode", "Mean", "Median", "Variance", "Tendency"),
)
STATE = "NSP"
SHEET, HEADER = "Data", 1
ROWS, TRAIN = 2126, 1700
# the paper prints no widths
RECIPE = Recipe(epochs=206, batch_size=1024, learning_rate=1e-2, widths=(42, 21))


def read(path: Path) -> ParsedArrays:
    """Read the sheet `Data`: the rates of events (AC, FM, ...), not their counts, and the state of the foetus."""
    table = _sheet(path)
    names = table[HEADER] if len(table) > HEADER else []
    missing = [name for name in (*FEATURES, STATE) if name not in names]
    if missing:
        raise DataError(f"{path}: the sheet {SHEET!r} has no column {missing[0]}")
    column = {name: index for index, name in enumerate(names)}  # the second column of a repeated name is the rate
    rows = [row for row in table[HEADER + 1 :] if row[column[STATE]] != ""]  # the rows below are sums
    tables.check_rows(path, len(rows), ROWS)
    with file_errors(path, f"has a cell in the sheet {SHEET!r} that is not a number"):
        values = np.array([[row[column[name]] for name in (*FEATURES, STATE)] for row in rows], dtype=np.float64)
    return ParsedArrays({"inputs": values[:, :-1], "labels": values[:, -1].astype(np.int64)})


def _sheet(path: Path) -> list[list[object]]:
    """The cells of the sheet, row by row."""
    require("xlrd", "xlrd", "data", f"reading {path}")
    import xlrd

    # xlrd raises many kinds of errors for damaged files, and prints warnings
    with (
        file_errors(path, "cannot be read as an Excel file and may be truncated", (Exception,)),
        Path(os.devnull).open("w") as nowhere,
    ):
        sheet = xlrd.open_workbook(str(path), logfile=nowhere).sheet_by_name(SHEET)
        return [sheet.row_values(row) for row in range(sheet.nrows)]


def prepare(parsed: ParsedArrays) -> PreparedArrays:
    """Four fifths for training; clip outliers, standardise."""
    clip = tables.clip_quantiles(2, 98, others={FEATURES.index("ALTV"): (2, 95)})
    labels = parsed.arrays["labels"] - 1
    return tables.prepare_split(parsed.arrays["inputs"], labels, TRAIN, [clip, tables.standardise])


DATASET = tables.uci_table(
    page="193/cardiotocography",
    cite=("cardiotocography", "Campos, Diogo and Bernardes, João", 2000, "10.24432/C51S4N"),
    name=NAME,
    title="Cardiotocography",
    classes=("normal", "suspect", "pathologic"),
    sources=(Source(("CTG.xls",), read),),
    prepare=prepare,
    settings=tables.table_settings(NAME, RECIPE, horizon=800, accuracy=78.59, rounds=38),
    hashes={
        "inputs": "fe07d4b48485bd7ce9f391c4e4e2285f405129d3f462e134b74196a7bc127581",
        "labels": "e291c924a9c01d249efe15055522b8513661e915318fdc61badaea528bbdb1ac",
    },
    paper=PaperRow(rows=2126, features="21", transformed="21", classes=3, train=1700, test=426),
    class_counts=(1655, 295, 176),
)
