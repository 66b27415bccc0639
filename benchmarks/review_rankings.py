"""The rankings that `reviews.py` simulates reviews of: tables with 0 to 40 % wrong labels, and benchmark settings.

A ranking is made once by `errata.find` and kept in a folder.

ERRATA_DATA=... python benchmarks/review_rankings.py FOLDER [--images]
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import errata
from errata.core.noise import symmetric
from errata.datasets.loading import load_setting
from errata.datasets.locations import data_dir
from errata.review.reranking import NEIGHBOURS

RATES = (0.0, 0.01, 0.05, 0.2, 0.4)
SEED = 0
Data = tuple[NDArray[np.float64] | pd.DataFrame, NDArray[np.int64]]


class Ranked(NamedTuple):
    """A ranking with known errors, most suspicious first.

    wrong, p_wrong (N,). labels, truth (N,): the given and the true class. near (N, k): the places of the nearest
    neighbours; k is 0 if the run stored no features or inputs.
    """

    wrong: NDArray[np.int64]
    p_wrong: NDArray[np.float64]
    labels: NDArray[np.int64]
    truth: NDArray[np.int64]
    near: NDArray[np.int32]


def gaussians(separation: float, samples: int = 3000) -> Data:
    """Two classes of equal size, this many standard deviations apart in one of five columns."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 2, samples)
    inputs = rng.normal(size=(samples, 5))
    inputs[:, 0] += separation * (labels - 0.5)
    return inputs, labels


def more(name: str) -> Data:
    """A table of the folder `more`."""
    frame = pd.read_parquet(data_dir() / "more" / f"{name}.parquet")
    return frame.drop(columns="label"), pd.factorize(frame["label"], sort=True)[0].astype(np.int64)


def satellite() -> Data:
    """sat.trn."""
    rows = np.loadtxt(data_dir() / "satellite" / "sat.trn")
    return rows[:, :-1], np.unique(rows[:, -1], return_inverse=True)[1]


TABLES: dict[str, Callable[[], Data]] = {
    "digits": partial(load_digits, return_X_y=True),
    "satellite": satellite,
    "adult": partial(more, "adult"),
    "german": partial(more, "german"),
    "winequality": partial(more, "winequality"),
    **{f"overlap {separation:g}": partial(gaussians, separation) for separation in (0.5, 1, 2)},
}
# Those with data that a processor trains on within minutes. A setting with boosting has the labels of the one without.
SETTINGS = (
    *(f"digits-{noise}" for noise in ("pairflip-20", "asymmetric-40", "instance-20", "imbalanced-20", "openset-20")),
    *(f"letter-{noise}" for noise in ("symmetric-20", "asymmetric-40", "instance-20", "imbalanced-20", "openset-20")),
    *(
        f"{name}-symmetric-20"
        for name in ("digits", "cardiotocography", "credit_fraud", "human_activity", "mushroom", "satellite")
    ),
    *(f"{name}-symmetric-20" for name in ("sensorless_drive", "trec")),
)
# Ranked on a GPU with --images; `reviews.py` simulates those whose ranking is in the folder.
IMAGES = (
    *(f"cifar10-{noise}" for noise in ("pairflip-20", "symmetric-20", "symmetric-50", "asymmetric-40", "instance-20")),
    *(f"cifar10-{noise}" for noise in ("imbalanced-20", "openset-20")),
    *(f"cifar10n-{labels}" for labels in ("aggregate", "worse", "random1", "random2", "random3")),
    *(f"cifar100-{noise}" for noise in ("pairflip-20", "symmetric-20", "symmetric-50")),
    "cifar100n-noisy",
)
CASES = (*((name, rate) for name in TABLES for rate in RATES), *((name, None) for name in SETTINGS))


def cases(folder: Path) -> list[tuple[str, float | None]]:
    """All cases that can be simulated: settings of images only if their ranking is in the folder."""
    return [*CASES, *((name, None) for name in IMAGES if _path(name, None, folder).is_file())]


def _path(name: str, rate: float | None, folder: Path) -> Path:
    return folder / f"{name.replace(' ', '-')}{'' if rate is None else f'-{100 * rate:g}'}.npz"


def ranking(name: str, rate: float | None, folder: Path) -> Ranked:
    """The ranking of a table with this share of wrong labels, or of a setting (rate None)."""
    path = _path(name, rate, folder)
    if path.is_file():
        with np.load(path) as stored:
            return Ranked(**stored)
    inputs, given, true = _setting(name) if rate is None else _table(name, rate)
    found = errata.find(inputs, given, seed=SEED)
    rows = found.ranking["id"].to_numpy()
    ranked = Ranked(
        (given != true)[rows].astype(np.int64),
        found.ranking["p_wrong"].to_numpy(dtype=np.float64),
        given[rows],
        true[rows],
        _near(found, rows),
    )
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **ranked._asdict())
    return ranked


def _table(name: str, rate: float) -> tuple[NDArray[np.float64] | pd.DataFrame, NDArray[np.int64], NDArray[np.int64]]:
    inputs, clean = TABLES[name]()
    if not rate:
        return inputs, clean, clean
    return inputs, symmetric(clean, rate, num_classes=int(clean.max()) + 1, seed=SEED).labels, clean


def _setting(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """The samples of a setting. A wrong label whose sample belongs to none of the classes has the true class -1."""
    noisy = load_setting(name)
    given, clean = (np.asarray(labels, dtype=np.int64) for labels in (noisy.given, noisy.data.train_labels))
    return noisy.data.train_inputs, given, np.where(noisy.truth, np.where(clean == given, -1, clean), given)


def _near(found: errata.Found, rows: NDArray[np.int64]) -> NDArray[np.int32]:
    context = found.dynamics.context
    if not context.points:
        return np.empty((len(rows), 0), dtype=np.int32)
    place_of_row = np.empty(len(rows), dtype=np.int32)
    place_of_row[rows] = np.arange(len(rows), dtype=np.int32)
    index = context.nearest("features" if "features" in context.points else "inputs", NEIGHBOURS)
    return np.asarray(place_of_row[index[rows]])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", action="store_true", help="the settings of CIFAR instead of all others; on a GPU")
    arguments = parser.parse_args()
    for case in ((name, None) for name in IMAGES) if arguments.images else CASES:
        ranking(*case, arguments.folder)
        print(*case, flush=True)
