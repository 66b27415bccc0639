"""Sensorless Drive Diagnosis: which part of an electric drive is worn, from the currents it draws."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from errata.datasets.settings import Drawn, Setting
from errata.datasets.spec import Content, Dataset, Download, PaperRow, Prepared, Raw, Source
from errata.datasets.steps import clip_quantiles, run_steps, standardise, stratified_split
from errata.datasets.tables import check_rows, read_numbers, table_content
from errata.errors import DataError
from errata.training.recipes import BoostingRecipe, Recipe

NAME = "sensorless_drive"
CONDITIONS = 11
ROWS_PER_CONDITION = 5319
ROWS, TRAIN = CONDITIONS * ROWS_PER_CONDITION, 43_882
TRAIN_SHARE_OF_A_PART, FEWEST_ROWS_PER_CONDITION = 0.75, 4  # one in four is left to test on
FEATURES = tuple(f"feature{number}" for number in range(1, 49))


def read_full(paths: Sequence[Path]) -> Raw:
    """All of the official file."""
    raw = read(paths)
    labels = raw.arrays["labels"]
    check_rows(paths[0], len(labels), ROWS)
    counts = np.bincount(labels, minlength=CONDITIONS + 1)[1:]
    if (counts != ROWS_PER_CONDITION).any():
        condition = int(np.argmax(counts != ROWS_PER_CONDITION))
        raise DataError(
            f"{paths[0]} has {counts[condition]:,} rows of condition {condition + 1}, not {ROWS_PER_CONDITION:,}"
        )
    return raw


def read_part(paths: Sequence[Path]) -> Raw:
    """Some rows of each condition, so that both parts of the split have one."""
    raw = read(paths)
    counts = np.bincount(raw.arrays["labels"], minlength=CONDITIONS + 1)[1:]
    if counts.min() < FEWEST_ROWS_PER_CONDITION:
        condition = int(np.argmin(counts))
        raise DataError(
            f"{paths[0]} has {counts[condition]} rows of condition {condition + 1}, "
            f"and at least {FEWEST_ROWS_PER_CONDITION} of each are needed"
        )
    return raw


def read(paths: Sequence[Path]) -> Raw:
    """48 numbers and the condition, from 1 to 11, a line."""
    (path,) = paths
    table = read_numbers(path, columns=len(FEATURES) + 1)
    known = np.isin(table[:, -1], np.arange(1, CONDITIONS + 1))
    if not known.all():
        line = int(np.argmin(known))
        raise DataError(f"{path}: line {line + 1} has the condition {table[line, -1]:g}, not one of 1 to {CONDITIONS}")
    return Raw({"inputs": table[:, :-1], "labels": table[:, -1].astype(np.int64)})


def prepare(raw: Raw, base: Prepared | None) -> Content:
    """Three quarters for training, as many as in the paper where all rows are there; outliers clipped, scaled."""
    inputs, labels = raw.arrays["inputs"], raw.arrays["labels"] - 1
    size = TRAIN if len(labels) == ROWS else round(TRAIN_SHARE_OF_A_PART * len(labels))
    train, test = stratified_split(labels, size)
    train_inputs, test_inputs = run_steps(inputs[train], inputs[test], [clip_quantiles(2, 98), standardise])
    return table_content(train_inputs, labels[train], test_inputs, labels[test], FEATURES)


DATASET = Dataset(
    name=NAME,
    title="Dataset for Sensorless Drive Diagnosis",
    source="https://archive.ics.uci.edu/dataset/325/dataset+for+sensorless+drive+diagnosis",
    licence="CC BY 4.0",
    bibtex="""@misc{sensorless_drive_diagnosis,
  author = {Bator, Martyna},
  title = {Dataset for Sensorless Drive Diagnosis},
  year = {2013},
  howpublished = {UCI Machine Learning Repository},
  doi = {10.24432/C5VP5F}
}""",
    kind="table",
    classes=tuple(f"condition {number}" for number in range(1, CONDITIONS + 1)),
    sources=(
        Source(("Sensorless_drive_diagnosis.txt",), read_full),
        Source(
            ("Sensorless_drive_diagnosis_subset.txt",),
            read_part,
            complete=False,
            remark="a part of the official file: only some rows of each condition",
        ),
    ),
    prepare=prepare,
    settings=(
        Setting(
            NAME,
            Drawn("symmetric", 0.2),
            "mlp",
            # the widths are ours
            Recipe(epochs=797, batch_size=1024, learning_rate=1e-3, weight_decay=1e-3, widths=(96, 48)),
            horizon=1594,
            accuracy=98.55,
        ),
        Setting(
            NAME, Drawn("symmetric", 0.2), "boosting", BoostingRecipe(83), in_paper=False
        ),  # chosen on a part of the data
    ),
    downloads=(
        Download(
            "https://archive.ics.uci.edu/static/public/325/dataset+for+sensorless+drive+diagnosis.zip",
            "dataset+for+sensorless+drive+diagnosis.zip",
            unpack=True,
        ),
    ),
    paper=PaperRow(rows=58_509, features="48", transformed="48", classes=11, train=43_882, test=14_627),
    class_counts=(ROWS_PER_CONDITION,) * CONDITIONS,
)
