"""Choosing a recipe as the paper does: by the 10-epoch rolling mean accuracy on a *noisy* validation split.

Nothing here sees a clean label: the split is taken from the given samples, wrong labels included.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, product
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from errata.core.checks import as_numpy, check_labels
from errata.errors import InputError
from errata.training.data import Inputs, Table
from errata.training.engine import Options, Trained, train
from errata.training.gather import Model, choose_device, executor_for
from errata.training.jobs import Job
from errata.training.modules import Builder
from errata.training.recipes import Recipe

if TYPE_CHECKING:
    import pandas as pd

Search = Literal["full", "halving"]
ShareDone = Callable[[float], object]
Widths = tuple[int, ...]
Device = str | torch.device

ROLLING_EPOCHS = 10
SMALLEST_BASE, LARGEST_BASE = 8, 64
KEPT = 1 / 4  # of the candidates, from one stage of halving to the next
# The stages of a search: part of max_epochs to train, and share of the work that all candidates still there make up.
STAGES: dict[Search, tuple[tuple[float, float], ...]] = {
    "full": ((1, 1),),
    "halving": ((1 / 8, 2 / 5), (1 / 2, 2 / 5), (1, 1 / 5)),
}
STEP_OVERHEAD = 28_000  # weights whose arithmetic takes as long as the rest of a step of 1024 rows, measured on a CPU
RECORDED_BYTES = 1 << 30  # validation logits of all epochs that runs side by side may hold in memory


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


def choose_epoch(accuracies: ArrayLike) -> int:
    """How many epochs to train, from the accuracy after each of E epochs, (E,): the first best rolling mean."""
    return int(np.argmax(rolling_mean(accuracies))) + 1


def rolling_mean(accuracies: ArrayLike) -> NDArray[np.float64]:
    """Mean (E,) of each epoch and the nine before it, or of as many as there are yet."""
    curve = np.asarray(as_numpy(accuracies), dtype=np.float64)
    if curve.ndim != 1 or not len(curve):
        raise InputError(f"accuracies must have shape (E,) with at least one epoch, not {curve.shape}")
    if not np.isfinite(curve).all():
        raise InputError(f"the accuracy of epoch {int(np.argmin(np.isfinite(curve)))} is not finite")
    means = [curve[max(0, end - ROLLING_EPOCHS) : end].mean() for end in range(1, len(curve) + 1)]
    return np.round(means, 12)  # equal means are equal whatever the rounding of their sums: the first is to win


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
    inputs: Table,
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
    progress: ShareDone = lambda _: None,
) -> Choice:
    """Search an MLP's widths, learning rate, weight decay and number of epochs.

    search="full" trains every candidate for max_epochs, as the paper did: about a quarter of an hour for Satellite
    (4,435 x 36) on two cores. "halving" takes a third of that: all train for max_epochs / 8, the best quarter of each
    learning rate for max_epochs / 2, the best quarter of those for max_epochs. On Satellite it came within half a
    point of the full search's accuracy, but with a wide network at a low rate: what is small and learns slowly is out
    early, and wide networks memorise. `progress` is told which share of the whole search was just done.
    """
    if not isinstance(inputs, Table):
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
    trial = _Trial.split(inputs, labels, num_classes, validation, seed, device)
    tried: dict[Recipe, _Tried] = {}
    left = grid
    for part, share in STAGES[search]:
        shares = _shares(left, inputs, num_classes)
        for network, recipes in groupby(left, lambda recipe: recipe.widths):
            group = list(recipes)
            results = trial.run(network, group, math.ceil(part * max_epochs), share * shares[network], progress)
            tried |= zip(group, results, strict=True)
        left = _best_of_each_rate(left, tried)
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
    trial = _Trial.split(inputs, labels, num_classes, validation, recipe.seed, device)
    return _best(trial.run(build, [recipe], recipe.epochs, 1.0, progress))


def split_off(labels: NDArray[np.int64], share: float, seed: int) -> NDArray[np.int64]:
    """Rows, in order, of a random part of the samples in which each class has its share, to within a sample."""
    count = round(share * len(labels))
    if not 1 <= count < len(labels):
        raise InputError(f"a share of {share} of {len(labels)} samples leaves nobody to validate on or to train on")
    if seed < 0:
        raise InputError(f"seed must not be negative, as {seed} is")
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    return np.sort(by_class[(2 * np.arange(count) + 1) * len(labels) // (2 * count)])


def _shares(recipes: Sequence[Recipe], inputs: Table, num_classes: int) -> dict[Widths, float]:
    """Which share of the work of training by all recipes each recipe of those widths is."""

    def effort(widths: Widths) -> int:
        layers = pairwise((inputs.values.shape[1], *widths, num_classes))
        return STEP_OVERHEAD + sum(before * after for before, after in layers)

    whole = sum(effort(recipe.widths) for recipe in recipes)
    return {recipe.widths: effort(recipe.widths) / whole for recipe in recipes}


def _best_of_each_rate(recipes: Sequence[Recipe], tried: dict[Recipe, "_Tried"]) -> list[Recipe]:
    """The recipes to go on with, in the same order."""
    going_on: set[Recipe] = set()
    for rate in {recipe.learning_rate for recipe in recipes}:
        of_rate = [recipe for recipe in recipes if recipe.learning_rate == rate]
        fit = [recipe for recipe in of_rate if tried[recipe].stopped is None]
        going_on |= set(sorted(fit, key=lambda recipe: tried[recipe].rank())[: math.ceil(KEPT * len(of_rate))])
    return [recipe for recipe in recipes if recipe in going_on]


@dataclass(frozen=True)
class _Tried:
    """What a candidate came to: its recipe, cut to the best number of epochs unless it was stopped."""

    recipe: Recipe
    accuracy: float
    parameters: int
    trained: int
    stopped: str | None

    def rank(self) -> tuple[bool, float, int]:
        """Best first; of equal accuracies that of the smaller model."""
        return self.stopped is not None, 0.0 if self.stopped else -self.accuracy, self.parameters


@dataclass(frozen=True, eq=False)
class _Trial:
    """The data of a search, split once: every candidate learns from the same rows and is judged on the same others."""

    inputs: Inputs
    labels: NDArray[np.int64]
    num_classes: int
    train_rows: NDArray[np.int64]
    validation_rows: NDArray[np.int64]
    device: torch.device

    @classmethod
    def split(
        cls, inputs: Inputs, labels: ArrayLike, num_classes: int, validation: float, seed: int, device: Device
    ) -> "_Trial":
        if num_classes < 2:
            raise InputError(f"label errors need at least two classes, not {num_classes}")
        given = check_labels(labels, num_classes)
        if len(given) != len(inputs):
            raise InputError(f"there are {len(given)} labels for {len(inputs)} samples")
        held_out = split_off(given, validation, seed)
        rest = np.setdiff1d(np.arange(len(given)), held_out)
        return cls(inputs, given, num_classes, rest, held_out, check_device(device))

    def run(
        self, model: Model, recipes: Sequence[Recipe], epochs: int, share: float, progress: ShareDone
    ) -> list[_Tried]:
        """Train a model by each of the recipes, side by side, for that many epochs; each is that share of a search."""
        lasting = [replace(recipe, epochs=epochs) for recipe in recipes]
        jobs = [Job(_name(recipe), recipe, self.train_rows, self.validation_rows) for recipe in lasting]
        make = executor_for(model, self.inputs, self.labels, self.num_classes, self.device)
        options = Options(when="after epoch", swa=False)

        def tell(job_epochs: int) -> None:
            progress(job_epochs / epochs * share)

        fit = max(1, RECORDED_BYTES // (epochs * len(self.validation_rows) * self.num_classes * 4))
        return [
            self._judge(trained)
            for start in range(0, len(jobs), fit)
            for trained in train(jobs[start : start + fit], self.labels, self.num_classes, make, options, progress=tell)
        ]

    def _judge(self, trained: Trained) -> _Tried:
        recipe = trained.job.recipe
        parameters = sum(tensor.numel() for tensor in trained.weights.values())
        if trained.stopped is not None:
            return _Tried(recipe, math.nan, parameters, recipe.epochs, trained.stopped)
        assert trained.dynamics is not None
        assert trained.dynamics.logits is not None
        accuracies = (trained.dynamics.logits.argmax(axis=2) == self.labels[self.validation_rows]).mean(axis=1)
        best = choose_epoch(accuracies)
        accuracy = float(rolling_mean(accuracies)[best - 1])
        return _Tried(replace(recipe, epochs=best), accuracy, parameters, recipe.epochs, None)


def _best(tried: Sequence[_Tried]) -> Choice:
    """The choice among all that were tried."""
    import pandas as pd

    ranked = sorted(tried, key=_Tried.rank)
    best = ranked[0]
    if best.stopped is not None:
        raise InputError(f"every candidate diverged, so none can be chosen; {best.stopped}")
    searched = pd.DataFrame([one.recipe for one in ranked])[["widths", "learning_rate", "weight_decay", "epochs"]]
    found = pd.DataFrame(ranked)[["accuracy", "parameters", "trained", "stopped"]]
    return Choice(best.recipe, best.accuracy, searched.join(found))


def _name(recipe: Recipe) -> str:
    network = "-".join(map(str, recipe.widths)) or "the model"
    return f"{network} at learning rate {recipe.learning_rate:g} and weight decay {recipe.weight_decay:g}"


def _check_widths(widths: Sequence[Sequence[int]]) -> list[Widths]:
    for network in widths:
        if not all(isinstance(width, int | np.integer) and width >= 1 for width in network):
            raise InputError(f"hidden widths must be whole numbers of at least 1, not {tuple(network)}")
    return [tuple(int(width) for width in network) for network in widths]


def check_device(device: Device) -> torch.device:
    """The device of that name; one that is not there is refused."""
    try:
        chosen = choose_device(device)
    except RuntimeError as error:
        raise InputError(f"there is no device named {device!r}; take 'auto', 'cpu' or 'cuda'") from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise InputError("there is no GPU that torch can use here; take device 'auto' or 'cpu'")
    return chosen
