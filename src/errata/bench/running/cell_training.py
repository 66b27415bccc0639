"""Train the seeds of a group and say how well the models classify."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from errata.bench.plan import Cell, CellGroup
from errata.bench.running.cost import FOLDS
from errata.datasets.loading import LabelledSetting
from errata.datasets.training_inputs import inputs
from errata.training.recipes import AnyRecipe, BoostingRecipe, Recipe

if TYPE_CHECKING:
    from errata.training.gather import Model, SeedResult
    from errata.training.model_inputs import TableInputs


def choose_device(wanted: str) -> str:
    """The device of that name: "auto" is a GPU, if there is one."""
    import torch

    from errata.training.gather import choose_device as choose

    found = choose(wanted)
    return torch.cuda.get_device_name(found) if found.type == "cuda" else "cpu auto" if wanted == "auto" else "cpu"


def trained_on(recipe: AnyRecipe, machine: str) -> str:
    """The device that models are trained on, on a machine as `choose_device` names it: trees grow on the CPU."""
    return "cpu" if isinstance(recipe, BoostingRecipe) else machine.removesuffix(" auto")


def network(labelled: LabelledSetting, recipe: Recipe) -> "Model":
    """The setting's network: hidden widths, or a function that builds it."""
    from errata.training import models

    if labelled.setting.network == "mlp":
        return recipe.widths
    build = getattr(models, labelled.setting.network)
    return lambda: build(labelled.data.num_classes)


def gather(
    group: CellGroup,
    labelled: LabelledSetting,
    recipe: AnyRecipe,
    device: str,
    work: Path,
    progress: Callable[[int], object],
) -> "list[SeedResult]":
    """The dynamics of every seed, trained side by side in the folder `work`, from which a killed training goes on."""
    from errata.training.gather import in_sample, out_of_sample
    from errata.training.tracks import TrainingOptions

    if isinstance(recipe, BoostingRecipe):
        return _boost(group, labelled, recipe, work, progress)
    train = inputs(labelled.data, "train")
    common = (train, labelled.given, labelled.data.num_classes, network(labelled, recipe), recipe)
    if group.gathering == "out-of-sample":
        return out_of_sample(*common, folds=FOLDS, seeds=group.seeds, device=device, folder=work, progress=progress)
    watched = labelled.scored if recipe.parts > 1 else None
    return in_sample(
        *common,
        seeds=group.seeds,
        options=TrainingOptions(swa=True, features=True),
        device=device,
        folder=work,
        watched=watched,
        progress=progress,
    )


def _boost(
    group: CellGroup, labelled: LabelledSetting, recipe: BoostingRecipe, work: Path, progress: Callable[[int], object]
) -> "list[SeedResult]":
    from errata.training.boosting import boost_in_sample, boost_out_of_sample

    common = (table(labelled, "train"), labelled.given, labelled.data.num_classes, recipe)
    if group.gathering == "out-of-sample":
        return boost_out_of_sample(*common, folds=FOLDS, seeds=group.seeds, folder=work, progress=progress)
    return boost_in_sample(*common, seeds=group.seeds, folder=work, progress=progress)


def table(labelled: LabelledSetting, part: Literal["train", "test"]) -> "TableInputs":
    """The training or test part of a setting of a table."""
    from errata.training.model_inputs import TableInputs

    values = inputs(labelled.data, part)
    assert isinstance(values, TableInputs)
    return values


def dynamics_folder(work: Path, cell: Cell) -> Path:
    """Where `gather` leaves the dynamics of a cell."""
    return work / (f"seed{cell.seed}/dynamics" if cell.gathering == "in-sample" else f"seed{cell.seed}-folds")


def test_accuracy(labelled: LabelledSetting, recipe: AnyRecipe, gathered: "SeedResult", device: str) -> float:
    """Share of the test samples that the model of all samples classifies right."""
    if isinstance(recipe, BoostingRecipe):
        from errata.training.boosting import boosted_classes

        assert gathered.dynamics is not None
        classes = boosted_classes(gathered.dynamics, table(labelled, "test"))
        return float(np.mean(classes == labelled.data.test_labels))
    return _network_accuracy(labelled, recipe, gathered, device)


def _network_accuracy(labelled: LabelledSetting, recipe: Recipe, gathered: "SeedResult", device: str) -> float:
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
