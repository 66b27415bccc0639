"""Train the seeds of a group of cells, and measure the test accuracy of their models."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from errata.bench.plan import Cell, CellGroup
from errata.bench.running.cost import FOLDS
from errata.datasets.loading import LabelledSetting
from errata.datasets.training_inputs import inputs
from errata.training.recipes import AnyRecipe, BoostingRecipe, Recipe

if TYPE_CHECKING:
    from errata.training.gather import Model
    from errata.training.jobs import SeedResult
    from errata.training.model_inputs import TableInputs


def device_name(device: str) -> str:
    """The name of the device: of the GPU, or "cpu". For "auto" without a GPU it is "cpu auto"."""
    import torch

    from errata.training.gather import choose_device

    chosen = choose_device(device)
    return torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else "cpu auto" if device == "auto" else "cpu"


def training_device(recipe: AnyRecipe, name: str) -> str:
    """The device that a recipe is trained on, if `device_name` is `name`: boosting runs on the CPU."""
    return "cpu" if isinstance(recipe, BoostingRecipe) else name.removesuffix(" auto")


def network(labelled: LabelledSetting) -> "Model | None":
    """A function that builds the setting's network; None for an MLP or boosting, which the recipe describes."""
    from errata.training import models

    if labelled.setting.network in ("mlp", "boosting"):
        return None
    build = getattr(models, labelled.setting.network)
    return lambda: build(labelled.data.num_classes)


def train_group(
    group: CellGroup,
    labelled: LabelledSetting,
    recipe: AnyRecipe,
    device: str,
    work: Path,
    progress: Callable[[int], object],
) -> "list[SeedResult]":
    """Train every seed in the folder `work`, from which an interrupted training resumes."""
    from errata.training.gather import gather
    from errata.training.jobs import TrainingOptions

    in_sample = group.gathering == "in-sample"
    return gather(
        inputs(labelled.data, "train"),
        labelled.given,
        labelled.data.num_classes,
        network(labelled),
        recipe,
        folds=None if in_sample else FOLDS,
        seeds=group.seeds,
        options=TrainingOptions(swa=True, features=True) if in_sample else None,
        device=device,
        folder=work,
        watched=labelled.scored if in_sample and recipe.parts > 1 else None,
        progress=progress,
    )


def dynamics_folder(work: Path, cell: Cell) -> Path:
    """Where `train_group` writes the dynamics of a cell."""
    return work / (f"seed{cell.seed}/dynamics" if cell.gathering == "in-sample" else f"seed{cell.seed}-folds")


def table(labelled: LabelledSetting, part: Literal["train", "test"]) -> "TableInputs":
    """The training or test part of a setting whose data is a table."""
    from errata.training.model_inputs import TableInputs

    values = inputs(labelled.data, part)
    assert isinstance(values, TableInputs)
    return values


def test_accuracy(labelled: LabelledSetting, recipe: AnyRecipe, result: "SeedResult", device: str) -> float:
    """The share of the test samples that the model of an in-sample run classifies correctly."""
    if isinstance(recipe, Recipe):
        classes = _network_classes(labelled, recipe, result, device)
    else:
        from errata.training.boosting import boosted_classes

        assert result.dynamics is not None
        classes = boosted_classes(result.dynamics, table(labelled, "test"))
    return float(np.mean(classes == labelled.data.test_labels))


def _network_classes(labelled: LabelledSetting, recipe: Recipe, result: "SeedResult", device: str) -> NDArray[np.int64]:
    import torch

    from errata.training.executors import evaluate
    from errata.training.gather import choose_device
    from errata.training.models import mlp

    placed = inputs(labelled.data, "test").to(choose_device(device))
    build = network(labelled)
    widths = (labelled.data.train_inputs.shape[1], *recipe.widths, labelled.data.num_classes)
    module = build() if callable(build) else mlp(widths)
    module.load_state_dict(result.weights[0])
    logits = evaluate(module.to(placed.device), placed, torch.arange(len(placed), device=placed.device))
    return logits.argmax(dim=1).cpu().numpy()
