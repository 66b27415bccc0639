"""The search for a model and a recipe: candidates, each tried on a noisy validation split, and the best of them.

`choose_model` compares different models by log loss, for `errata find`. `choose_recipe` searches the recipe of an MLP
by accuracy, as the paper does, for `errata choose` and `errata bench choose`. Neither uses a clean label.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby, pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.errors import InputError
from errata.training.boosting import MAX_ROUNDS, best_rounds
from errata.training.engine import Progress
from errata.training.gather import choose_device
from errata.training.model_inputs import TableInputs, check_labelled
from errata.training.out_of_memory import out_of_memory
from errata.training.recipes import BoostingRecipe, Recipe
from errata.training.trials import (
    AccuracyTrial,
    Candidate,
    SearchJournal,
    ValidationSplit,
    accuracy_trials,
    loss_trial,
)

if TYPE_CHECKING:
    import pandas as pd

VALIDATION = 0.2  # share of the samples

# Models.

MAX_TRIAL_SAMPLES = 50_000  # more samples did not improve the choice
# On up to 2,000 validation samples, a loss that is less than 2 % lower is not clearly lower. Boosting then ranks
# better: on Digits it missed 1.6 % of the errors, and an MLP of the same log loss 3.1 %.
CLEAR_DIFFERENCE, CLEAR_SAMPLES = 0.02, 2_000


@dataclass(frozen=True, eq=False)
class ModelTrial:
    """A candidate whose recipe has the number of epochs to train for, and its lowest log loss on the split."""

    candidate: Candidate
    loss: float


def choose_model(
    candidates: Sequence[Candidate],
    labels: NDArray[np.int64],
    num_classes: int,
    *,
    device: str,
    extend: float,
    folder: Path | None,
    checkpoint_seconds: float,
    begin: Callable[[str, int], object],
    progress: Progress,
) -> list[ModelTrial]:
    """Try all candidates; returns the chosen one first, then the others by their loss.

    A candidate is chosen over an earlier one of another kind only if its loss is clearly lower.
    extend: how many times the number of epochs with the lowest loss to train for.
    folder: interrupted trials resume from here. Its name must identify the data and the options.
    begin: called with a title and the largest number of epochs when a trial starts.
    """
    split = model_split(labels, num_classes, candidates[0].recipe.seed)
    journal = SearchJournal(None, "") if folder is None else SearchJournal(folder / "trials.json", folder.name)
    margin, placed = clear_difference(len(labels)), choose_device(device)
    trials: list[ModelTrial] = []

    def try_candidate(candidate: Candidate, checkpoint: Path | None, advance: Progress) -> list[Any]:
        begin(f"trying {candidate.title}", candidate.recipe.epochs)
        to_beat = _loss_to_beat(candidate, trials, margin)
        with out_of_memory(candidate.title):
            recipe, loss = loss_trial(candidate, split, placed, advance, to_beat, checkpoint, checkpoint_seconds)
        return [{"recipe": asdict(recipe), "loss": loss}]

    for number, candidate in enumerate(candidates):
        checkpoint = None if folder is None else folder / f"trial-{number}-{candidate.name}.begun"
        compute = partial(try_candidate, candidate, checkpoint)
        key = [candidate.name, asdict(candidate.recipe)]
        (result,) = journal.results(key, candidate.recipe.epochs, progress, compute)
        recipe = type(candidate.recipe).of(result["recipe"])
        if not candidate.keeps_epochs:
            recipe = replace(recipe, epochs=math.ceil(extend * recipe.epochs))
        trials.append(ModelTrial(replace(candidate, recipe=recipe), result["loss"]))
        if checkpoint is not None:
            checkpoint.unlink(missing_ok=True)
    best = _best_model(trials, margin)
    if not math.isfinite(best.loss):
        raise InputError("no model could be trained on this data: all of them diverged")
    return [best, *sorted((trial for trial in trials if trial is not best), key=lambda trial: trial.loss)]


def model_split(labels: NDArray[np.int64], num_classes: int, seed: int) -> ValidationSplit:
    """The split on which `choose_model` compares models."""
    return ValidationSplit.draw(labels, num_classes, VALIDATION, seed, MAX_TRIAL_SAMPLES)


def clear_difference(samples: int) -> float:
    """The share by which a loss must be lower to be clearly lower, in a search with that many samples."""
    validated = VALIDATION * min(samples, MAX_TRIAL_SAMPLES)
    return CLEAR_DIFFERENCE * min(1.0, math.sqrt(CLEAR_SAMPLES / validated))


def _best_model(trials: Sequence[ModelTrial], margin: float) -> ModelTrial:
    best = trials[0]
    for trial in trials[1:]:
        if trial.loss < _loss_to_beat(trial.candidate, [best], margin):
            best = trial
    return best


def _loss_to_beat(candidate: Candidate, trials: Sequence[ModelTrial], margin: float) -> float:
    """The loss below which a candidate is chosen over those tried so far."""
    if not trials:
        return math.inf
    best = _best_model(trials, margin)
    return best.loss if best.candidate.name == candidate.name else (1 - margin) * best.loss


def choose_rounds(
    inputs: TableInputs,
    labels: NDArray[np.int64],
    num_classes: int,
    recipe: BoostingRecipe | None = None,
    *,
    progress: Progress = lambda _: None,
) -> BoostingRecipe:
    """The recipe with the number of rounds, up to its own, that has the lowest log loss on a validation split."""
    longest = BoostingRecipe(MAX_ROUNDS) if recipe is None else recipe
    labels = check_labelled(inputs, labels, num_classes)
    split = ValidationSplit.draw(labels, num_classes, VALIDATION, longest.seed)
    return best_rounds(inputs, labels, num_classes, longest, split.train_rows, split.validation_rows, progress)[0]


# Recipes.

Widths = tuple[int, ...]

LEARNING_RATES, WEIGHT_DECAYS = (1e-4, 1e-3, 1e-2), (0.0, 1e-3)
MIN_BASE, MAX_BASE = 8, 64
STEP_OVERHEAD = 28_000  # weights whose arithmetic takes as long as the rest of a step of 1024 rows, measured on a CPU


@dataclass(frozen=True, eq=False)
class RecipeChoice:
    """The best recipe, and its rolling mean accuracy after recipe.epochs.

    table: one row per candidate, best first, with widths, learning_rate, weight_decay, epochs (the best number),
    accuracy, parameters, trained (epochs tried) and stopped (the reason, if it diverged: it then has no accuracy).
    """

    recipe: Recipe
    accuracy: float
    table: "pd.DataFrame"


def candidate_widths(features: int, num_classes: int) -> list[Widths]:
    """Hidden widths to search: CTRL's eight networks for each of several bases, smallest base first.

    For a base b, they have two or three hidden layers of h1 in {2b, 4b}, h2 in {b, 2b} and h3 = b. CTRL uses one base
    per dataset, up to 10 times the features. Such wide networks memorise, so the bases here start at 4 times the
    features, at most 64, and are halved down to 8 (the network 16-8), or to half the classes if that is more.
    """
    if features < 1 or num_classes < 2:
        raise InputError(f"networks need at least one feature and two classes, not {features} and {num_classes}")
    smallest = max(MIN_BASE, math.ceil(num_classes / 2))
    bases = [max(smallest, min(4 * features, MAX_BASE))]
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
    seed: int = 0,
    device: str = "auto",
    journal: Path | None = None,
    progress: Callable[[float], object] = lambda _: None,
) -> RecipeChoice:
    """Search an MLP's widths, learning rate, weight decay and number of epochs by the 10-epoch mean of the accuracy.

    Every candidate is trained for max_epochs, as in the paper. Satellite (4,435 x 36) takes about 15 minutes on two
    cores.
    journal: a file from which an interrupted search resumes; it is deleted at the end.
    progress: called with the share of the whole search that was just done.
    """
    networks = candidate_widths(inputs.values.shape[1], num_classes)
    recipes = [
        Recipe(max_epochs, batch_size, rate, decay, seed=seed, widths=network)
        for network, rate, decay in product(networks, LEARNING_RATES, WEIGHT_DECAYS)
    ]
    labels = check_labelled(inputs, labels, num_classes)
    split = ValidationSplit.draw(labels, num_classes, VALIDATION, seed)
    placed = choose_device(device)
    stored = SearchJournal(journal, _fingerprint(inputs, split, placed.type))
    shares = _work_shares(recipes, inputs, num_classes)

    def try_recipes(network: Widths, group: Sequence[Recipe]) -> list[AccuracyTrial]:
        def compute(advance: Callable[[float], object]) -> list[Any]:
            report: Progress = lambda done: advance(done / max_epochs * shares[network])  # noqa: E731
            return [asdict(one) for one in accuracy_trials(split, inputs, network, group, max_epochs, placed, report)]

        key = [[asdict(recipe) for recipe in group], max_epochs]
        results = stored.results(key, len(group) * shares[network], progress, compute)
        return [AccuracyTrial(**result | {"recipe": Recipe.of(result["recipe"])}) for result in results]

    groups = groupby(recipes, lambda recipe: recipe.widths)
    trials = [trial for network, group in groups for trial in try_recipes(network, list(group))]
    stored.delete()
    return _best_recipe(trials)


def _fingerprint(inputs: TableInputs, split: ValidationSplit, device: str) -> str:
    """A hash of the data, the split and the type of device."""
    digest = hashlib.sha256(f"{split.num_classes} {device} {tuple(inputs.values.shape)}".encode())
    for array in (inputs.values.cpu().numpy(), split.labels, split.validation_rows):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _work_shares(recipes: Sequence[Recipe], inputs: TableInputs, num_classes: int) -> dict[Widths, float]:
    """The share of the training time of all recipes that one recipe of each network takes."""

    def work(widths: Widths) -> int:
        layers = pairwise((inputs.values.shape[1], *widths, num_classes))
        return STEP_OVERHEAD + sum(before * after for before, after in layers)

    total = sum(work(recipe.widths) for recipe in recipes)
    return {recipe.widths: work(recipe.widths) / total for recipe in recipes}


def _best_recipe(trials: Sequence[AccuracyTrial]) -> RecipeChoice:
    import pandas as pd

    ranked = sorted(trials, key=AccuracyTrial.sort_key)
    best = ranked[0]
    if best.stopped is not None:
        raise InputError(f"no recipe can be chosen: every candidate diverged ({best.stopped})")
    searched = pd.DataFrame([trial.recipe for trial in ranked])[["widths", "learning_rate", "weight_decay", "epochs"]]
    results = pd.DataFrame(ranked)[["accuracy", "parameters", "trained", "stopped"]]
    return RecipeChoice(best.recipe, best.accuracy, searched.join(results))
