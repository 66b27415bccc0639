"""Training jobs, one per model: which rows a model is trained on, which are recorded, and what comes out."""

import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from errata.core.held_out_models import assign_folds
from errata.dynamics.merge import merge
from errata.dynamics.store import Dynamics
from errata.errors import StoreError
from errata.training.recipes import AnyRecipe, Recipe

if TYPE_CHECKING:
    from torch import Tensor

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """A model to train on `train_rows`, whose logits are recorded for the rows in `watched`.

    `watched` is all of the training rows, some of them, or the fold that is held out.
    """

    name: str
    recipe: Recipe
    train_rows: Rows
    watched: Rows


@dataclass(frozen=True)
class TrainingOptions:
    """What is recorded of a job besides its logits, and how often it is checkpointed.

    when: record the logits of the training pass, or those of the watched rows evaluated after every epoch.
    swa: record the logits of the averaged weights, with batch-norm statistics recomputed for them.
    features: record the inputs of the last layer and, for a table, its scaled columns, both used to find neighbours.
    stream: keep running sums for these methods instead of all logits; only without a folder.
    class_weights: "balanced" weights a sample in the loss of an MLP by 1 / samples with its label.
    """

    when: Literal["training pass", "after epoch"] = "training pass"
    swa: bool = True
    features: bool = False
    checkpoint_seconds: float = 30.0
    stream: tuple[str, ...] | None = None
    class_weights: Literal["balanced"] | None = None


@dataclass(frozen=True)
class JobResult:
    """The dynamics (ids are rows) and weights of a job; `stopped` is the reason if the job diverged."""

    job: TrainingJob
    dynamics: Dynamics | None
    weights: "dict[str, Tensor]"
    stopped: str | None = None


@dataclass(frozen=True)
class SeedResult:
    """The dynamics of one seed and the weights of its models; `stopped` is the reason if there are no dynamics."""

    seed: int
    dynamics: Dynamics | None
    weights: "tuple[dict[str, Tensor], ...]"
    stopped: str | None = None


def in_sample_jobs(
    samples: int, recipe: Recipe, seeds: tuple[int, ...], watched: Rows | None = None
) -> list[TrainingJob]:
    """One job per seed, each trained on all samples; `watched` rows are recorded, by default all."""
    everyone = np.arange(samples)
    recorded = everyone if watched is None else watched
    return [TrainingJob(f"seed{seed}", recipe.with_seed(seed), everyone, recorded) for seed in seeds]


def fold_jobs(labels: NDArray[np.int64], recipe: Recipe, seeds: tuple[int, ...], folds: int) -> list[TrainingJob]:
    """One job per seed and fold, trained on the other folds; the folds are the same for every seed."""
    fold = assign_folds(labels, folds)
    return [
        TrainingJob(f"seed{seed}-fold{k}", recipe.with_seed(seed), np.flatnonzero(fold != k), np.flatnonzero(fold == k))
        for seed in seeds
        for k in range(folds)
    ]


def merge_folds(
    recipe: AnyRecipe,
    shards: Sequence[Dynamics],
    labels: NDArray[np.int64],
    fold: NDArray[np.int64],
    folder: Path | None,
) -> Dynamics:
    """The held-out logits of all folds of one seed as one run over all samples; a run in the folder is reused."""
    path = None if folder is None else folder / f"seed{recipe.seed}-folds"
    if path is not None and path.exists():
        return Dynamics.open(path)
    return merge(shards, labels, path=path, fold=fold, settings=asdict(recipe))


def provenance(job: TrainingJob, labels: NDArray[np.int64], options: TrainingOptions) -> dict[str, Any]:
    """All that determines a job's result, except its inputs and its model."""
    arrays = {"labels": labels, "train_rows": job.train_rows, "watched": job.watched}
    hashes = {name: zlib.crc32(array.astype("<i8").tobytes()) for name, array in arrays.items()}
    relevant = {name: value for name, value in asdict(options).items() if value is not None}
    del relevant["checkpoint_seconds"]  # does not change the result
    return asdict(job.recipe) | relevant | hashes


def check_provenance(folder: Path, stored: dict[str, Any], expected: dict[str, Any]) -> None:
    """Raise an error if the folder holds the result of a different job."""
    for name, value in expected.items():
        if stored.get(name) != value:
            raise StoreError(f"{folder} holds a run with a different {name}. Use another folder, or delete this one.")
