"""The second training pass: a fresh model is trained on the labels weighted by the first run, and on its predictions.

The target of a sample is its given label, weighted by how far the first run trusts it, and the sharpened prediction so
far. Images are shown in two views, one augmented as in the first run and one strongly. Predictions and weights are
updated while the model is trained.
"""

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor, nn

from errata.core.label_weights import label_weights, soft_targets
from errata.core.measures import LM, LabelledLogits
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.training.engine import Progress, train
from errata.training.executors import ModuleExecutor
from errata.training.fine_tuning import FineTuned
from errata.training.gather import Model, choose_device
from errata.training.jobs import TrainingJob, TrainingOptions, in_sample_jobs
from errata.training.model_inputs import Inputs, TableInputs
from errata.training.models import mlp
from errata.training.recipes import Recipe, rise_and_fall, without_single_rest
from errata.training.transforms import StrongView

# Of the first run. An epoch with two views per image takes 1.75 times as long as one of the first run for cnn9, so that
# both passes together take 2.4 times as long as the first. Fine-tuning has few epochs anyway.
EPOCHS, EPOCHS_PRETRAINED = 0.8, 1.0
LARGEST_BATCH, FEWEST_STEPS = 256, 30  # per epoch
RATE, DECAY = 2e-3, 0.02  # of networks from scratch, at the largest batch
RISE = 0.15  # the share of the epochs in which the learning rate rises
ADDED = 0.1  # the share of the predictions of an epoch in the prediction so far; in a short pass, 1 / epochs
UPDATED_AFTER = 3  # epochs, at most a quarter of all
WEIGHT_UPDATES = 8  # times in all that label weights are computed again


def second_recipe(first: Recipe, samples: int, *, pretrained: bool) -> Recipe:
    """The recipe of the second pass; pretrained and table models keep the learning rate of the first run."""
    epochs = math.ceil((EPOCHS_PRETRAINED if pretrained else EPOCHS) * first.epochs)
    largest = first.batch_size if pretrained else LARGEST_BATCH
    size = min(largest, max(8, 1 << max(samples // FEWEST_STEPS, 1).bit_length() - 1))
    size = without_single_rest(samples, size)
    return replace(
        first,
        epochs=epochs,
        batch_size=size,
        learning_rate=first.learning_rate if pretrained else RATE * math.sqrt(size / LARGEST_BATCH),
        weight_decay=DECAY,
        optimizer="adamw",
        schedule=rise_and_fall(epochs, RISE),
    )


class SecondPassExecutor(ModuleExecutor):
    """One job that is trained on soft targets, which follow its own predictions."""

    def __init__(
        self,
        jobs: Sequence[TrainingJob],
        inputs: Inputs,
        labels: NDArray[np.int64],
        first: NDArray[Any],
        build: Callable[[], nn.Module],
    ) -> None:
        """First (N, K): log-probabilities of the classes after the first run; rows need not be normalised."""
        if len(jobs) != 1:
            raise InputError("a second pass belongs to one first run: train one job at a time")
        self._given, self.beliefs = labels, softmax(first.astype(np.float64), axis=1)
        self.weights_of_labels = label_weights(self._margins())
        super().__init__(
            jobs,
            inputs,
            torch.from_numpy(self._targets()),
            first.shape[1],
            build,
            strong=None if isinstance(inputs, TableInputs) else StrongView(),
        )

    def train_epoch(self, epoch: int) -> list[Tensor]:
        """Train on the targets of this epoch, and learn from its predictions."""
        self.labels.copy_(torch.from_numpy(self._targets()))
        (logits,) = super().train_epoch(epoch)
        epochs = self.jobs[0].recipe.epochs
        if epoch >= min(UPDATED_AFTER, epochs // 4) and 0 not in self._stopped:
            predicted = softmax(logits.double().cpu().numpy(), axis=1)
            if np.isfinite(predicted).all():
                added = max(ADDED, 1 / epochs)
                self.beliefs = (1 - added) * self.beliefs + added * predicted
                if (epoch + 1) % max(1, round(epochs / WEIGHT_UPDATES)) == 0:
                    self.weights_of_labels = label_weights(self._margins())
        return [logits]

    def state(self, job: int) -> dict[str, Any]:
        """All that is needed to resume, with the predictions and weights so far."""
        own = {"beliefs": self.beliefs, "label weights": self.weights_of_labels}
        return super().state(job) | {name: torch.from_numpy(values.copy()) for name, values in own.items()}

    def load_state(self, job: int, state: dict[str, Any]) -> None:
        """Resume from a state."""
        super().load_state(job, state)
        self.beliefs, self.weights_of_labels = state["beliefs"].numpy(), state["label weights"].numpy()

    def _margins(self) -> NDArray[np.float64]:
        logits = np.log(np.maximum(self.beliefs, 1e-9))
        return np.asarray(LabelledLogits(logits, self._given).measure(LM))

    def _targets(self) -> NDArray[np.float32]:
        return soft_targets(self._given, self.weights_of_labels, self.beliefs).astype(np.float32)


def second_pass(
    inputs: Inputs,
    labels: NDArray[np.int64],
    first: NDArray[Any],
    model: Model | None,
    recipe: Recipe,
    *,
    seed: int,
    features: bool,
    device: str | torch.device = "auto",
    folder: Path | None = None,
    checkpoint_seconds: float = 30.0,
    progress: Progress = lambda _: None,
) -> Dynamics:
    """Train the second pass and return its dynamics, in the order of the samples; it resumes from the folder.

    first (N, K): log-probabilities of the classes after the first run. model: as in `gather`; a fresh one is built.
    recipe: see `second_recipe`. features: record the inputs of the last layer.
    """
    placed, num_classes = inputs.to(choose_device(device)), first.shape[1]
    jobs = in_sample_jobs(len(labels), recipe, (seed,))

    def make(group: Sequence[TrainingJob]) -> SecondPassExecutor:
        return SecondPassExecutor(group, placed, labels, first, _builder(model, placed, recipe, num_classes))

    options = TrainingOptions(swa=False, features=features, checkpoint_seconds=checkpoint_seconds)
    (result,) = train(jobs, labels, make, options, folder, progress=progress)
    if result.dynamics is None or result.stopped is not None:
        raise InputError(f"the second pass failed: {result.stopped}; use one pass (`looks=1`)")
    return result.dynamics


def _builder(model: Model | None, inputs: Inputs, recipe: Recipe, num_classes: int) -> Callable[[], nn.Module]:
    if isinstance(model, nn.Module):
        return partial(deepcopy, model)
    if callable(model):
        return partial(_with_own_features, model)
    if not isinstance(inputs, TableInputs):
        raise InputError("hidden widths describe an MLP, which needs a table; pass a function that builds a module")
    widths = (inputs.values.shape[1], *(recipe.widths if model is None else model), num_classes)
    return lambda: mlp(widths).to(inputs.values.dtype)


def _with_own_features(build: Callable[[], nn.Module]) -> nn.Module:
    model = build()
    if isinstance(model, FineTuned):
        model.searches_frozen = False
    return model
