"""Train the seeds of a group and say how well the models classify."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from errata.bench.cost import FOLDS
from errata.bench.plan import Cell, Group
from errata.datasets.inputs import inputs
from errata.datasets.labelled import Labelled
from errata.training.recipes import Recipe

if TYPE_CHECKING:
    from errata.training.gather import Gathered, Model


def choose_device(wanted: str) -> str:
    """The device of that name: "auto" is a GPU, if there is one."""
    import torch

    from errata.training.gather import choose_device as choose

    found = choose(wanted)
    return torch.cuda.get_device_name(found) if found.type == "cuda" else "cpu auto" if wanted == "auto" else "cpu"


def network(labelled: Labelled, recipe: Recipe) -> "Model":
    """The setting's network: hidden widths, or a function that builds it."""
    from errata.training import models

    if labelled.setting.network == "mlp":
        return recipe.widths
    build = getattr(models, labelled.setting.network)
    return lambda: build(labelled.data.num_classes)


def gather(
    group: Group,
    labelled: Labelled,
    recipe: Recipe,
    device: str,
    work: Path,
    progress: Callable[[int], object],
) -> "list[Gathered]":
    """The dynamics of every seed, trained side by side in the folder `work`, from which a killed training goes on."""
    from errata.training.engine import Options
    from errata.training.gather import in_sample, out_of_sample

    train = inputs(labelled.data, "train")
    common = (train, labelled.given, labelled.data.num_classes, network(labelled, recipe), recipe)
    if group.gathering == "out-of-sample":
        return out_of_sample(*common, folds=FOLDS, seeds=group.seeds, device=device, folder=work, progress=progress)
    watched = labelled.scored if recipe.parts > 1 else None
    return in_sample(
        *common,
        seeds=group.seeds,
        options=Options(swa=True),
        device=device,
        folder=work,
        watched=watched,
        progress=progress,
    )


def dynamics_folder(work: Path, cell: Cell) -> Path:
    """Where `gather` leaves the dynamics of a cell."""
    return work / (f"seed{cell.seed}/dynamics" if cell.gathering == "in-sample" else f"seed{cell.seed}-folds")


def test_accuracy(labelled: Labelled, recipe: Recipe, gathered: "Gathered", device: str) -> float:
    """Share of the test samples that the model of all samples classifies right."""
    import torch

    from errata.training.executors import evaluate
    from errata.training.gather import choose_device as choose
    from errata.training.models import mlp

    placed = inputs(labelled.data, "test").to(choose(device))
    model = network(labelled, recipe)
    widths = (labelled.data.train_inputs.shape[1], *recipe.widths, labelled.data.num_classes)
    module = model() if callable(model) else mlp(widths)
    module.load_state_dict(gathered.weights[0])
    logits = evaluate(module.to(placed.device), placed, torch.arange(len(placed), device=placed.device))
    return float(np.mean(logits.argmax(dim=1).cpu().numpy() == labelled.data.test_labels))
