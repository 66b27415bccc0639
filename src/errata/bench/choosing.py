"""Recipes chosen for the settings of tables, as the paper did: on a validation split with noisy labels."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from errata.bench.results import Results
from errata.datasets.inputs import inputs
from errata.datasets.labelled import load_setting
from errata.errors import InputError
from errata.terminal import write_table

if TYPE_CHECKING:
    from errata.training.choose import Choice

LONGEST = 800  # epochs: the paper's are all below


def choose_for(
    name: str, out: Path, data_dir: Path | None, device: str, progress: Callable[[float], object]
) -> "Choice":
    """Search a network and its training for a setting, and keep recipe and candidates among the results."""
    from errata.training.choose import choose_recipe
    from errata.training.data import Table

    labelled = load_setting(name, data_dir)
    if labelled.setting.network != "mlp":
        raise InputError(f"{name} is not a table: its network and recipe are the paper's")
    train = inputs(labelled.data, "train")
    assert isinstance(train, Table)
    choice = choose_recipe(
        train,
        labelled.given,
        labelled.data.num_classes,
        batch_size=labelled.setting.recipe.batch_size,
        max_epochs=LONGEST,
        device=device,
        progress=progress,
    )
    path = Results(out).recipe_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    candidates = choice.table.assign(widths=["-".join(map(str, widths)) for widths in choice.table["widths"]])
    write_table(candidates, path.with_suffix(".csv"))
    choice.recipe.save(path)
    return choice
