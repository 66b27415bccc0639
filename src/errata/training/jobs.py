"""Jobs: one model to train each, told apart by seed and fold."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from errata.errors import InputError
from errata.training.recipes import Recipe

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """A model to train on `train_rows`; `watched` rows are those whose logits are kept.

    They are the training rows themselves, a part of them, or a fold that is left out of training.
    """

    name: str
    recipe: Recipe
    train_rows: Rows
    watched: Rows


def in_sample_jobs(samples: int, recipe: Recipe, seeds: tuple[int, ...]) -> list[TrainingJob]:
    """A job a seed, each on all samples."""
    everyone = np.arange(samples)
    return [TrainingJob(f"seed{seed}", recipe.with_seed(seed), everyone, everyone) for seed in seeds]


def watched_jobs(samples: int, watched: Rows, recipe: Recipe, seeds: tuple[int, ...]) -> list[TrainingJob]:
    """A job a seed on all samples, of which only some are watched."""
    return [TrainingJob(f"seed{seed}", recipe.with_seed(seed), np.arange(samples), watched) for seed in seeds]


def fold_jobs(labels: NDArray[np.int64], recipe: Recipe, seeds: tuple[int, ...], folds: int) -> list[TrainingJob]:
    """A job a seed and fold; folds are stratified by given label, shuffled, and the same for every seed."""
    fold = assign_folds(labels, folds)
    return [
        TrainingJob(f"seed{seed}-fold{k}", recipe.with_seed(seed), np.flatnonzero(fold != k), np.flatnonzero(fold == k))
        for seed in seeds
        for k in range(folds)
    ]


def assign_folds(labels: NDArray[np.int64], folds: int) -> NDArray[np.int64]:
    """The fold (N,) of every sample: each class is dealt out as evenly as it goes, classes of any size."""
    if not 2 <= folds <= len(labels):
        raise InputError(f"{len(labels)} samples cannot be dealt out to {folds} folds")
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    fold = np.empty(len(labels), dtype=np.int64)
    fold[by_class] = np.arange(len(labels)) % folds  # goes on round where one class ends and the next begins
    return fold
