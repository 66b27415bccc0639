"""Trials of candidates on a validation split. Its labels are the given ones: as many are wrong as in the rest."""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from errata.core.checks import check_seed
from errata.dynamics.files import load_json, replace_atomically
from errata.errors import InputError
from errata.training.boosting import best_rounds
from errata.training.engine import Progress, train
from errata.training.executors import Executor
from errata.training.gather import Model, executor_for
from errata.training.job_runs import load_state, save_state
from errata.training.jobs import JobResult, Rows, TrainingJob, TrainingOptions
from errata.training.model_inputs import Inputs
from errata.training.recipes import AnyRecipe, BoostingRecipe, Recipe

ROLLING_EPOCHS = 10
MAX_RECORDED_BYTES = 1 << 30  # validation logits of all epochs that trials side by side may hold in memory
PATIENCE = 6  # epochs without a lower loss after which a trial by log loss ends


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model to try, and the recipe for the longest training. `gather` describes what `model` may be.

    keeps_epochs: train for all epochs of the recipe, because its learning rate falls until then.
    """

    name: str
    inputs: Inputs
    model: Model | None
    recipe: AnyRecipe
    keeps_epochs: bool = False

    @property
    def title(self) -> str:
        """The model as messages name it."""
        if isinstance(self.recipe, BoostingRecipe):
            return "gradient boosting (LightGBM)"
        if self.name != "mlp":
            return self.name
        widths = "-".join(map(str, self.recipe.widths))
        return f"an MLP of {widths} hidden units" if widths else "a linear model"


@dataclass(frozen=True, eq=False)
class ValidationSplit:
    """The given labels (N,), the rows that candidates are trained on, and the rows that they are validated on."""

    labels: NDArray[np.int64]
    num_classes: int
    train_rows: Rows
    validation_rows: Rows

    @classmethod
    def draw(
        cls,
        labels: NDArray[np.int64],
        num_classes: int,
        share: float,
        seed: int,
        max_samples: int | None = None,
    ) -> "ValidationSplit":
        """Hold out that share of the samples, or of a random part of at most `max_samples`."""
        rows = np.arange(len(labels))
        if max_samples is not None and len(labels) > max_samples:
            rows = stratified_sample(labels, max_samples / len(labels), seed)
        validation_rows = rows[stratified_sample(labels[rows], share, seed)]
        return cls(labels, num_classes, np.setdiff1d(rows, validation_rows), validation_rows)

    def train(
        self,
        inputs: Inputs,
        model: Model,
        recipes: Mapping[str, Recipe],
        device: torch.device,
        progress: Progress = lambda _: None,
    ) -> list[JobResult]:
        """Train a model by each of the recipes, by job name, side by side, and record the validation rows."""
        jobs = [TrainingJob(name, recipe, self.train_rows, self.validation_rows) for name, recipe in recipes.items()]
        make_executor = executor_for(model, inputs, self.labels, self.num_classes, device)
        options = TrainingOptions(when="after epoch", swa=False)
        return train(jobs, self.labels, make_executor, options, progress=progress)

    def accuracies(self, result: JobResult) -> NDArray[np.float64]:
        """The accuracy (E,) on the given labels of the validation rows after every epoch."""
        assert result.dynamics is not None
        assert result.dynamics.logits is not None
        correct = result.dynamics.logits.argmax(axis=2) == self.labels[self.validation_rows]
        return np.asarray(correct.mean(axis=1))


class SearchJournal:
    """A file with the results of finished trials, from which an interrupted search resumes; without a path, no file.

    The fingerprint identifies the search: the file of another search is overwritten.
    """

    def __init__(self, path: Path | None, fingerprint: str) -> None:
        self._path, self._fingerprint = path, fingerprint
        self._entries: dict[str, list[Any]] = {}
        if path is not None and path.exists():
            stored = load_json(path)
            if stored.get("fingerprint") == fingerprint:
                self._entries = stored["entries"]

    def results(
        self, key: list[Any], work: float, progress: Callable[[Any], object], compute: Callable[[Any], list[Any]]
    ) -> list[Any]:
        """The results stored under a key; if there are none, compute(progress) is called and its results are stored.

        Progress adds up to `work` in either case, also where `compute` ends early.
        """
        text_key, left = json.dumps(key), work

        def advance(done: float) -> None:
            nonlocal left
            left -= done
            progress(done)

        if text_key not in self._entries:
            self._entries[text_key] = compute(advance)
            if self._path is not None:
                text = json.dumps({"fingerprint": self._fingerprint, "entries": self._entries})
                self._path.parent.mkdir(parents=True, exist_ok=True)
                replace_atomically(self._path, lambda file: file.write(text.encode()))
        progress(left)
        return self._entries[text_key]

    def delete(self) -> None:
        """Delete the file at the end of the search."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def stratified_sample(labels: NDArray[np.int64], share: float, seed: int) -> Rows:
    """Rows, in order, of a random part of the samples that has the same share of every class, within one sample."""
    count = round(share * len(labels))
    if not 1 <= count < len(labels):
        raise InputError(f"a share of {share} of {len(labels)} samples leaves none to validate on or to train on")
    shuffled = np.random.default_rng(check_seed(seed)).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    return np.sort(by_class[(2 * np.arange(count) + 1) * len(labels) // (2 * count)])


# The paper's criterion: the rolling mean of the accuracy.


@dataclass(frozen=True)
class AccuracyTrial:
    """The result of a recipe: its best number of epochs (in `recipe`), and its accuracy after these.

    trained: how many epochs were tried. stopped: the reason, if training diverged; accuracy is then NaN.
    """

    recipe: Recipe
    accuracy: float
    parameters: int
    trained: int
    stopped: str | None

    def sort_key(self) -> tuple[bool, float, int]:
        """Orders trials from best to worst; of equal accuracies, the smaller model is better."""
        return self.stopped is not None, 0.0 if self.stopped else -self.accuracy, self.parameters


def accuracy_trials(
    split: ValidationSplit,
    inputs: Inputs,
    model: Model,
    recipes: Sequence[Recipe],
    epochs: int,
    device: torch.device,
    progress: Progress,
) -> list[AccuracyTrial]:
    """Train a model by each of the recipes for that many epochs, and choose the best number of epochs of each."""
    at_once = max(1, MAX_RECORDED_BYTES // (epochs * len(split.validation_rows) * split.num_classes * 4))
    trials = []
    for start in range(0, len(recipes), at_once):
        by_name = {_name(recipe): replace(recipe, epochs=epochs) for recipe in recipes[start : start + at_once]}
        trials += [_judge(split, result) for result in split.train(inputs, model, by_name, device, progress)]
    return trials


def _judge(split: ValidationSplit, result: JobResult) -> AccuracyTrial:
    recipe = result.job.recipe
    parameters = sum(tensor.numel() for tensor in result.weights.values())
    if result.stopped is not None:
        return AccuracyTrial(recipe, math.nan, parameters, recipe.epochs, result.stopped)
    means = rolling_mean(split.accuracies(result))
    best = int(np.argmax(means))  # the first of equals
    return AccuracyTrial(replace(recipe, epochs=best + 1), float(means[best]), parameters, recipe.epochs, None)


def rolling_mean(accuracies: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean (E,) of each epoch and up to nine before it."""
    means = [accuracies[max(0, end - ROLLING_EPOCHS) : end].mean() for end in range(1, len(accuracies) + 1)]
    return np.round(means, 12)  # so that means that differ only by rounding are equal, and the first one wins


def _name(recipe: Recipe) -> str:
    network = "-".join(map(str, recipe.widths)) or "the model"
    return f"{network} at learning rate {recipe.learning_rate:g} and weight decay {recipe.weight_decay:g}"


# The criterion of `errata find`: log loss, with early stopping.


def loss_trial(
    candidate: Candidate,
    split: ValidationSplit,
    device: torch.device,
    progress: Progress,
    to_beat: float = math.inf,
    checkpoint: Path | None = None,
    checkpoint_seconds: float = 10.0,
) -> tuple[AnyRecipe, float]:
    """The recipe with the number of epochs that has the lowest log loss on the validation rows, and that loss.

    A candidate that keeps its epochs has the lowest loss of these.

    A network is given up when its loss cannot fall below `to_beat`. An interrupted trial resumes from its checkpoint.
    """
    recipe = candidate.recipe
    if isinstance(recipe, BoostingRecipe):
        rows = split.train_rows, split.validation_rows
        return best_rounds(candidate.inputs, split.labels, split.num_classes, recipe, *rows, progress)
    job = TrainingJob("trial", recipe, split.train_rows, split.validation_rows)
    model = recipe.widths if candidate.model is None else candidate.model
    make_executor = executor_for(model, candidate.inputs, split.labels, split.num_classes, device, keep_passes=False)
    executor = make_executor([job])
    losses: list[float] = []
    state = None if checkpoint is None else load_state(checkpoint)
    if state is not None:
        executor.load_state(0, state["job"])
        losses = state["losses"]
        progress(len(losses))
    last_checkpoint = time.monotonic()
    for epoch in range(len(losses), recipe.epochs):
        executor.train_epoch(epoch)
        losses.append(_log_loss(executor, split.validation_rows))
        progress(1)
        if not math.isfinite(losses[-1]) or epoch - int(np.argmin(losses)) >= PATIENCE:
            break
        if lowest_possible_loss(losses, recipe.epochs) >= to_beat:
            break
        if checkpoint is not None and time.monotonic() - last_checkpoint >= checkpoint_seconds:
            checkpoint.parent.mkdir(parents=True, exist_ok=True)
            save_state(checkpoint, {"losses": losses, "job": executor.state(0)})
            last_checkpoint = time.monotonic()
    best = int(np.argmin(losses))
    return recipe if candidate.keeps_epochs else replace(recipe, epochs=best + 1), losses[best]


def lowest_possible_loss(losses: Sequence[float], epochs: int) -> float:
    """A lower bound of the loss after that many epochs: it falls as fast as in the last epochs, or more slowly."""
    if len(losses) <= 2 * PATIENCE:
        return -math.inf
    before, late = np.mean(losses[-2 * PATIENCE : -PATIENCE]), np.mean(losses[-PATIENCE:])
    decrease = max(0.0, float(before - late)) / PATIENCE
    return min(losses) - decrease * (epochs - len(losses))


def _log_loss(executor: Executor, rows: Rows) -> float:
    """Mean log loss of the given labels of some rows; infinite if the model has diverged."""
    from scipy.special import log_softmax

    index = executor.labels.new_tensor(rows)
    logits = executor.evaluate(0, index).double().cpu().numpy()
    labels = executor.labels[index].cpu().numpy()
    loss = -float(log_softmax(logits, axis=1)[np.arange(len(labels)), labels].mean())
    return loss if math.isfinite(loss) else math.inf
