"""Choosing a recipe as the paper does: by the 10-epoch rolling mean accuracy on a *noisy* validation split.

Nothing here sees a clean label: the split is taken from the given samples, wrong labels included.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from errata.errors import InputError
from errata.training.journal import Journal
from errata.training.model_inputs import Inputs, TableInputs
from errata.training.modules import Builder
from errata.training.recipes import Recipe
from errata.training.validation import Device, ShareDone, Trial, Tried

if TYPE_CHECKING:
    import pandas as pd

Search = Literal["full", "halving"]
Widths = tuple[int, ...]

SMALLEST_BASE, LARGEST_BASE = 8, 64
KEPT = 1 / 4  # of the candidates, from one stage of halving to the next
# The stages of a search: part of max_epochs to train, and share of the work that all candidates still there make up.
STAGES: dict[Search, tuple[tuple[float, float], ...]] = {
    "full": ((1, 1),),
    "halving": ((1 / 8, 2 / 5), (1 / 2, 2 / 5), (1, 1 / 5)),
}
STEP_OVERHEAD = 28_000  # weights whose arithmetic takes as long as the rest of a step of 1024 rows, measured on a CPU


@dataclass(frozen=True, eq=False)
class Choice:
    """The recipe that did best on the noisy validation split.

    accuracy: its rolling mean after the last of recipe.epochs. table: a row a candidate, best first, with widths,
    learning_rate, weight_decay, epochs (the best number of them), accuracy, parameters, trained (the number of epochs
    looked at) and stopped (why, for a candidate that diverged: it has no accuracy and is never chosen).
    """

    recipe: Recipe
    accuracy: float
    table: "pd.DataFrame"


def candidate_widths(features: int, num_classes: int) -> list[Widths]:
    """Hidden widths to search: CTRL's eight networks at each of several bases, smallest base first.

    For a base b these have two or three hidden layers of h1 in {2b, 4b}, h2 in {b, 2b} and h3 = b. CTRL has one base a
    dataset, up to ten times the number of features; networks that wide memorise, so the bases here go down from four
    times the number of features, but no more than 64, by halves to 8, which is the network 16-8. A base is no less than
    half the number of classes, which that many units have to tell apart.
    """
    if features < 1 or num_classes < 2:
        raise InputError(f"networks need at least one feature and two classes, not {features} and {num_classes}")
    smallest = max(SMALLEST_BASE, math.ceil(num_classes / 2))
    bases = [max(smallest, min(4 * features, LARGEST_BASE))]
    while bases[-1] // 2 >= smallest:
        bases.append(bases[-1] // 2)
    networks = (
        (first, second, *third)
        for base in reversed(bases)
        for third in ((), (base,))
        for first, second in product((2 * base, 4 * base), (base, 2 * base))
    )
    return list(dict.fromkeys(networks))


def choose_recipe(
    inputs: TableInputs,
    labels: ArrayLike,
    num_classes: int,
    *,
    batch_size: int = 1024,
    max_epochs: int = 800,
    validation: float = 0.2,
    widths: Sequence[Sequence[int]] | None = None,
    learning_rates: Sequence[float] = (1e-4, 1e-3, 1e-2),
    weight_decays: Sequence[float] = (0.0, 1e-3),
    search: Search = "full",
    seed: int = 0,
    device: Device = "auto",
    journal: Path | None = None,
    progress: ShareDone = lambda _: None,
) -> Choice:
    """Search an MLP's widths, learning rate, weight decay and number of epochs.

    search="full" trains every candidate for max_epochs, as the paper did: about a quarter of an hour for Satellite
    (4,435 x 36) on two cores. "halving" takes a third of that: all train for max_epochs / 8, the best quarter of each
    learning rate for max_epochs / 2, the best quarter of those for max_epochs. On Satellite it came within half a
    point of the full search's accuracy, but with a wide network at a low rate: what is small and learns slowly is out
    early, and wide networks memorise. `progress` is told which share of the whole search was just done.
    journal: a file to write down what was tried, from which a killed search goes on; it is removed at the end.
    """
    if not isinstance(inputs, TableInputs):
        raise InputError("hidden widths make an MLP, which takes a table; for other inputs use choose_epochs")
    hidden = candidate_widths(inputs.values.shape[1], num_classes) if widths is None else _check_widths(widths)
    grid = [
        Recipe(max_epochs, batch_size, rate, decay, seed=seed, widths=network)
        for network, rate, decay in dict.fromkeys(product(hidden, learning_rates, weight_decays))
    ]
    if not grid:
        raise InputError("there is nothing to choose from: widths, learning_rates or weight_decays is empty")
    if search not in STAGES:
        raise InputError(f"search must be one of {', '.join(STAGES)}, not {search!r}")
    trial = Trial.split(inputs, labels, num_classes, validation, seed, device)
    kept = None if journal is None else Journal(journal, _fingerprint(inputs, trial))
    tried: dict[Recipe, Tried] = {}
    left = grid
    for part, share in STAGES[search]:
        shares, epochs = _shares(left, inputs, num_classes), math.ceil(part * max_epochs)
        for network, recipes in groupby(left, lambda recipe: recipe.widths):
            group = list(recipes)
            run = partial(trial.run, network, group, epochs, share * shares[network])
            tried |= zip(group, _remembered(kept, group, epochs, share * shares[network], run, progress), strict=True)
        left = _best_of_each_rate(left, tried)
    if kept is not None:
        kept.forget()
    return _best(list(tried.values()))


def choose_epochs(
    inputs: Inputs,
    labels: ArrayLike,
    num_classes: int,
    build: Builder,
    recipe: Recipe,
    *,
    validation: float = 0.2,
    device: Device = "auto",
    progress: ShareDone = lambda _: None,
) -> Choice:
    """Choose only the number of epochs, up to those of `recipe`, for any module; recipe.seed also draws the split."""
    trial = Trial.split(inputs, labels, num_classes, validation, recipe.seed, device)
    return _best(trial.run(build, [recipe], recipe.epochs, 1.0, progress))


def _fingerprint(inputs: TableInputs, trial: Trial) -> str:
    """What tells a search on this split of this data from others."""
    digest = hashlib.sha256(f"{trial.num_classes} {trial.device.type} {tuple(inputs.values.shape)}".encode())
    for array in (inputs.values.cpu().numpy(), trial.labels, trial.validation_rows):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _remembered(
    journal: Journal | None,
    recipes: Sequence[Recipe],
    epochs: int,
    share: float,
    run: Callable[[ShareDone], list[Tried]],
    progress: ShareDone,
) -> list[Tried]:
    """What the recipes come to, each of them that share of a search: run now, unless the journal has it."""
    if journal is None:
        return run(progress)
    told = 0.0

    def tell(done: float) -> None:
        nonlocal told
        told += done
        progress(done)

    results = journal.remembered(recipes, epochs, lambda: run(tell))
    progress(len(recipes) * share - told)
    return results


def _shares(recipes: Sequence[Recipe], inputs: TableInputs, num_classes: int) -> dict[Widths, float]:
    """Which share of the work of training by all recipes each recipe of those widths is."""

    def effort(widths: Widths) -> int:
        layers = pairwise((inputs.values.shape[1], *widths, num_classes))
        return STEP_OVERHEAD + sum(before * after for before, after in layers)

    whole = sum(effort(recipe.widths) for recipe in recipes)
    return {recipe.widths: effort(recipe.widths) / whole for recipe in recipes}


def _best_of_each_rate(recipes: Sequence[Recipe], tried: dict[Recipe, "Tried"]) -> list[Recipe]:
    """The recipes to go on with, in the same order."""
    going_on: set[Recipe] = set()
    for rate in {recipe.learning_rate for recipe in recipes}:
        of_rate = [recipe for recipe in recipes if recipe.learning_rate == rate]
        fit = [recipe for recipe in of_rate if tried[recipe].stopped is None]
        going_on |= set(sorted(fit, key=lambda recipe: tried[recipe].rank())[: math.ceil(KEPT * len(of_rate))])
    return [recipe for recipe in recipes if recipe in going_on]


def _best(tried: Sequence[Tried]) -> Choice:
    """The choice among all that were tried."""
    import pandas as pd

    ranked = sorted(tried, key=Tried.rank)
    best = ranked[0]
    if best.stopped is not None:
        raise InputError(f"every candidate diverged, so none can be chosen; {best.stopped}")
    searched = pd.DataFrame([one.recipe for one in ranked])[["widths", "learning_rate", "weight_decay", "epochs"]]
    found = pd.DataFrame(ranked)[["accuracy", "parameters", "trained", "stopped"]]
    return Choice(best.recipe, best.accuracy, searched.join(found))


def _check_widths(widths: Sequence[Sequence[int]]) -> list[Widths]:
    for network in widths:
        if not all(isinstance(width, int | np.integer) and width >= 1 for width in network):
            raise InputError(f"hidden widths must be whole numbers of at least 1, not {tuple(network)}")
    return [tuple(int(width) for width in network) for network in widths]
