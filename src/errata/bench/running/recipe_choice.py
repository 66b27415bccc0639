"""Choose the recipe of a benchmark setting whose data is a table, as the paper did: on a noisy validation split."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd

from errata.bench.results import Results
from errata.bench.running.cell_training import table
from errata.datasets.loading import LabelledSetting, load_setting
from errata.errors import InputError
from errata.terminal import write_table
from errata.training import search
from errata.training.boosting import MAX_ROUNDS
from errata.training.recipes import BoostingRecipe, Recipe

MAX_EPOCHS = 800  # the paper's recipes have fewer


def choose_for(
    name: str,
    out: Path,
    data_dir: Path | None,
    device: str,
    progress: Callable[[float], object],
) -> str:
    """Search the recipe of a setting and store it with the results, networks tried beside it; returns a summary."""
    labelled = load_setting(name, data_dir)
    recipe, path = labelled.setting.recipe, Results(out).recipe_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(recipe, Recipe) and labelled.setting.network != "mlp":
        raise InputError(f"the data of {name} is not a table; its network and recipe are the paper's")
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


def _store(candidates: pd.DataFrame, chosen: Recipe, path: Path) -> None:
    networks = ["-".join(map(str, widths)) for widths in candidates["widths"]]
    write_table(candidates.assign(widths=networks), path.with_suffix(".csv"))
    chosen.save(path)


def _describe(recipe: Recipe) -> str:
    network = "-".join(map(str, recipe.widths))
    rates = f"learning rate {recipe.learning_rate:g}, weight decay {recipe.weight_decay:g}"
    return f"{network}, {rates}, {recipe.epochs} epochs"
