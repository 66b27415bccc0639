"""What a candidate comes to on a part of the samples held out, with the labels that were given, wrong ones included."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from errata.core.checks import as_numpy, check_labels
from errata.errors import InputError
from errata.training.engine import train
from errata.training.gather import Model, choose_device, executor_for
from errata.training.jobs import TrainingJob
from errata.training.model_inputs import Inputs
from errata.training.recipes import Recipe
from errata.training.tracks import Trained, TrainingOptions

ShareDone = Callable[[float], object]
Device = str | torch.device

ROLLING_EPOCHS = 10
RECORDED_BYTES = 1 << 30  # validation logits of all epochs that runs side by side may hold in memory


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


@dataclass(frozen=True)
class Tried:
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
class Trial:
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
    ) -> "Trial":
        """Hold out that share of the samples, drawn by the seed."""
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
    ) -> list[Tried]:
        """Train a model by each of the recipes, side by side, for that many epochs; each is that share of a search."""
        lasting = [replace(recipe, epochs=epochs) for recipe in recipes]
        jobs = [TrainingJob(_name(recipe), recipe, self.train_rows, self.validation_rows) for recipe in lasting]
        make = executor_for(model, self.inputs, self.labels, self.num_classes, self.device)
        options = TrainingOptions(when="after epoch", swa=False)

        def tell(job_epochs: int) -> None:
            progress(job_epochs / epochs * share)

        fit = max(1, RECORDED_BYTES // (epochs * len(self.validation_rows) * self.num_classes * 4))
        return [
            self._judge(trained)
            for start in range(0, len(jobs), fit)
            for trained in train(jobs[start : start + fit], self.labels, self.num_classes, make, options, progress=tell)
        ]

    def _judge(self, trained: Trained) -> Tried:
        recipe = trained.job.recipe
        parameters = sum(tensor.numel() for tensor in trained.weights.values())
        if trained.stopped is not None:
            return Tried(recipe, math.nan, parameters, recipe.epochs, trained.stopped)
        assert trained.dynamics is not None
        assert trained.dynamics.logits is not None
        accuracies = (trained.dynamics.logits.argmax(axis=2) == self.labels[self.validation_rows]).mean(axis=1)
        best = choose_epoch(accuracies)
        accuracy = float(rolling_mean(accuracies)[best - 1])
        return Tried(replace(recipe, epochs=best), accuracy, parameters, recipe.epochs, None)


def _name(recipe: Recipe) -> str:
    network = "-".join(map(str, recipe.widths)) or "the model"
    return f"{network} at learning rate {recipe.learning_rate:g} and weight decay {recipe.weight_decay:g}"


def check_device(device: Device) -> torch.device:
    """The device of that name; one that is not there is refused."""
    try:
        chosen = choose_device(device)
    except RuntimeError as error:
        raise InputError(f"there is no device named {device!r}; take 'auto', 'cpu' or 'cuda'") from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise InputError("there is no GPU that torch can use here; take device 'auto' or 'cpu'")
    return chosen
