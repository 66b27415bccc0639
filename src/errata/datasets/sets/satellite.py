"""Statlog (Landsat Satellite): the kind of ground, from 3 × 3 pixels in four spectral bands."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from errata.datasets.settings import Drawn, Setting
from errata.datasets.spec import Content, Dataset, Download, PaperRow, Prepared, Raw, Source
from errata.datasets.steps import clip_quantiles, run_steps, standardise
from errata.datasets.tables import Floats, check_rows, read_numbers, table_content
from errata.errors import DataError
from errata.training.recipes import BoostingRecipe, Recipe

NAME = "satellite"
CODES = (1, 2, 3, 4, 5, 7)  # 6, a mixture, does not occur
BANDS, PIXELS = 4, 9
ROWS = (4435, 2000)  # to train on, and to test on
FEATURES = tuple(f"pixel{pixel}_band{band}" for pixel in range(1, PIXELS + 1) for band in range(1, BANDS + 1))


def read(paths: Sequence[Path]) -> Raw:
    """36 values from 0 to 255 a line, and the class code."""
    train, test = (_part(path, rows) for path, rows in zip(paths, ROWS, strict=True))
    return Raw(
        {
            "train_inputs": train[:, :-1],
            "train_labels": train[:, -1].astype(np.int64),
            "test_inputs": test[:, :-1],
            "test_labels": test[:, -1].astype(np.int64),
        }
    )


def _part(path: Path, rows: int) -> Floats:
    table = read_numbers(path, columns=len(FEATURES) + 1)
    check_rows(path, len(table), rows)
    known = np.isin(table[:, -1], CODES)
    if not known.all():
        line = int(np.argmin(known))
        raise DataError(f"{path}: line {line + 1} has the class {table[line, -1]:g}, not one of 1 to 5 and 7")
    return table


def prepare(raw: Raw, base: Prepared | None) -> Content:
    """The official split; outliers clipped, columns scaled."""
    arrays = raw.arrays
    train, test = run_steps(arrays["train_inputs"], arrays["test_inputs"], [clip_quantiles(1, 99), standardise])
    train_labels, test_labels = (np.searchsorted(CODES, arrays[f"{part}_labels"]) for part in ("train", "test"))
    return table_content(train, train_labels, test, test_labels, FEATURES)


DATASET = Dataset(
    name=NAME,
    title="Statlog (Landsat Satellite)",
    source="https://archive.ics.uci.edu/dataset/146/statlog+landsat+satellite",
    licence="CC BY 4.0",
    bibtex="""@misc{statlog_landsat_satellite,
  author = {Srinivasan, Ashwin},
  title = {Statlog (Landsat Satellite)},
  year = {1993},
  howpublished = {UCI Machine Learning Repository},
  doi = {10.24432/C55887}
}""",
    kind="table",
    classes=("red soil", "cotton crop", "grey soil", "damp grey soil", "vegetation stubble", "very damp grey soil"),
    sources=(Source(("sat.trn", "sat.tst"), read),),
    prepare=prepare,
    settings=(
        Setting(
            NAME,
            Drawn("symmetric", 0.2),
            "mlp",
            Recipe(epochs=722, batch_size=1024, learning_rate=1e-3, weight_decay=1e-3, widths=(108, 54)),
            horizon=1444,
            accuracy=88.25,
        ),
        Setting(NAME, Drawn("symmetric", 0.2), "boosting", BoostingRecipe(68), in_paper=False),
    ),
    downloads=(
        Download(
            "https://archive.ics.uci.edu/static/public/146/statlog+landsat+satellite.zip",
            "statlog+landsat+satellite.zip",
            unpack=True,
        ),
    ),
    hashes={
        "train_inputs": "09e8ad8bc5e02138ff2ca7a24eb8e4c2c703268bfb3e87fd5d6a7bcae4e089fc",
        "train_labels": "2d4e9c7653a65851bd652fa8c937c4f8d7347000e261d2ca28c36d715055c17d",
        "test_inputs": "5904fbeda57423b1e3649c56e7d727a230fad8c16ab0a482415f42f0ccbadb85",
        "test_labels": "3e7798f85e8775116242fe10bde229434455a6f3cd0003083e81c047f235ddaa",
    },
    paper=PaperRow(rows=6435, features="36", transformed="36", classes=6, train=4435, test=2000),
    class_counts=(1533, 703, 1358, 626, 707, 1508),
)
