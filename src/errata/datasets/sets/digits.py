"""Digits: handwritten digits in 8 × 8 pixels, which scikit-learn brings along."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from errata.datasets.noises import Asymmetric, Imbalanced, InstanceDependent, OpenSet
from errata.datasets.settings import Drawn, Setting
from errata.datasets.spec import Content, Dataset, Prepared, Raw, Source
from errata.datasets.steps import stratified_split
from errata.datasets.tables import table_content
from errata.training.recipes import BoostingRecipe, Recipe

NAME = "digits"
SIDE, BRIGHTEST = 8, 16
FEATURES = tuple(f"row{row}_column{column}" for row in range(1, SIDE + 1) for column in range(1, SIDE + 1))
TRAIN = 1347
RECIPE = Recipe(epochs=100, batch_size=128, learning_rate=1e-3, widths=(64,))
# the class map of Patrini et al. (2017) for MNIST
LOOK_ALIKES = (("2", "7"), ("3", "8"), ("5", "6"), ("6", "5"), ("7", "1"))
NOISES = (
    Drawn("symmetric", 0.2),
    Drawn("pairflip", 0.2),
    Asymmetric(0.4, flips=LOOK_ALIKES),
    InstanceDependent(0.2),
    Imbalanced(0.2),
    OpenSet(0.2, held_out=2),
)


def read(paths: Sequence[Path]) -> Raw:
    """64 pixels from 0 to 16, and the digit; from scikit-learn, not from a file."""
    from sklearn.datasets import load_digits

    inputs, labels = load_digits(return_X_y=True)
    return Raw({"inputs": inputs, "labels": labels.astype(np.int64)})


def prepare(raw: Raw, base: Prepared | None) -> Content:
    """Three quarters for training; pixels from 0 to 1."""
    inputs, labels = raw.arrays["inputs"] / BRIGHTEST, raw.arrays["labels"]
    train, test = stratified_split(labels, TRAIN)
    return table_content(inputs[train], labels[train], inputs[test], labels[test], FEATURES)


DATASET = Dataset(
    name=NAME,
    title="Optical Recognition of Handwritten Digits (8 × 8, test part)",
    source="https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
    licence="CC BY 4.0",
    bibtex="""@misc{optical_digits,
  author = {Alpaydin, Ethem and Kaynak, Cenk},
  title = {Optical Recognition of Handwritten Digits},
  year = {1998},
  howpublished = {UCI Machine Learning Repository},
  doi = {10.24432/C50P49}
}""",
    kind="table",
    classes=tuple("0123456789"),
    sources=(Source((), read),),
    prepare=prepare,
    settings=(
        *(Setting(NAME, noise, "mlp", RECIPE, in_paper=False) for noise in NOISES),
        Setting(NAME, Drawn("symmetric", 0.2), "boosting", BoostingRecipe(90), in_paper=False),
        Setting(NAME, Drawn("pairflip", 0.2), "boosting", BoostingRecipe(163), in_paper=False),
    ),
    hashes={
        "inputs": "11a9196c7e923a1379b0001943e0f76bc3d36c7b9a7500f54184152e1a03ea5f",
        "labels": "baefd1f0eeaa9ecfda21c3e57cefdc240578f5701c6ea0b6c31d6eb9e8a29c9b",
    },
    class_counts=(178, 182, 177, 183, 181, 182, 181, 179, 174, 180),
)
