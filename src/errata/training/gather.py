"""Gathering: who trains on whom, and which logits of whom are kept.

In-sample, a sample's logits come from the training pass itself, before the update. Out-of-sample, they come from the
model of the fold that left the sample out, after every epoch.
"""

import operator
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from errata.core.checks import check_labels
from errata.dynamics.merge import merge
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.training.engine import MakeExecutor, Progress, train
from errata.training.executors import Executor
from errata.training.jobs import TrainingJob, assign_folds, fold_jobs, in_sample_jobs, watched_jobs
from errata.training.model_inputs import Inputs, TableInputs
from errata.training.modules import ModuleExecutor
from errata.training.recipes import Recipe
from errata.training.stacked import StackedExecutor
from errata.training.tracks import Trained, TrainingOptions

Model = Callable[[], nn.Module] | nn.Module | Sequence[int]


@dataclass(frozen=True)
class SeedResult:
    """The dynamics of one seed and the weights of its models; `stopped` says why there are none, if there are none."""

    seed: int
    dynamics: Dynamics | None
    weights: tuple[dict[str, Tensor], ...]
    stopped: str | None = None


def in_sample(
    inputs: Inputs,
    labels: NDArray[np.int64],
    num_classes: int,
    model: Model,
    recipe: Recipe,
    *,
    seeds: Sequence[int] = (0,),
    options: TrainingOptions | None = None,
    device: str | torch.device = "auto",
    folder: Path | None = None,
    side_by_side: int | None = None,
    watched: NDArray[np.int64] | None = None,
    progress: Progress = lambda _: None,
) -> list[SeedResult]:
    """Train on all samples once a seed.

    `model` builds a module, or is the module from whose weights every run starts, or the hidden widths of an MLP.

    With `watched` rows only these are recorded, after every epoch, which may be a part of a pass (Recipe.parts): so a
    detection subset of a large set is followed closely. The dynamics' ids are then those rows.
    """
    given = _check(inputs, labels, num_classes)
    jobs = in_sample_jobs(len(given), recipe, _whole_numbers(seeds))
    if watched is not None:
        jobs = watched_jobs(len(given), _rows(watched, len(given)), recipe, _whole_numbers(seeds))
        options = replace(options or TrainingOptions(), when="after epoch")
    elif recipe.parts > 1 and (options is None or options.when == "training pass"):
        raise InputError("a part of a pass does not see every sample; name the rows to be watched after each part")
    options = options or TrainingOptions()
    keep_passes = options.when == "training pass"
    make = executor_for(model, inputs, given, num_classes, device, keep_passes=keep_passes)
    trained = train(jobs, given, num_classes, make, options, folder, side_by_side, progress)
    return [
        SeedResult(
            job.recipe.seed, result.dynamics if result.stopped is None else None, (result.weights,), result.stopped
        )
        for job, result in zip(jobs, trained, strict=True)
    ]


def out_of_sample(
    inputs: Inputs,
    labels: NDArray[np.int64],
    num_classes: int,
    model: Model,
    recipe: Recipe,
    *,
    folds: int = 4,
    seeds: Sequence[int] = (0,),
    options: TrainingOptions | None = None,
    device: str | torch.device = "auto",
    folder: Path | None = None,
    side_by_side: int | None = None,
    progress: Progress = lambda _: None,
) -> list[SeedResult]:
    """Train once a seed and fold on the other folds; the held-out logits of all folds become one run of all samples."""
    given = _check(inputs, labels, num_classes)
    jobs = fold_jobs(given, recipe, _whole_numbers(seeds), folds)
    make = executor_for(model, inputs, given, num_classes, device, keep_passes=False)
    held_out = replace(options or TrainingOptions(swa=False), when="after epoch")
    trained = train(jobs, given, num_classes, make, held_out, folder, side_by_side, progress)
    fold = assign_folds(given, folds)
    return [
        _put_together(seed, trained[number * folds : (number + 1) * folds], given, fold, recipe, folder)
        for number, seed in enumerate(_whole_numbers(seeds))
    ]


def executor_for(
    model: Model,
    inputs: Inputs,
    labels: NDArray[np.int64],
    num_classes: int,
    device: str | torch.device = "auto",
    *,
    keep_passes: bool = True,
) -> MakeExecutor:
    """How a group of jobs is trained on the device: MLPs on a table stacked, everything else module by module."""
    placed = inputs.to(choose_device(device))
    given = torch.from_numpy(labels)
    if isinstance(model, nn.Module):
        model = partial(deepcopy, model)

    def make(jobs: Sequence[TrainingJob]) -> Executor:
        if callable(model):
            return ModuleExecutor(jobs, placed, given, num_classes, model, keep_passes=keep_passes)
        if not isinstance(placed, TableInputs):
            raise InputError("hidden widths make an MLP, which takes a table; pass a function that builds a module")
        return StackedExecutor(jobs, placed, given, num_classes, model)

    return make


def choose_device(device: str | torch.device) -> torch.device:
    """The device of that name; "auto" is the GPU if there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)


def _put_together(
    seed: int,
    shards: Sequence[Trained],
    labels: NDArray[np.int64],
    fold: NDArray[np.int64],
    recipe: Recipe,
    folder: Path | None,
) -> SeedResult:
    weights = tuple(shard.weights for shard in shards)
    stopped = next((shard.stopped for shard in shards if shard.stopped is not None), None)
    if stopped is not None:
        return SeedResult(seed, None, weights, stopped)
    path = None if folder is None else folder / f"seed{seed}-folds"
    if path is not None and path.exists():
        return SeedResult(seed, Dynamics.open(path), weights)
    runs = [shard.dynamics for shard in shards if shard.dynamics is not None]
    return SeedResult(seed, merge(runs, labels, path=path, fold=fold, settings=asdict(recipe.with_seed(seed))), weights)


def _check(inputs: Inputs, labels: NDArray[np.int64], num_classes: int) -> NDArray[np.int64]:
    given = check_labels(labels, num_classes)
    if len(given) != len(inputs):
        raise InputError(f"there are {len(given)} labels for {len(inputs)} samples")
    return given


def _whole_numbers(seeds: Sequence[int]) -> tuple[int, ...]:
    """Seeds as plain integers, whatever kind of array they come in."""
    return tuple(operator.index(seed) for seed in seeds)


def _rows(watched: NDArray[np.int64], samples: int) -> NDArray[np.int64]:
    rows = np.asarray(watched)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or not len(rows):
        raise InputError("watched must be a list of row numbers")
    outside = np.flatnonzero((rows < 0) | (rows >= samples))
    if len(outside):
        raise InputError(f"watched row {int(rows[outside[0]])} is outside 0..{samples - 1}")
    distinct, counts = np.unique(rows, return_counts=True)
    if len(distinct) < len(rows):
        raise InputError(f"row {int(distinct[np.argmax(counts > 1)])} is watched twice")
    return rows.astype(np.int64)
