"""Mushroom: edible or poisonous, from how a mushroom looks and smells."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from errata.datasets.settings import Drawn, Setting
from errata.datasets.spec import Content, Dataset, Download, PaperRow, Prepared, Raw, Source
from errata.datasets.steps import run_steps, standardise, stratified_split
from errata.datasets.tables import Floats, Texts, check_rows, read_cells, table_content
from errata.errors import DataError
from errata.training.recipes import BoostingRecipe, Recipe

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
"""By attribute, the categories that are kept and those that become `other`: a list made by hand, not by frequency.

That it is written down, and not read off the rows, also keeps the test rows out of the encoding.
"""


def _levels(attribute: str) -> list[str]:
    kept, merged = CATEGORIES[attribute]
    return sorted([*kept, *([OTHER] if merged else [])])


# The first level is what all others being 0 means, so veil-type, which has one level, leaves nothing.
FEATURES = tuple(f"{attribute}={level}" for attribute in CATEGORIES for level in _levels(attribute)[1:])


def read(paths: Sequence[Path]) -> Raw:
    """The class and 22 attributes a line, each a letter; an unknown root is a question mark."""
    (path,) = paths
    cells = read_cells(path, columns=1 + len(CATEGORIES))
    check_rows(path, len(cells), ROWS)
    allowed = ("".join(CODES), *(kept + merged for kept, merged in CATEGORIES.values()))
    for name, column, letters in zip(("class", *CATEGORIES), cells.T, allowed, strict=True):
        unknown = ~np.isin(column, list(letters))
        if unknown.any():
            line = int(np.argmax(unknown))
            raise DataError(f"{path}: line {line + 1} has '{column[line]}' for {name}, none of {', '.join(letters)}")
    return Raw({"attributes": cells[:, 1:], "labels": cells[:, 0]})


def encode(attributes: Texts) -> Floats:
    """Zeros and ones (N, 67) for letters (N, 22)."""
    columns = []
    for attribute, letters in zip(CATEGORIES, attributes.T, strict=True):
        merged = np.where(np.isin(letters, list(CATEGORIES[attribute][1])), OTHER, letters)
        columns += [merged == level for level in _levels(attribute)[1:]]
    return np.column_stack(columns).astype(np.float64)


def prepare(raw: Raw, base: Prepared | None) -> Content:
    """Rare categories merged, one column a category, equal rows kept once; three quarters for training; scaled."""
    rows = np.column_stack([encode(raw.arrays["attributes"]), raw.arrays["labels"] == CODES[1]])
    _, first = np.unique(rows, axis=0, return_index=True)
    rows = rows[np.sort(first)]
    inputs, labels = rows[:, :-1], rows[:, -1].astype(np.int64)
    train, test = stratified_split(labels, TRAIN)
    train_inputs, test_inputs = run_steps(inputs[train], inputs[test], [standardise])
    return table_content(train_inputs, labels[train], test_inputs, labels[test], FEATURES)


DATASET = Dataset(
    name=NAME,
    title="Mushroom",
    source="https://archive.ics.uci.edu/dataset/73/mushroom",
    licence="CC BY 4.0",
    bibtex="""@misc{mushroom,
  author = {Schlimmer, Jeff},
  title = {Mushroom},
  year = {1987},
  howpublished = {UCI Machine Learning Repository},
  doi = {10.24432/C5959T}
}""",
    kind="table",
    classes=("edible", "poisonous"),
    sources=(Source(("agaricus-lepiota.data",), read),),
    prepare=prepare,
    settings=(
        Setting(
            NAME,
            Drawn("symmetric", 0.2),
            "mlp",
            # the widths are ours
            Recipe(epochs=344, batch_size=1024, learning_rate=1e-4, weight_decay=1e-3, widths=(134, 67)),
            horizon=800,
            accuracy=99.19,
        ),
        Setting(NAME, Drawn("symmetric", 0.2), "boosting", BoostingRecipe(70), in_paper=False),
    ),
    downloads=(Download("https://archive.ics.uci.edu/static/public/73/mushroom.zip", "mushroom.zip", unpack=True),),
    hashes={
        "attributes": "928fc1317eb765295226909b7a91bc6cf99aa994d828c352e85f280fe1d72c1d",
        "labels": "be3c27104e1b3aba4eebaf3373f9d3ccfaa54cb57996acf554bc8849622c2660",
    },
    paper=PaperRow(rows=7864, features="22", transformed="67", classes=2, train=5898, test=1966),
    class_counts=(3976, 3888),
)
