"""Train models by a recipe and record the dynamics of every sample.

In-sample, a sample's logits come from the training pass itself, before the update. Out-of-sample, they come from the
model of the fold that held the sample out, evaluated after every epoch.
"""

import operator
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from errata.core.held_out_models import assign_folds
from errata.errors import InputError
from errata.training.boosting import boost, boost_fold
from errata.training.engine import MakeExecutor, Progress, train
from errata.training.executors import Executor, ModuleExecutor
from errata.training.jobs import (
    JobResult,
    SeedResult,
    TrainingJob,
    TrainingOptions,
    fold_jobs,
    in_sample_jobs,
    merge_folds,
)
from errata.training.model_inputs import Inputs, TableInputs, check_labelled
from errata.training.recipes import AnyRecipe, BoostingRecipe, Recipe
from errata.training.stacked_executor import StackedExecutor
from errata.wording import one_line

Model = Callable[[], nn.Module] | nn.Module | Sequence[int]
LabelledData = tuple[Inputs, NDArray[np.int64], int, Model | None]
"""Inputs, labels, the number of classes, and the model, as `gather` gets them."""


def gather(
    inputs: Inputs,
    labels: NDArray[np.int64],
    num_classes: int,
    model: Model | None,
    recipe: AnyRecipe,
    *,
    folds: int | None = None,
    seeds: Sequence[int] = (0,),
    options: TrainingOptions | None = None,
    device: str | torch.device = "auto",
    folder: Path | None = None,
    side_by_side: int | None = None,
    watched: NDArray[np.int64] | None = None,
    progress: Progress = lambda _: None,
) -> list[SeedResult]:
    """Train once per seed on all samples, or with `folds` once per seed and fold on the other folds.

    model: a function that builds a module, a module whose weights every run starts from, or the hidden widths of an
    MLP. None means the MLP with recipe.widths, or gradient boosting if `recipe` is a BoostingRecipe.
    watched (n,): record only these rows, after every epoch. This is how a few samples of a large dataset are recorded,
    and where an epoch may be a part of a pass (Recipe.parts). The ids of the dynamics are these rows.
    """
    seeds = tuple(operator.index(seed) for seed in seeds)
    labels = check_labelled(inputs, labels, num_classes)
    options = options or TrainingOptions(swa=folds is None)
    if isinstance(recipe, BoostingRecipe):
        return boost(inputs, labels, num_classes, recipe, seeds, folds, folder, options.stream, progress)
    if folds is not None or watched is not None:
        options = replace(options, when="after epoch")
    elif recipe.parts > 1 and options.when == "training pass":
        raise InputError("an epoch that is a part of a pass does not train on every sample; name the rows in watched=")
    if folds is None:
        jobs = in_sample_jobs(len(labels), recipe, seeds, watched)
    else:
        jobs = fold_jobs(labels, recipe, seeds, folds)
    make_executor = _executors((inputs, labels, num_classes, model), recipe, options, device)
    results = train(jobs, labels, make_executor, options, folder, side_by_side, progress)
    fold, models = (None, 1) if folds is None else (assign_folds(labels, folds), folds)
    return [
        _result_of_seed(recipe.with_seed(seed), results[start : start + models], labels, fold, folder)
        for seed, start in zip(seeds, range(0, len(results), models), strict=True)
    ]


def train_into(
    folder: Path,
    data: LabelledData,
    recipe: AnyRecipe,
    folds: int | None,
    number: int,
    options: TrainingOptions,
    device: str,
) -> None:
    """Train on all samples, or the model of one fold, into a folder where `gather` with this folder finds it.

    recipe: with its seed.
    """
    inputs, labels, num_classes, model = data
    if folds is None:
        gather(*data, recipe, seeds=(recipe.seed,), options=options, device=device, folder=folder)
        return
    labels = check_labelled(inputs, labels, num_classes)
    if isinstance(recipe, BoostingRecipe):
        boost_fold(inputs, labels, num_classes, recipe, folds, number, folder)
        return
    options = replace(options, when="after epoch")
    make_executor = _executors((inputs, labels, num_classes, model), recipe, options, device)
    job = fold_jobs(labels, recipe, (recipe.seed,), folds)[number]
    train([job], labels, make_executor, options, folder)


def _executors(
    data: LabelledData, recipe: Recipe, options: TrainingOptions, device: str | torch.device
) -> MakeExecutor:
    inputs, labels, num_classes, model = data
    return executor_for(
        recipe.widths if model is None else model,
        inputs,
        labels,
        num_classes,
        device,
        keep_passes=options.when == "training pass",
        balanced=options.class_weights == "balanced",
    )


def _result_of_seed(
    recipe: Recipe,
    results: Sequence[JobResult],
    labels: NDArray[np.int64],
    fold: NDArray[np.int64] | None,
    folder: Path | None,
) -> SeedResult:
    """The only job of a seed, or its folds as one run."""
    weights = tuple(result.weights for result in results)
    stopped = next((result.stopped for result in results if result.stopped is not None), None)
    if stopped is not None:
        return SeedResult(recipe.seed, None, weights, stopped)
    parts = [result.dynamics for result in results if result.dynamics is not None]
    whole = parts[0] if fold is None else merge_folds(recipe, parts, labels, fold, folder)
    return SeedResult(recipe.seed, whole, weights)


def executor_for(
    model: Model,
    inputs: Inputs,
    labels: NDArray[np.int64],
    num_classes: int,
    device: str | torch.device = "auto",
    *,
    keep_passes: bool = True,
    balanced: bool = False,
) -> MakeExecutor:
    """A function that makes the executor of a group of jobs: stacked for MLPs on a table, else one module per job.

    balanced: in the loss of MLPs, a sample has the weight 1 / samples with its label.
    """
    placed = inputs.to(choose_device(device))
    label_tensor = torch.from_numpy(labels)
    if isinstance(model, nn.Module):
        model = partial(deepcopy, model)

    def make(jobs: Sequence[TrainingJob]) -> Executor:
        if callable(model):
            if balanced:
                raise InputError("class_weights='balanced' is only for MLPs that are given by their widths")
            return ModuleExecutor(jobs, placed, label_tensor, num_classes, model, keep_passes=keep_passes)
        if not isinstance(placed, TableInputs):
            raise InputError("hidden widths describe an MLP, which needs a table; pass a function that builds a module")
        return StackedExecutor(jobs, placed, label_tensor, num_classes, model, balanced=balanced)

    return make


def choose_device(name: str | torch.device) -> torch.device:
    """The device of that name, or an error if it does not exist here; "auto" is the GPU if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type == "cuda" and not torch.cuda.is_available():
            raise InputError("torch finds no GPU here; use device 'auto' or 'cpu'")
        torch.zeros(1, device=device).item()
    except (RuntimeError, TypeError, AssertionError, ImportError) as error:  # by the type of the device
        shown = f"named {one_line(name)!r}" if isinstance(name, str) else repr(name)
        raise InputError(f"there is no device {shown} here; use 'auto', 'cpu' or 'cuda'") from error
    return device
