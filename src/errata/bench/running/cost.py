"""What a training costs, estimated before it starts: operations, memory and disk space."""

import os
import shutil
import sys
from itertools import pairwise
from pathlib import Path

from errata.bench.plan import CellGroup
from errata.datasets.loading import LabelledSetting
from errata.training.recipes import AnyRecipe, Recipe

FOLDS = 4
CURVES = 4  # one per measure
PASSES = 6  # operations of a training step per multiplication of a forward pass
# at 32, 32, 224 and 128 pixels
IMAGE_MULTIPLICATIONS = {"cnn9": 746e6, "transformer": 180e6, "resnet18": 1.8e9, "resnet34": 1.2e9}
CPU_RATE = 5e10  # operations per second of convolutions on a few cores
MAX_CPU_HOURS = 12.0  # a longer training does not start on a CPU without --device cpu


def operations(group: CellGroup, recipe: Recipe, labelled: LabelledSetting) -> float:
    """Operations to train all seeds, forward and backward."""
    samples = len(labelled.given) * recipe.epochs / recipe.parts
    models = 1 if group.gathering == "in-sample" else FOLDS - 1  # each fold trains on the other folds
    if group.setting.network == "mlp":
        widths = (labelled.data.train_inputs.shape[1], *recipe.widths, labelled.data.num_classes)
        multiplications = float(sum(inputs * outputs for inputs, outputs in pairwise(widths)))
    else:
        multiplications = IMAGE_MULTIPLICATIONS[group.setting.network]
    return PASSES * samples * models * len(group.seeds) * multiplications


def dynamics_bytes(group: CellGroup, recipe: AnyRecipe, labelled: LabelledSetting) -> int:
    """Disk space for the logits of all seeds until they are scored."""
    samples = len(labelled.scored) if recipe.parts > 1 else len(labelled.given)
    copies = 1 if group.gathering == "in-sample" else 2  # the folds, and the folds merged
    return 4 * recipe.epochs * samples * labelled.data.num_classes * len(group.seeds) * copies


def memory_bytes(recipe: AnyRecipe, labelled: LabelledSetting) -> int:
    """Memory for the inputs, in RAM and on the device, and for the curves that CTRL uses while a seed is scored."""
    data = labelled.data
    inputs = 0 if data.kind == "image files" else data.train_inputs.nbytes + data.test_inputs.nbytes
    return 2 * inputs + 8 * CURVES * len(labelled.given) * recipe.epochs


def physical_memory() -> int:
    """RAM of this machine in bytes; unlimited where it is unknown (Windows)."""
    if not hasattr(os, "sysconf"):
        return sys.maxsize
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def reason_to_skip(
    group: CellGroup, recipe: AnyRecipe, labelled: LabelledSetting, device: str, out: Path
) -> str | None:
    """Why the group cannot be trained on this machine, or None."""
    if device == "cpu auto" and isinstance(recipe, Recipe):  # boosting always uses the CPU
        hours = operations(group, recipe, labelled) / CPU_RATE / 3600
        if hours > MAX_CPU_HOURS:
            return f"needs a CUDA GPU: about {hours:,.0f} hours on this CPU (--device cpu runs it anyway)"
    needed, there = memory_bytes(recipe, labelled), physical_memory()
    if needed > there:
        return f"needs about {needed / 1e9:,.1f} GB of memory; this machine has {there / 1e9:,.1f} GB"
    needed, free = dynamics_bytes(group, recipe, labelled), shutil.disk_usage(out).free
    if needed > free:
        return f"needs {needed / 1e9:,.1f} GB of disk space for its dynamics; {free / 1e9:,.1f} GB are free in {out}"
    return None
