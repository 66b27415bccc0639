"""Recipes chosen for the settings of tables, as the paper did: on a validation split with noisy labels."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from errata.bench.results import Results
from errata.bench.running.cell_training import table
from errata.bench.running.printed import choose_printed
from errata.datasets.loading import LabelledSetting, load_setting
from errata.errors import InputError
from errata.terminal import write_table
from errata.training.recipes import BoostingRecipe, Recipe

if TYPE_CHECKING:
    import pandas as pd

LONGEST = 800  # epochs: the paper's are all below


def choose_for(
    name: str,
    out: Path,
    data_dir: Path | None,
    device: str,
    progress: Callable[[float], object],
    *,
    printed: bool = False,
) -> str:
    """Search a setting's training and keep the recipe among the results; what was found, in words.

    printed: take rates and epochs as the paper prints them, and search only the widths, by the printed accuracy.
    """
    labelled = load_setting(name, data_dir)
    recipe, path = labelled.setting.recipe, Results(out).recipe_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if printed and (not labelled.setting.in_paper or not isinstance(recipe, Recipe)):
        raise InputError(f"the paper prints no training of {name}")
    if isinstance(recipe, BoostingRecipe):
        return _choose_rounds(labelled, recipe, path, progress)
    if labelled.setting.network != "mlp":
        raise InputError(f"{name} is not a table: its network and recipe are the paper's")
    if printed:
        return _choose_printed(labelled, recipe, path, device, progress)
    return _choose_network(labelled, recipe, path, device, progress)


def _choose_rounds(
    labelled: LabelledSetting, recipe: BoostingRecipe, path: Path, progress: Callable[[float], object]
) -> str:
    from errata.training.boosting import LONGEST as MOST_ROUNDS
    from errata.training.boosting import choose_rounds

    chosen = choose_rounds(
        table(labelled, "train"),
        labelled.given,
        labelled.data.num_classes,
        replace(recipe, epochs=MOST_ROUNDS),
        progress=lambda rounds: progress(rounds / MOST_ROUNDS),
    )
    chosen.save(path)
    return f"{chosen.epochs} rounds have the least log loss of noisy labels"


def _choose_network(
    labelled: LabelledSetting, recipe: Recipe, path: Path, device: str, progress: Callable[[float], object]
) -> str:
    """The candidates are kept beside the recipe."""
    from errata.training.choose import choose_recipe

    choice = choose_recipe(
        table(labelled, "train"),
        labelled.given,
        labelled.data.num_classes,
        batch_size=recipe.batch_size,
        max_epochs=LONGEST,
        device=device,
        journal=path.with_suffix(".search.json"),
        progress=progress,
    )
    _keep(choice.table, choice.recipe, path)
    return f"{_in_words(choice.recipe)}: {choice.accuracy:.2%} of noisy labels"


def _choose_printed(
    labelled: LabelledSetting, recipe: Recipe, path: Path, device: str, progress: Callable[[float], object]
) -> str:
    accuracy = labelled.setting.accuracy
    assert accuracy is not None
    table = choose_printed(labelled, recipe, accuracy / 100, device, progress)
    found = replace(recipe, widths=table["widths"].iloc[0])
    _keep(table, found, path)
    reached = table["test_accuracy"].iloc[0]
    return f"{_in_words(found)}: test accuracy {reached:.2%}, the paper's is {accuracy:.2f}%"


def _keep(candidates: "pd.DataFrame", found: Recipe, path: Path) -> None:
    networks = ["-".join(map(str, widths)) for widths in candidates["widths"]]
    write_table(candidates.assign(widths=networks), path.with_suffix(".csv"))
    found.save(path)


def _in_words(recipe: Recipe) -> str:
    network = "-".join(map(str, recipe.widths))
    rates = f"learning rate {recipe.learning_rate:g}, weight decay {recipe.weight_decay:g}"
    return f"{network}, {rates}, {recipe.epochs} epochs"
