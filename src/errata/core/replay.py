"""Replay epochs through any number of methods in one pass over the logits."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Labels
from errata.core.folds import Chunk, Fold, State, Verdict
from errata.core.jit import BLOCK_ELEMENTS, over_blocks
from errata.core.neighbourhood import Space
from errata.errors import InputError

States = Mapping[Fold, State]
Progress = Callable[[int], object]


class Question(Protocol):
    """Something to be asked of every sample once its epochs are folded."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

    @property
    def fold(self) -> Fold:
        """What it takes in epoch by epoch."""

    def rows(self, state: State, labels: Labels, epochs: int) -> State:
        """Its answer for each sample, from the folded state."""


class Judge(Question, Protocol):
    """A question whose answers lead to a verdict on all samples together: a method (errata.core.methods)."""

    def verdict(self, rows: State, labels: Labels, budget: int | None, space: Space) -> Verdict:
        """Its word on all samples together."""


@dataclass(frozen=True)
class Epochs:
    """The epochs of a window: logits (E, N, K), labels (N,), and the averaged model's logits (N, K) if there are any.

    Neighbours are sought in `space`.
    With `allow_missing`, a row of NaN means that the sample was not recorded at that epoch.
    """

    logits: NDArray[Any]
    labels: Labels
    swa_logits: NDArray[Any] | None = None
    allow_missing: bool = False
    space: Space = field(default_factory=Space)


def replay(epochs: Epochs, methods: Sequence[Judge], budget: int | None = None) -> list[Verdict]:
    """The verdict of every method."""
    answers = ask(epochs, methods)
    return [
        method.verdict(rows, epochs.labels, budget, epochs.space) for method, rows in zip(methods, answers, strict=True)
    ]


def ask(epochs: Epochs, questions: Sequence[Question], progress: Progress | None = None) -> list[State]:
    """The answers to every question, for all samples; `progress` is told the size of each block of samples done."""
    require_swa(questions, epochs.swa_logits)
    folds = list(dict.fromkeys(question.fold for question in questions))
    return gather(
        questions, epochs.labels, epochs.logits.shape, lambda block: fold_block(epochs, folds, block), progress
    )


def gather(
    questions: Sequence[Question],
    labels: Labels,
    shape: tuple[int, ...],
    states_of: Callable[[slice], States],
    progress: Progress | None = None,
) -> list[State]:
    """The answers for all samples from the folded states of every block; `shape` is (E, N, K)."""
    epochs, samples, classes = shape
    gathered: list[State] = [{} for _ in questions]

    def work(block: slice) -> None:
        states = states_of(block)
        for question, kept in zip(questions, gathered, strict=True):
            for key, values in question.rows(states[question.fold], labels[block], epochs).items():
                whole = kept.setdefault(key, np.empty((samples, *values.shape[1:]), dtype=values.dtype))
                whole[block] = values
        if progress is not None:
            progress(block.stop - block.start)

    over_blocks(samples, max(1, BLOCK_ELEMENTS // classes), work)
    return gathered


def fold_block(epochs: Epochs, folds: Iterable[Fold], block: slice) -> States:
    """States of the folds for one block of samples, after all epochs."""
    count, _, classes = epochs.logits.shape
    states = start_states(folds, block.stop - block.start, classes, count)
    labels = epochs.labels[block]
    seen = np.zeros(len(labels), dtype=np.bool_)
    needed = _epochs_needed(states, count, epochs.allow_missing)
    for epoch in needed:
        logits, rows = epochs.logits[epoch, block], None
        if epochs.allow_missing:
            present = ~np.isnan(logits).all(axis=1)
            seen |= present
            rows = None if present.all() else np.flatnonzero(present)
        chunk = Chunk(logits, labels, epoch) if rows is None else Chunk(logits[rows], labels[rows], epoch)
        if chunk.broken is not None:
            sample = block.start + (chunk.broken if rows is None else int(rows[chunk.broken]))
            raise InputError(f"logits of sample {sample} at epoch {epoch} are not finite")
        take_in(states, chunk, rows, last=epochs.allow_missing or epoch == needed[-1])
    if epochs.allow_missing and needed and not seen.all():
        raise InputError(f"sample {block.start + int(np.argmin(seen))} was not recorded at any epoch of the window")
    if epochs.swa_logits is not None:
        set_swa(states, epochs.swa_logits[block])
    return states


def start_states(folds: Iterable[Fold], samples: int, classes: int, epochs: int) -> States:
    """Fresh states for a window of `epochs` epochs."""
    return {fold: fold.aggregation.start(samples, classes, epochs) for fold in folds}


def take_in(states: States, chunk: Chunk, rows: NDArray[np.int64] | None, *, last: bool) -> None:
    """Fold one epoch's rows into the states: of all samples, or of those in `rows`; `last` if it may be their last."""
    for fold, state in states.items():
        aggregation = fold.aggregation
        if aggregation.reads == "no epoch" or (aggregation.reads == "last epoch" and not last):
            continue
        part = state if rows is None else {key: values[rows] for key, values in state.items()}
        aggregation.update(part, chunk, fold.measure)
        if rows is not None:
            for key, values in part.items():
                state[key][rows] = values


def set_swa(states: States, swa_logits: NDArray[Any]) -> None:
    """Give the averaged model's logits (n, K) to the states that wait for them."""
    waiting = [state for fold, state in states.items() if fold.aggregation.reads == "no epoch"]
    if waiting and not np.isfinite(swa_logits).all():
        raise InputError("swa_logits are not finite")
    for state in waiting:
        state["swa_logits"] = swa_logits


def require_swa(questions: Iterable[Question], swa_logits: NDArray[Any] | None) -> None:
    """Refuse a method that needs the averaged model's logits where there are none."""
    for question in questions:
        if question.fold.aggregation.reads == "no epoch" and swa_logits is None:
            raise InputError(
                f"{question.name} needs swa_logits, the logits of the model averaged over just these epochs; "
                "there are none here"
            )


def _epochs_needed(states: States, count: int, allow_missing: bool) -> range:
    reads = {fold.aggregation.reads for fold in states}
    if "every epoch" in reads or (allow_missing and "last epoch" in reads):
        return range(count)
    return range(count - 1, count) if "last epoch" in reads else range(0)
