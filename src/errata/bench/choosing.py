"""Recipes chosen for the settings of tables, as the paper did: on a validation split with noisy labels."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from errata.bench.results import Results
from errata.bench.training import table
from errata.datasets.labelled import Labelled, load_setting
from errata.errors import InputError
from errata.terminal import write_table
from errata.training.recipes import Recipe, Rounds

LONGEST = 800  # epochs: the paper's are all below


def choose_for(name: str, out: Path, data_dir: Path | None, device: str, progress: Callable[[float], object]) -> str:
    """Search a setting's training and keep the recipe among the results; what was found, in words."""
    labelled = load_setting(name, data_dir)
    recipe, path = labelled.setting.recipe, Results(out).recipe_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(recipe, Rounds):
        return _choose_rounds(labelled, recipe, path, progress)
    if labelled.setting.network != "mlp":
        raise InputError(f"{name} is not a table: its network and recipe are the paper's")
    return _choose_network(labelled, recipe, path, device, progress)


def _choose_rounds(labelled: Labelled, recipe: Rounds, path: Path, progress: Callable[[float], object]) -> str:
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
    labelled: Labelled, recipe: Recipe, path: Path, device: str, progress: Callable[[float], object]
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
        progress=progress,
    )
    candidates = choice.table.assign(widths=["-".join(map(str, widths)) for widths in choice.table["widths"]])
    write_table(candidates, path.with_suffix(".csv"))
    found = choice.recipe
    found.save(path)
    network = "-".join(map(str, found.widths))
    rates = f"learning rate {found.learning_rate:g}, weight decay {found.weight_decay:g}"
    return f"{network}, {rates}, {found.epochs} epochs: {choice.accuracy:.2%} of noisy labels"
