"""Trials: how well a candidate does on a part of the data held out, wrong labels and all, and after how long."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from errata.finding.candidates import Candidate
from errata.readers import UserData

if TYPE_CHECKING:
    from errata.training.executors import Executor
    from errata.training.recipes import AnyRecipe

VALIDATION = 0.2
FEWEST_SAMPLES = 10
MOST_TRIED_ON = 50_000  # samples: a choice made on these is as good
CHECKPOINT_SECONDS = 10.0  # at most that much is lost by Ctrl-C
PATIENCE = 6  # epochs without a lower loss, after which no more are tried
# What is ranked is a mean over epochs, which lags behind the last: half as many epochs again make up for undecided
# early ones. On Satellite boosting then misses 7.9 % of the errors, not 8.9 %; words are memorised too soon for it.
LONGER = 1.5

Tell = Callable[[int], object]


@dataclass(frozen=True, eq=False)
class Tried:
    """A candidate with the number of epochs to train it for, and its least log loss on the part held out."""

    candidate: Candidate
    loss: float


def attempt(
    candidate: Candidate,
    data: UserData,
    device: str,
    tell: Tell,
    to_beat: float = math.inf,
    checkpoint: Path | None = None,
) -> Tried:
    """Train the candidate on most of the samples and judge it on the rest; `tell` hears of every epoch.

    A network that will not come below the loss `to_beat` is given up. Interrupted, it goes on from its checkpoint.
    """
    if candidate.model is None:
        recipe, loss = _boost(candidate, data, tell)
    else:
        recipe, loss = _validate(candidate, data, device, tell, to_beat, checkpoint)
    longer = 1.0 if data.is_terms else LONGER
    return Tried(replace(candidate, recipe=replace(recipe, epochs=math.ceil(longer * recipe.epochs))), loss)


def _trial_rows(data: UserData, seed: int) -> NDArray[np.int64]:
    """The samples that a trial is made with: all, or a part with every class in proportion."""
    from errata.training.validation import split_off

    if data.samples <= MOST_TRIED_ON:
        return np.arange(data.samples)
    return split_off(data.labels, MOST_TRIED_ON / data.samples, seed)


def _boost(candidate: Candidate, data: UserData, tell: Tell) -> "tuple[AnyRecipe, float]":
    from errata.training.boosting import best_rounds
    from errata.training.model_inputs import TableInputs
    from errata.training.recipes import BoostingRecipe

    assert isinstance(candidate.inputs, TableInputs)
    assert isinstance(candidate.recipe, BoostingRecipe)
    rows = _trial_rows(data, candidate.recipe.seed)
    part = TableInputs(candidate.inputs.values[rows])
    return best_rounds(part, data.labels[rows], data.num_classes, candidate.recipe, progress=tell)


def _validate(
    candidate: Candidate, data: UserData, device: str, tell: Tell, to_beat: float, checkpoint: Path | None
) -> "tuple[AnyRecipe, float]":
    """The number of epochs with the least log loss on the part held out, and that loss."""
    from errata.training.checkpoints import load_state, save_state
    from errata.training.gather import executor_for
    from errata.training.jobs import TrainingJob
    from errata.training.recipes import Recipe
    from errata.training.validation import split_off

    assert candidate.model is not None
    assert isinstance(candidate.recipe, Recipe)
    rows = _trial_rows(data, candidate.recipe.seed)
    held_out = rows[split_off(data.labels[rows], VALIDATION, candidate.recipe.seed)]
    job = TrainingJob("trial", candidate.recipe, np.setdiff1d(rows, held_out), held_out)
    executor = executor_for(
        candidate.model, candidate.inputs, data.labels, data.num_classes, device, keep_passes=False
    )([job])
    losses: list[float] = []
    kept = None if checkpoint is None else load_state(checkpoint)
    if kept is not None:
        executor.load_state(0, kept["job"])
        losses = kept["losses"]
        tell(len(losses))
    secured = time.monotonic()
    for epoch in range(len(losses), candidate.recipe.epochs):
        executor.train_epoch(epoch)
        losses.append(_log_loss(executor, held_out))
        tell(1)
        best = int(np.argmin(losses))
        if not math.isfinite(losses[-1]) or epoch - best >= PATIENCE:
            break
        if least_to_come(losses, candidate.recipe.epochs) >= to_beat:
            break
        if checkpoint is not None and time.monotonic() - secured >= CHECKPOINT_SECONDS:
            checkpoint.parent.mkdir(parents=True, exist_ok=True)
            save_state(checkpoint, {"losses": losses, "job": executor.state(0)})
            secured = time.monotonic()
    best = int(np.argmin(losses))
    return replace(candidate.recipe, epochs=best + 1), losses[best]


def least_to_come(losses: Sequence[float], epochs: int) -> float:
    """What the loss can come down to in so many epochs, if it falls no faster than of late: learning slows down."""
    if len(losses) <= 2 * PATIENCE:
        return -math.inf
    before, late = np.mean(losses[-2 * PATIENCE : -PATIENCE]), np.mean(losses[-PATIENCE:])
    a_step = max(0.0, float(before - late)) / PATIENCE
    return min(losses) - a_step * (epochs - len(losses))


def _log_loss(executor: "Executor", rows: NDArray[np.int64]) -> float:
    """Of the given labels of some rows; infinite where the model has diverged."""
    from scipy.special import log_softmax

    places = executor.labels.new_tensor(rows)
    logits = executor.evaluate(0, places).double().cpu().numpy()
    given = executor.labels[places].cpu().numpy()
    loss = -float(log_softmax(logits, axis=1)[np.arange(len(given)), given].mean())
    return loss if math.isfinite(loss) else math.inf
