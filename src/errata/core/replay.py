"""Compute any number of methods in one pass over the logits of a run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Labels
from errata.core.composed_method import ComposedMethod, SuggestedLabel
from errata.core.devices import Progress
from errata.core.jit import BLOCK_ELEMENTS, over_blocks
from errata.core.method_parts import Detector, EpochBatch, EpochReduction, MethodResult, SampleArrays
from errata.core.sample_context import SampleContext
from errata.errors import InputError

States = Mapping[EpochReduction, SampleArrays]
SampleStatistic = ComposedMethod | Detector | SuggestedLabel
"""What can be computed for every sample from its epochs: a method, or the suggested label."""


@dataclass(frozen=True)
class Epochs:
    """The epochs of a window: logits (E, N, K), labels (N,), and the averaged model's logits (N, K) if there are any.

    context: what else is known about the samples. allow_missing: a row of NaN is a sample that was not recorded then.
    """

    logits: NDArray[Any]
    labels: Labels
    swa_logits: NDArray[Any] | None = None
    allow_missing: bool = False
    context: SampleContext = field(default_factory=SampleContext)


def replay(epochs: Epochs, methods: Sequence[ComposedMethod | Detector]) -> list[MethodResult]:
    """The result of every method."""
    return [
        method.result(arrays, epochs.labels, None, epochs.context)
        for method, arrays in zip(methods, replay_arrays(epochs, methods), strict=True)
    ]


def replay_arrays(
    epochs: Epochs, statistics: Sequence[SampleStatistic], progress: Progress | None = None
) -> list[SampleArrays]:
    """The sample arrays of every statistic, for all samples; `progress` gets the size of each finished block."""
    require_swa(statistics, epochs.swa_logits)
    reductions = list(dict.fromkeys(statistic.reduction for statistic in statistics))
    return arrays_from_states(
        statistics, epochs.labels, epochs.logits.shape, lambda block: reduce_block(epochs, reductions, block), progress
    )


def arrays_from_states(
    statistics: Sequence[SampleStatistic],
    labels: Labels,
    shape: tuple[int, ...],
    states_of: Callable[[slice], States],
    progress: Progress | None = None,
) -> list[SampleArrays]:
    """The sample arrays of all samples, from the states of each block of samples; `shape` is (E, N, K)."""
    epochs, samples, classes = shape
    result: list[SampleArrays] = [{} for _ in statistics]

    def work(block: slice) -> None:
        states = states_of(block)
        for statistic, arrays in zip(statistics, result, strict=True):
            for key, values in statistic.sample_arrays(states[statistic.reduction], labels[block], epochs).items():
                whole = arrays.setdefault(key, np.empty((samples, *values.shape[1:]), dtype=values.dtype))
                whole[block] = values
        if progress is not None:
            progress(block.stop - block.start)

    over_blocks(samples, max(1, BLOCK_ELEMENTS // classes), work)
    return result


def reduce_block(epochs: Epochs, reductions: Iterable[EpochReduction], block: slice) -> States:
    """The states of one block of samples, after all epochs."""
    count, _, classes = epochs.logits.shape
    states = start_states(reductions, block.stop - block.start, classes, count)
    labels = epochs.labels[block]
    recorded = np.zeros(len(labels), dtype=np.bool_)
    needed = _epochs_needed(states, count, epochs.allow_missing)
    for epoch in needed:
        logits, rows = epochs.logits[epoch, block], None
        if epochs.allow_missing:
            present = ~np.isnan(logits).all(axis=1)
            recorded |= present
            rows = None if present.all() else np.flatnonzero(present)
        batch = EpochBatch(logits, labels, epoch) if rows is None else EpochBatch(logits[rows], labels[rows], epoch)
        if batch.invalid_row is not None:
            sample = block.start + (batch.invalid_row if rows is None else int(rows[batch.invalid_row]))
            raise InputError(f"logits of sample {sample} at epoch {epoch} are not finite")
        update_states(states, batch, rows, last=epochs.allow_missing or epoch == needed[-1])
    if epochs.allow_missing and needed and not recorded.all():
        raise InputError(f"sample {block.start + int(np.argmin(recorded))} was not recorded at any epoch of the window")
    if epochs.swa_logits is not None:
        set_swa(states, epochs.swa_logits[block])
    return states


def start_states(reductions: Iterable[EpochReduction], samples: int, classes: int, epochs: int) -> States:
    """New states for a window of `epochs` epochs."""
    return {reduction: reduction.aggregation.start(samples, classes, epochs) for reduction in reductions}


def update_states(states: States, batch: EpochBatch, rows: NDArray[np.int64] | None, *, last: bool) -> None:
    """Add one epoch to the states, of all samples or of those in `rows`; `last`: this may be their last epoch."""
    for reduction, state in states.items():
        aggregation = reduction.aggregation
        if aggregation.reads == "no epoch" or (aggregation.reads == "last epoch" and not last):
            continue
        part = state if rows is None else {key: values[rows] for key, values in state.items()}
        aggregation.update(part, batch, reduction.measure)
        if rows is not None:
            for key, values in part.items():
                state[key][rows] = values


def set_swa(states: States, swa_logits: NDArray[Any]) -> None:
    """Add the averaged model's logits (n, K) to the states that need them."""
    without_epochs = [state for reduction, state in states.items() if reduction.aggregation.reads == "no epoch"]
    if without_epochs and not np.isfinite(swa_logits).all():
        raise InputError("swa_logits are not finite")
    for state in without_epochs:
        state["swa_logits"] = swa_logits


def require_swa(statistics: Iterable[SampleStatistic], swa_logits: NDArray[Any] | None) -> None:
    """Refuse a method that needs the averaged model's logits if there are none."""
    for statistic in statistics:
        if statistic.reduction.aggregation.reads == "no epoch" and swa_logits is None:
            raise InputError(
                f"{statistic.name} needs swa_logits, the logits of the model whose weights are averaged over exactly "
                "these epochs; this run has none"
            )


def _epochs_needed(states: States, count: int, allow_missing: bool) -> range:
    reads = {reduction.aggregation.reads for reduction in states}
    if "every epoch" in reads or (allow_missing and "last epoch" in reads):
        return range(count)
    return range(count - 1, count) if "last epoch" in reads else range(0)
