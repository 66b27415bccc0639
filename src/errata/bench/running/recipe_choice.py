"""Choose the recipe of a benchmark setting whose data is a table, as the paper did: on a noisy validation split."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from errata.bench.results import Results
from errata.bench.running.cell_training import table
from errata.datasets.loading import LabelledSetting, load_setting
from errata.errors import InputError
from errata.terminal import write_table
from errata.training import search
from errata.training.boosting import MAX_ROUNDS
from errata.training.gather import choose_device
from errata.training.model_inputs import TableInputs
from errata.training.recipes import BoostingRecipe, Recipe
from errata.training.trials import ValidationSplit, rolling_mean

MAX_EPOCHS = 800  # the paper's recipes have fewer
PRINTED_SEEDS = (0, 1, 2)


def choose_for(
    name: str,
    out: Path,
    data_dir: Path | None,
    device: str,
    progress: Callable[[float], object],
    *,
    printed: bool = False,
) -> str:
    """Search the recipe of a setting and store it with the results, networks tried beside it; returns a summary.

    printed: take the learning rate and epochs that the paper prints, and search only the widths (`choose_printed`).
    """
    labelled = load_setting(name, data_dir)
    recipe, path = labelled.setting.recipe, Results(out).recipe_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(recipe, Recipe) and labelled.setting.network != "mlp":
        raise InputError(f"the data of {name} is not a table; its network and recipe are the paper's")
    if printed:
        return _store_printed(labelled, path, device, progress)
    if isinstance(recipe, BoostingRecipe):
        return _store_rounds(labelled, recipe, path, progress)
    choice = search.choose_recipe(
        table(labelled, "train"),
        labelled.given,
        labelled.data.num_classes,
        batch_size=recipe.batch_size,
        max_epochs=MAX_EPOCHS,
        device=device,
        journal=path.with_suffix(".search.json"),
        progress=progress,
    )
    _store(choice.table, choice.recipe, path)
    return f"{_describe(choice.recipe)}: {choice.accuracy:.2%} of noisy labels"


def _store_rounds(
    labelled: LabelledSetting, recipe: BoostingRecipe, path: Path, progress: Callable[[float], object]
) -> str:
    chosen = search.choose_rounds(
        table(labelled, "train"),
        labelled.given,
        labelled.data.num_classes,
        replace(recipe, epochs=MAX_ROUNDS),
        progress=lambda rounds: progress(rounds / MAX_ROUNDS),
    )
    chosen.save(path)
    return f"{chosen.epochs} rounds have the lowest log loss on noisy labels"


def _store_printed(labelled: LabelledSetting, path: Path, device: str, progress: Callable[[float], object]) -> str:
    recipe, accuracy = labelled.setting.recipe, labelled.setting.accuracy
    if not labelled.setting.in_paper or not isinstance(recipe, Recipe) or accuracy is None:
        raise InputError(f"the paper prints no training of {labelled.setting.name}")
    networks = choose_printed(labelled, recipe, accuracy / 100, device, progress)
    chosen = replace(recipe, widths=networks["widths"].iloc[0])
    _store(networks, chosen, path)
    reached = networks["test_accuracy"].iloc[0]
    return f"{_describe(chosen)}: test accuracy {reached:.2%}, the paper's is {accuracy:.2f}%"


def choose_printed(
    labelled: LabelledSetting, recipe: Recipe, accuracy: float, device: str, progress: Callable[[float], object]
) -> pd.DataFrame:
    """Train every candidate network by the recipe that the paper prints; it does not print the widths.

    One row per network, the nearest to the printed test accuracy first. Columns: widths, test_accuracy (mean of three
    seeds over the last ten epochs) and difference. Test labels may be used here, because the result that is compared
    with the paper afterwards is another: the share of missed errors.
    """
    widths = search.candidate_widths(labelled.data.train_inputs.shape[1], labelled.data.num_classes)
    rows = []
    for network in widths:
        reached = _mean_test_accuracy(labelled, replace(recipe, widths=network), device)
        rows.append({"widths": network, "test_accuracy": reached, "difference": reached - accuracy})
        progress(1 / len(widths))
    return pd.DataFrame(rows).sort_values("difference", key=abs, kind="stable", ignore_index=True)


def _mean_test_accuracy(labelled: LabelledSetting, recipe: Recipe, device: str) -> float:
    """NaN if one of the seeds diverged."""
    values = torch.cat([table(labelled, "train").values, table(labelled, "test").values])
    labels = np.concatenate([labelled.given, labelled.data.test_labels])
    train_rows, test_rows = np.split(np.arange(len(labels)), [len(labelled.given)])
    split = ValidationSplit(labels, labelled.data.num_classes, train_rows, test_rows)
    recipes = {f"seed{seed}": recipe.with_seed(seed) for seed in PRINTED_SEEDS}
    results = split.train(TableInputs(values), recipe.widths, recipes, choose_device(device))
    if any(result.stopped is not None for result in results):
        return float("nan")
    return float(np.mean([rolling_mean(split.accuracies(result))[-1] for result in results]))


def _store(candidates: pd.DataFrame, chosen: Recipe, path: Path) -> None:
    networks = ["-".join(map(str, widths)) for widths in candidates["widths"]]
    write_table(candidates.assign(widths=networks), path.with_suffix(".csv"))
    chosen.save(path)


def _describe(recipe: Recipe) -> str:
    network = "-".join(map(str, recipe.widths))
    rates = f"learning rate {recipe.learning_rate:g}, weight decay {recipe.weight_decay:g}"
    return f"{network}, {rates}, {recipe.epochs} epochs"
