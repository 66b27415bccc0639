"""Statlog (Landsat Satellite): land cover, from 3 × 3 pixels in four spectral bands."""

from pathlib import Path

import numpy as np

from errata.datasets import table_datasets as tables
from errata.datasets.spec import Arrays, PaperRow, ParsedArrays, PreparedArrays, Source
from errata.training.recipes import Recipe

NAME = "satellite"
CODES = (1, 2, 3, 4, 5, 7)  # 6, a mixture, does not occur in the data
COLUMNS = 4 * 9  # bands and pixels
ROWS = {"train": 4435, "test": 2000}
RECIPE = Recipe(epochs=722, batch_size=1024, learning_rate=1e-3, weight_decay=1e-3, widths=(108, 54))


def read(*paths: Path) -> ParsedArrays:
    """Read lines with 36 values from 0 to 255 and the class code."""
    arrays: Arrays = {}
    for path, (part, rows) in zip(paths, ROWS.items(), strict=True):
        table = tables.read_numbers(path, columns=COLUMNS + 1)
        tables.check_rows(path, len(table), rows)
        tables.check_values(path, table[:, -1], CODES, "the class")
        arrays |= {f"{part}_inputs": table[:, :-1], f"{part}_labels": table[:, -1].astype(np.int64)}
    return ParsedArrays(arrays)


def prepare(parsed: ParsedArrays) -> PreparedArrays:
    """The official split; clip outliers, standardise."""
    arrays = parsed.arrays
    train, test = ((arrays[f"{part}_inputs"], np.searchsorted(CODES, arrays[f"{part}_labels"])) for part in ROWS)
    return tables.prepare_parts(train, test, [tables.clip_quantiles(1, 99), tables.standardise])


DATASET = tables.uci_table(
    page="146/statlog+landsat+satellite",
    cite=("statlog_landsat_satellite", "Srinivasan, Ashwin", 1993, "10.24432/C55887"),
    name=NAME,
    title="Statlog (Landsat Satellite)",
    classes=("red soil", "cotton crop", "grey soil", "damp grey soil", "vegetation stubble", "very damp grey soil"),
    sources=(Source(("sat.trn", "sat.tst"), read),),
    prepare=prepare,
    settings=tables.table_settings(NAME, RECIPE, horizon=1444, accuracy=88.25, rounds=68),
    hashes={
        "train_inputs": "09e8ad8bc5e02138ff2ca7a24eb8e4c2c703268bfb3e87fd5d6a7bcae4e089fc",
        "train_labels": "2d4e9c7653a65851bd652fa8c937c4f8d7347000e261d2ca28c36d715055c17d",
        "test_inputs": "5904fbeda57423b1e3649c56e7d727a230fad8c16ab0a482415f42f0ccbadb85",
        "test_labels": "3e7798f85e8775116242fe10bde229434455a6f3cd0003083e81c047f235ddaa",
    },
    paper=PaperRow(rows=6435, features="36", transformed="36", classes=6, train=4435, test=2000),
    class_counts=(1533, 703, 1358, 626, 707, 1508),
)
