"""What a training costs, before it starts: operations, memory on disk, and whether it fits this machine."""

import os
import shutil
import sys
from itertools import pairwise
from pathlib import Path

from errata.bench.running.plan import Group
from errata.datasets.labelled import Labelled
from errata.datasets.settings import Setting
from errata.training.recipes import AnyRecipe, Recipe

FOLDS = 4
CURVES = 4  # one a measure
PASSES = 6  # operations of a training step for each multiplication of a forward pass
# at 32, 32, 224 and 128 pixels
IMAGE_MULTIPLICATIONS = {"cnn9": 746e6, "transformer": 180e6, "resnet18": 1.8e9, "resnet34": 1.2e9}
CPU_RATE = 5e10  # operations a second that convolutions reach on a few cores
PATIENCE_HOURS = 12.0  # a training that would take longer on a CPU is not begun there unasked


def operations(group: Group, recipe: Recipe, labelled: Labelled) -> float:
    """Of training all seeds, both ways through the network."""
    samples = len(labelled.given) * recipe.epochs / recipe.parts
    models = 1 if group.gathering == "in-sample" else FOLDS - 1  # folds train on what is left of the samples
    return PASSES * samples * models * len(group.seeds) * _multiplications(group.setting, recipe, labelled)


def dynamics_bytes(group: Group, recipe: AnyRecipe, labelled: Labelled) -> int:
    """Of the logits that all seeds leave on disk while they are trained and scored."""
    watched = len(labelled.scored) if recipe.parts > 1 else len(labelled.given)
    copies = 1 if group.gathering == "in-sample" else 2  # folds, and folds put together
    return 4 * recipe.epochs * watched * labelled.data.num_classes * len(group.seeds) * copies


def memory_bytes(recipe: AnyRecipe, labelled: Labelled) -> int:
    """Of the inputs, read and on their device, and of the curves that CTRL's measures hold while a seed is scored."""
    data = labelled.data
    inputs = 0 if data.kind == "image files" else data.train_inputs.nbytes + data.test_inputs.nbytes
    return 2 * inputs + 8 * CURVES * len(labelled.given) * recipe.epochs


def physical_memory() -> int:
    """Of this machine, in bytes; what cannot be known (Windows) does not limit anything."""
    if not hasattr(os, "sysconf"):
        return sys.maxsize
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def reason_to_skip(group: Group, recipe: AnyRecipe, labelled: Labelled, device: str, out: Path) -> str | None:
    """Why the group cannot be trained here, if it cannot."""
    if device == "cpu auto" and isinstance(recipe, Recipe):  # trees grow on the CPU anyway
        hours = operations(group, recipe, labelled) / CPU_RATE / 3600
        if hours > PATIENCE_HOURS:
            return f"needs a CUDA GPU: about {hours:,.0f} hours on this CPU (--device cpu runs it all the same)"
    needed, there = memory_bytes(recipe, labelled), physical_memory()
    if needed > there:
        return f"needs about {needed / 1e9:,.1f} GB of memory, and this machine has {there / 1e9:,.1f} GB"
    needed, free = dynamics_bytes(group, recipe, labelled), shutil.disk_usage(out).free
    if needed > free:
        return f"needs {needed / 1e9:,.1f} GB on disk for its dynamics, and {free / 1e9:,.1f} GB are free in {out}"
    return None


def _multiplications(setting: Setting, recipe: Recipe, labelled: Labelled) -> float:
    if setting.network != "mlp":
        return IMAGE_MULTIPLICATIONS[setting.network]
    widths = (labelled.data.train_inputs.shape[1], *recipe.widths, labelled.data.num_classes)
    return float(sum(inputs * outputs for inputs, outputs in pairwise(widths)))
