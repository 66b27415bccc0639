"""Train the seeds of a group of cells: whether this machine can, the training, and the test accuracy of the models."""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from errata.bench.plan import CellGroup
from errata.bench.running.as_published import min_max_scaled, published_network
from errata.datasets.loading import LabelledSetting
from errata.datasets.training_inputs import inputs
from errata.dynamics.ranking import analyse
from errata.errors import InputError
from errata.training import models
from errata.training.backbones import open_backbone
from errata.training.boosting import boosted_classes
from errata.training.efficientnet_lite import LITE
from errata.training.executors import evaluate
from errata.training.fine_tuning import SMALL_SIDE, FineTuned, fine_tuned_images
from errata.training.gather import Model, choose_device, gather
from errata.training.jobs import SeedResult, TrainingOptions
from errata.training.model_inputs import Inputs, TableInputs
from errata.training.recipes import AnyRecipe, Recipe
from errata.training.second_pass import second_pass, second_recipe
from errata.training.transforms import PadCropFlip

FOLDS = 4
CURVES = 4  # one per measure
PASSES = 6  # operations of a training step per multiplication of a forward pass
# at 32, 32, 224, 128 and 128 pixels
IMAGE_MULTIPLICATIONS = {"cnn9": 746e6, "transformer": 180e6, "resnet18": 1.8e9, "resnet34": 1.2e9, "lite0": 130e6}
CPU_RATE = 5e10  # operations per second of convolutions on a few cores
MAX_CPU_HOURS = 12.0  # a longer training does not start on a CPU without --device cpu


def device_name(device: str) -> str:
    """The name of the device: of the GPU, or "cpu". For "auto" without a GPU it is "cpu auto"."""
    chosen = choose_device(device)
    return torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else "cpu auto" if device == "auto" else "cpu"


def reason_to_skip(
    group: CellGroup, recipe: AnyRecipe, labelled: LabelledSetting, device: str, out: Path
) -> str | None:
    """Why the group cannot be trained on this machine, or None. The cost is estimated."""
    if device == "cpu auto" and isinstance(recipe, Recipe):  # boosting always uses the CPU
        hours = _operations(group, recipe, labelled) / CPU_RATE / 3600
        if hours > MAX_CPU_HOURS:
            return f"needs a CUDA GPU: about {hours:,.0f} hours on this CPU (--device cpu runs it anyway)"
    needed, there = memory_needed(recipe, labelled), physical_memory()
    if needed > there:
        return f"needs about {needed / 1e9:,.1f} GB of memory; this machine has {there / 1e9:,.1f} GB"
    # The logits of all seeds until they are scored. Folds are stored once more when they are merged.
    samples = len(labelled.scored) if recipe.parts > 1 else len(labelled.given)
    copies = 1 if group.gathering == "in-sample" else 2
    needed = 4 * recipe.epochs * samples * labelled.data.num_classes * len(group.seeds) * copies
    free = shutil.disk_usage(out).free
    if needed > free:
        return f"needs {needed / 1e9:,.1f} GB of disk space for its dynamics; {free / 1e9:,.1f} GB are free in {out}"
    return None


def memory_needed(recipe: AnyRecipe, labelled: LabelledSetting) -> int:
    """Bytes: the inputs, in RAM and on the device, and the curves that CTRL uses while a seed is scored."""
    data = labelled.data
    input_bytes = 0 if data.kind == "image files" else data.train_inputs.nbytes + data.test_inputs.nbytes
    return 2 * input_bytes + 8 * CURVES * len(labelled.given) * recipe.epochs


def _operations(group: CellGroup, recipe: Recipe, labelled: LabelledSetting) -> float:
    """Operations to train all seeds, forward and backward."""
    samples = len(labelled.given) * recipe.epochs / recipe.parts
    models = 1 if group.gathering == "in-sample" else FOLDS - 1  # each fold trains on the other folds
    if group.setting.network == "mlp":
        widths = (labelled.data.train_inputs.shape[1], *recipe.widths, labelled.data.num_classes)
        multiplications = float(sum(inputs * outputs for inputs, outputs in pairwise(widths)))
    else:
        multiplications = IMAGE_MULTIPLICATIONS[group.setting.network]
    return PASSES * samples * models * len(group.seeds) * multiplications


