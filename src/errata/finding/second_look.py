"""The second training pass of `find`, here or as a task of a Ray cluster."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from errata.dynamics.ranking import FEWEST_WRONG, RunAnalysis, second_pass_helps
from errata.dynamics.store import Dynamics
from errata.finding.cluster_training import by_scratch_folder, second_pass_on_cluster
from errata.memory import check_fits
from errata.readers import UserData
from errata.terminal import TrainingProgress
from errata.wording import percent

if TYPE_CHECKING:
    from errata.training.trials import Candidate

NO_SECOND_PASS = f"There was no second pass, because fewer than {percent(FEWEST_WRONG)} of the labels seem to be wrong."
LookAgain = Callable[[RunAnalysis], Dynamics | None]


def look_again(
    chosen: "Candidate",
    data: UserData,
    how: dict[str, Any],
    ray: str | None,
    folder: Path | None,
    progress: TrainingProgress,
    planned: int,
) -> LookAgain:
    """A function that trains a second pass; its progress names the work, and adds up to `planned`.

    It returns None if the first run shows that a second pass would not help.
    how: the options of `second_pass`. ray: the address of the cluster that trains it.
    """
    from errata.training.model_inputs import TableInputs
    from errata.training.out_of_memory import out_of_memory
    from errata.training.recipes import Recipe
    from errata.training.second_pass import second_pass, second_recipe

    assert isinstance(chosen.recipe, Recipe)
    on_table = isinstance(chosen.inputs, TableInputs)
    recipe = second_recipe(chosen.recipe, data.samples, pretrained=on_table or chosen.keeps_epochs)
    how = how | {"features": how["features"] and not on_table}

    def advance(done: float) -> None:
        progress.advance(done * planned / recipe.epochs)

    def train_into(first: NDArray[Any], own: Path | None) -> Dynamics:
        if ray is not None and own is not None:
            second_pass_on_cluster(ray, chosen, data, first, recipe, how, own, advance)
            advance(-recipe.epochs)  # `second_pass` reads it from the folder, and counts it again
        with out_of_memory(chosen.title):
            return second_pass(
                chosen.inputs, data.labels, first, chosen.model, recipe, folder=own, progress=advance, **how
            )

    def train(analysis: RunAnalysis) -> Dynamics | None:
        first = analysis.log_probabilities
        assert first is not None
        if not second_pass_helps(analysis):
            progress.advance(planned)
            return None
        size = 4.0 * recipe.epochs * data.samples * data.num_classes
        check_fits(size, f"the logits of a second pass over {data.samples:,} samples")
        views = 1 if on_table else 2
        work = views * recipe.epochs / chosen.recipe.epochs
        progress.begin(f"second pass of {chosen.title}, about {work:.1f} times the work of the first", recipe.epochs)
        return by_scratch_folder(partial(train_into, first)) if ray and folder is None else train_into(first, folder)

    return train
