"""Sensorless Drive Diagnosis: the defect of an electric drive, from its currents."""

from pathlib import Path

import numpy as np

from errata.datasets import table_datasets as tables
from errata.datasets.spec import PaperRow, ParsedArrays, PreparedArrays, Source
from errata.errors import DataError
from errata.training.recipes import Recipe

NAME = "sensorless_drive"
OFFICIAL, PART = "Sensorless_drive_diagnosis.txt", "Sensorless_drive_diagnosis_subset.txt"
PART_REMARK = "a part of the official file: only some rows of each condition"
CONDITIONS = 11
ROWS_PER_CONDITION = 5319
ROWS, TRAIN = CONDITIONS * ROWS_PER_CONDITION, 43_882
PART_TRAIN_SHARE, PART_MIN_ROWS = 0.75, 4  # of a part of the data; rows per condition, so that one is for testing
COLUMNS = 48
# the paper prints no widths
RECIPE = Recipe(epochs=797, batch_size=1024, learning_rate=1e-3, weight_decay=1e-3, widths=(96, 48))


def read(path: Path) -> ParsedArrays:
    """Read lines with 48 numbers and the condition from 1 to 11."""
    table = tables.read_numbers(path, columns=COLUMNS + 1)
    tables.check_values(path, table[:, -1], range(1, CONDITIONS + 1), "the condition")
    labels = table[:, -1].astype(np.int64)
    if path.name == OFFICIAL:
        tables.check_rows(path, len(labels), ROWS)
    for condition, count in enumerate(np.bincount(labels, minlength=CONDITIONS + 1)[1:].tolist(), 1):
        if path.name == OFFICIAL and count != ROWS_PER_CONDITION:
            raise DataError(f"{path} has {count:,} rows of condition {condition}, not {ROWS_PER_CONDITION:,}")
        if count < PART_MIN_ROWS:
            raise DataError(f"{path} has {count} rows of condition {condition}; at least {PART_MIN_ROWS} are needed")
    return ParsedArrays({"inputs": table[:, :-1], "labels": labels})


def prepare(parsed: ParsedArrays) -> PreparedArrays:
    """Three quarters for training, of the complete data as many rows as in the paper; clip outliers, standardise."""
    inputs, labels = parsed.arrays["inputs"], parsed.arrays["labels"] - 1
    size = TRAIN if len(labels) == ROWS else round(PART_TRAIN_SHARE * len(labels))
    return tables.prepare_split(inputs, labels, size, [tables.clip_quantiles(2, 98), tables.standardise])


DATASET = tables.uci_table(
    page="325/dataset+for+sensorless+drive+diagnosis",
    cite=("sensorless_drive_diagnosis", "Bator, Martyna", 2013, "10.24432/C5VP5F"),
    name=NAME,
    title="Dataset for Sensorless Drive Diagnosis",
    classes=tuple(f"condition {number}" for number in range(1, CONDITIONS + 1)),
    sources=(Source((OFFICIAL,), read), Source((PART,), read, complete=False, remark=PART_REMARK)),
    prepare=prepare,
    # rounds chosen on a part of the data
    settings=tables.table_settings(NAME, RECIPE, horizon=1594, accuracy=98.55, rounds=83),
    paper=PaperRow(rows=58_509, features="48", transformed="48", classes=11, train=43_882, test=14_627),
    class_counts=(ROWS_PER_CONDITION,) * CONDITIONS,
)