def physical_memory() -> int:
    """RAM of this machine in bytes; unlimited where it is unknown (Windows)."""
    if not hasattr(os, "sysconf"):
        return sys.maxsize
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def train_group(
    group: CellGroup,
    labelled: LabelledSetting,
    recipe: AnyRecipe,
    device: str,
    work: Path,
    progress: Callable[[int], object],
    *,
    as_published: bool = False,
) -> list[SeedResult]:
    """Train every seed in the folder `work`, from which an interrupted training resumes."""
    in_sample = group.gathering == "in-sample"
    options = TrainingOptions(swa=in_sample, features=in_sample and not as_published)  # only errata's methods use them
    if as_published and group.setting.network == "mlp":
        options = replace(options, class_weights="balanced")
    return gather(
        setting_inputs(labelled, "train", as_published=as_published),
        labelled.given,
        labelled.data.num_classes,
        network(labelled, as_published=as_published),
        recipe,
        folds=None if in_sample else FOLDS,
        seeds=group.seeds,
        options=options,
        device=device,
        folder=work,
        watched=labelled.scored if in_sample and recipe.parts > 1 else None,
        progress=progress,
    )


def train_second_pass(labelled: LabelledSetting, first: SeedResult, recipe: AnyRecipe, device: str, work: Path) -> Path:
    """Train the second pass of an in-sample run of a network, and return the folder of its dynamics."""
    if not isinstance(recipe, Recipe) or recipe.parts > 1:
        raise InputError("a second pass needs a network that is trained on all samples in every epoch: use --looks 1")
    assert first.dynamics is not None
    log_probabilities = analyse(first.dynamics).log_probabilities
    assert log_probabilities is not None
    values = setting_inputs(labelled, "train", as_published=False)
    on_table = isinstance(values, TableInputs)
    fine_tunes = labelled.setting.network in LITE
    again = second_recipe(recipe, len(labelled.given), pretrained=on_table or fine_tunes)
    folder, model = work / f"seed{first.seed}-second", network(labelled)
    dynamics = second_pass(
        *(values, labelled.given, log_probabilities, model, again),
        seed=first.seed,
        features=not on_table,
        device=device,
        folder=folder,
    )
    assert dynamics.path is not None
    return dynamics.path


def network(labelled: LabelledSetting, *, as_published: bool = False) -> Model | None:
    """A function that builds the setting's network; None for an MLP or boosting, which the recipe describes."""
    if labelled.setting.network in ("mlp", "boosting"):
        return None
    if as_published:
        return published_network(labelled.setting, labelled.data.num_classes)
    classes = labelled.data.num_classes
    if labelled.setting.network in LITE:
        backbone = open_backbone(labelled.setting.network)
        return lambda: FineTuned(backbone, classes)
    build = getattr(models, labelled.setting.network)
    return lambda: build(classes)


def setting_inputs(labelled: LabelledSetting, part: Literal["train", "test"], *, as_published: bool) -> Inputs:
    """The training or test part of a setting."""
    if labelled.setting.network in LITE:
        pixels = labelled.data.train_inputs if part == "train" else labelled.data.test_inputs
        preprocessing = open_backbone(labelled.setting.network).preprocessing
        return fine_tuned_images(np.array(pixels), preprocessing, SMALL_SIDE, PadCropFlip())
    values = inputs(labelled.data, part)
    if as_published and isinstance(values, TableInputs):
        return min_max_scaled(values, table(labelled, "train"))
    return values


def table(labelled: LabelledSetting, part: Literal["train", "test"]) -> TableInputs:
    """The training or test part of a setting whose data is a table."""
    values = inputs(labelled.data, part)
    assert isinstance(values, TableInputs)
    return values


def test_accuracy(
    labelled: LabelledSetting, recipe: AnyRecipe, result: SeedResult, device: str, *, as_published: bool
) -> float:
    """The share of the test samples that the model of an in-sample run classifies correctly."""
    if isinstance(recipe, Recipe):
        placed = setting_inputs(labelled, "test", as_published=as_published).to(choose_device(device))
        build = network(labelled, as_published=as_published)
        if callable(build):
            module = build()
        else:
            module = models.mlp((labelled.data.train_inputs.shape[1], *recipe.widths, labelled.data.num_classes))
        module.load_state_dict(result.weights[0])
        logits = evaluate(module.to(placed.device), placed, torch.arange(len(placed), device=placed.device))
        classes = logits.argmax(dim=1).cpu().numpy()
    else:
        assert result.dynamics is not None
        classes = boosted_classes(result.dynamics, table(labelled, "test"))
    return float(np.mean(classes == labelled.data.test_labels))
