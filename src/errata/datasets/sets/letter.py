"""Letter Recognition: capital letters, from statistics of distorted black-and-white images."""

import string
from pathlib import Path

import numpy as np

from errata.datasets import table_datasets as tables
from errata.datasets.label_noise import extra_noises
from errata.datasets.spec import PaperRow, ParsedArrays, PreparedArrays, Source
from errata.training.recipes import Recipe

NAME = "letter"
LETTERS = tuple(string.ascii_uppercase)
COLUMNS = 16
ROWS, TRAIN = 20_000, 15_000
RECIPE = Recipe(epochs=785, batch_size=1024, learning_rate=1e-3, widths=(128, 64))  # the paper prints no widths
# The six disjoint pairs that a classifier with five nearest neighbours confuses most often (true training labels, five
# folds). Flipped in both directions, so that about as many labels are wrong as with the class map of CIFAR-10.
SIMILAR_PAIRS = (("I", "J"), ("H", "K"), ("F", "P"), ("B", "R"), ("O", "Q"), ("T", "Y"))
FLIPS = (*SIMILAR_PAIRS, *((second, first) for first, second in SIMILAR_PAIRS))


def read(path: Path) -> ParsedArrays:
    """Read lines with a letter and 16 whole numbers from 0 to 15."""
    cells = tables.read_cells(path, columns=1 + COLUMNS)
    tables.check_rows(path, len(cells), ROWS)
    return ParsedArrays({"inputs": tables.as_integers(cells[:, 1:], path), "letters": cells[:, 0]})


def prepare(parsed: ParsedArrays) -> PreparedArrays:
    """Three quarters for training; clip outliers, standardise."""
    inputs = parsed.arrays["inputs"].astype(np.float64)
    labels = np.searchsorted(LETTERS, parsed.arrays["letters"])
    return tables.prepare_split(inputs, labels, TRAIN, [tables.clip_quantiles(1, 99), tables.standardise])


DATASET = tables.uci_table(
    page="59/letter+recognition",
    cite=("letter_recognition", "Slate, David", 1991, "10.24432/C5ZP40"),
    name=NAME,
    title="Letter Recognition",
    classes=LETTERS,
    sources=(Source(("letter-recognition.data",), read),),
    prepare=prepare,
    settings=tables.table_settings(NAME, RECIPE, 1570, 90.58, rounds=124, extra=extra_noises(FLIPS, held_out=6)),
    hashes={
        "inputs": "45647147b30f8ba59c2672022511b4d4ca42a197aa1e3a615db6baca288f39fe",
        "letters": "7ad582ee491044ce1d3f07c578bb9a9348d5740d904c31808a15e74b197eb85d",
    },
    paper=PaperRow(rows=20_000, features="16", transformed="16", classes=26, train=15_000, test=5000),
    class_counts=(
        *(789, 766, 736, 805, 768, 775, 773, 734, 755, 747, 739, 761, 792),
        *(783, 753, 803, 783, 758, 748, 796, 813, 764, 752, 787, 786, 734),
    ),
)
