"""Digits: handwritten digits of 8 × 8 pixels, which are part of scikit-learn."""

import numpy as np

from errata.datasets.label_noise import PairflipNoise, SymmetricNoise, extra_noises
from errata.datasets.spec import Dataset, Noise, ParsedArrays, PreparedArrays, Setting, Source
from errata.datasets.table_datasets import REPOSITORY, citation, prepare_split
from errata.training.recipes import BoostingRecipe, Recipe

NAME = "digits"
BRIGHTEST = 16
TRAIN = 1347
RECIPE = Recipe(epochs=100, batch_size=128, learning_rate=1e-3, widths=(64,))
# the class map of Patrini et al. (2017) for MNIST
SIMILAR_CLASSES = (("2", "7"), ("3", "8"), ("5", "6"), ("6", "5"), ("7", "1"))
NOISES: tuple[Noise, ...] = (
    SymmetricNoise(0.2),
    PairflipNoise(0.2),
    *extra_noises(SIMILAR_CLASSES, held_out=2),
)


def read() -> ParsedArrays:
    """64 pixels from 0 to 16, and the digit, from scikit-learn."""
    from sklearn.datasets import load_digits

    inputs, labels = load_digits(return_X_y=True)
    return ParsedArrays({"inputs": inputs, "labels": labels.astype(np.int64)})


def prepare(parsed: ParsedArrays) -> PreparedArrays:
    """Three quarters for training; pixels from 0 to 1."""
    return prepare_split(parsed.arrays["inputs"] / BRIGHTEST, parsed.arrays["labels"], TRAIN, [])


DATASET = Dataset(
    name=NAME,
    title="Optical Recognition of Handwritten Digits (8 × 8, test part)",
    source="https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
    licence="CC BY 4.0",
    bibtex=citation(
        "optical_digits",
        "Alpaydin, Ethem and Kaynak, Cenk",
        "Optical Recognition of Handwritten Digits",
        1998,
        REPOSITORY,
        doi="10.24432/C50P49",
    ),
    kind="table",
    classes=tuple("0123456789"),
    sources=(Source((), read),),
    prepare=prepare,
    settings=(
        *(Setting(NAME, noise, "mlp", RECIPE) for noise in NOISES),
        Setting(NAME, SymmetricNoise(0.2), "boosting", BoostingRecipe(90)),
        Setting(NAME, PairflipNoise(0.2), "boosting", BoostingRecipe(163)),
    ),
    hashes={
        "inputs": "11a9196c7e923a1379b0001943e0f76bc3d36c7b9a7500f54184152e1a03ea5f",
        "labels": "baefd1f0eeaa9ecfda21c3e57cefdc240578f5701c6ea0b6c31d6eb9e8a29c9b",
    },
    class_counts=(178, 182, 177, 183, 181, 182, 181, 179, 174, 180),
)
