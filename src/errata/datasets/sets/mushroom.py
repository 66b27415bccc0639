"""Mushroom: edible or poisonous, from appearance and smell."""

from pathlib import Path

import numpy as np

from errata.datasets import table_datasets as tables
from errata.datasets.spec import PaperRow, ParsedArrays, PreparedArrays, Source
from errata.training.recipes import Recipe

NAME = "mushroom"
CODES = ("e", "p")
OTHER = "other"
ROWS, TRAIN = 8124, 5898

CATEGORIES: dict[str, tuple[str, str]] = {
    "cap-shape": ("fkx", "bcs"),
    "cap-surface": ("sy", "fg"),
    "cap-color": ("egnwy", "bcpru"),
    "bruises": ("ft", ""),
    "odor": ("aflnpsy", "cm"),
    "gill-attachment": ("af", ""),
    "gill-spacing": ("cw", ""),
    "gill-size": ("bn", ""),
    "gill-color": ("bghknpuw", "eory"),
    "stalk-shape": ("et", ""),
    "stalk-root": ("?be", "cr"),
    "stalk-surface-above-ring": ("ks", "fy"),
    "stalk-surface-below-ring": ("fksy", ""),
    "stalk-color-above-ring": ("bgnpw", "ceoy"),
    "stalk-color-below-ring": ("bgnpw", "ceoy"),
    "veil-type": ("p", ""),
    "veil-color": ("w", "noy"),
    "ring-number": ("o", "nt"),
    "ring-type": ("ep", "fln"),
    "spore-print-color": ("hknw", "boruy"),
    "population": ("acnsvy", ""),
    "habitat": ("dglmpuw", ""),
}
"""The categories of each attribute that are used, and those that are merged into `other`.

The list was made by hand, so the encoding does not depend on the test rows.
"""
# the paper prints no widths
RECIPE = Recipe(epochs=344, batch_size=1024, learning_rate=1e-4, weight_decay=1e-3, widths=(134, 67))


# The levels with a column. The first level is the reference (all other columns are 0), so veil-type has no column.
LEVELS = {name: sorted([*used, *([OTHER] if merged else [])])[1:] for name, (used, merged) in CATEGORIES.items()}


def read(path: Path) -> ParsedArrays:
    """Read lines with the class and 22 attributes, each a letter; an unknown root is a question mark."""
    cells = tables.read_cells(path, columns=1 + len(CATEGORIES))
    tables.check_rows(path, len(cells), ROWS)
    allowed = ("".join(CODES), *(used + merged for used, merged in CATEGORIES.values()))
    for name, column, letters in zip(("class", *CATEGORIES), cells.T, allowed, strict=True):
        tables.check_values(path, column, list(letters), name)
    return ParsedArrays({"attributes": cells[:, 1:], "labels": cells[:, 0]})


def encode(attributes: tables.Texts) -> tables.Floats:
    """Zeros and ones (N, 67) for letters (N, 22)."""
    columns = []
    for attribute, letters in zip(CATEGORIES, attributes.T, strict=True):
        merged = np.where(np.isin(letters, list(CATEGORIES[attribute][1])), OTHER, letters)
        columns += [merged == level for level in LEVELS[attribute]]
    return np.column_stack(columns).astype(np.float64)


def prepare(parsed: ParsedArrays) -> PreparedArrays:
    """Merge rare categories, one-hot encode, drop duplicate rows; three quarters for training; standardise."""
    rows = np.column_stack([encode(parsed.arrays["attributes"]), parsed.arrays["labels"] == CODES[1]])
    _, first = np.unique(rows, axis=0, return_index=True)
    rows = rows[np.sort(first)]
    return tables.prepare_split(rows[:, :-1], rows[:, -1].astype(np.int64), TRAIN, [tables.standardise])


DATASET = tables.uci_table(
    page="73/mushroom",
    cite=("mushroom", "Schlimmer, Jeff", 1987, "10.24432/C5959T"),
    name=NAME,
    title="Mushroom",
    classes=("edible", "poisonous"),
    sources=(Source(("agaricus-lepiota.data",), read),),
    prepare=prepare,
    settings=tables.table_settings(NAME, RECIPE, horizon=800, accuracy=99.19, rounds=70),
    hashes={
        "attributes": "928fc1317eb765295226909b7a91bc6cf99aa994d828c352e85f280fe1d72c1d",
        "labels": "be3c27104e1b3aba4eebaf3373f9d3ccfaa54cb57996acf554bc8849622c2660",
    },
    paper=PaperRow(rows=7864, features="22", transformed="67", classes=2, train=5898, test=1966),
    class_counts=(3976, 3888),
)
