"""Running sums instead of logits: the states of the methods' epoch reductions, updated while a run is recorded."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Labels, warn_if_probabilities
from errata.core.default import DEFAULTS_FROM_SUMS, is_default
from errata.core.devices import Progress
from errata.core.jit import BLOCK_ELEMENTS, row_blocks
from errata.core.method_parts import EpochBatch, SampleArrays
from errata.core.methods import Method, all_methods, parse
from errata.core.replay import (
    SampleStatistic,
    States,
    arrays_from_states,
    require_swa,
    set_swa,
    start_states,
    update_states,
)
from errata.errors import InputError, StoreError

SUMS = "reducers-*.npz"
"""The files of running sums."""


def sums_file(epochs: int) -> str:
    """The file with the running sums after that many epochs."""
    return f"reducers-{epochs:06d}.npz"


class Reducers:
    """The states of the reductions of `methods` for N samples: O(N K) memory, or O(N) if no method needs a vector."""

    def __init__(self, methods: Sequence[Method], samples: int, classes: int) -> None:
        self._reductions = list(dict.fromkeys(method.reduction for method in methods))
        self.names = [method.name for method in methods]
        self._states: States = start_states(self._reductions, samples, classes, 0)
        self._shape = (samples, classes)
        self._block = max(1, BLOCK_ELEMENTS // classes)
        self._pending: list[tuple[NDArray[np.int64], NDArray[Any]]] = []
        self._pending_rows, self._warned = 0, False
        self.seen = np.zeros(samples, dtype=np.bool_)
        self.epochs = 0

    @property
    def nbytes(self) -> int:
        """Memory of the states in bytes."""
        return sum(array.nbytes for state in self._states.values() for array in state.values())

    def add(self, rows: NDArray[np.int64], logits: NDArray[Any], labels: Labels) -> None:
        """Add finite logits (n, K) of some samples at the epoch in progress; batches are processed in blocks."""
        self._pending.append((rows, logits))
        self._pending_rows += len(rows)
        if self._pending_rows >= self._block:
            self.flush(labels)

    def flush(self, labels: Labels) -> None:
        """Process all pending batches."""
        if not self._pending:
            return
        rows = np.concatenate([rows for rows, _ in self._pending])
        logits = np.concatenate([logits for _, logits in self._pending])
        self._pending, self._pending_rows = [], 0
        self._warned = self._warned or warn_if_probabilities(logits, self.epochs)
        self.seen[rows] = True
        for block in row_blocks(len(rows), self._block):
            update_states(
                self._states, EpochBatch(logits[block], labels[rows[block]], self.epochs), rows[block], last=True
            )

    def end_epoch(self) -> None:
        """Count the epoch in progress, after it was flushed."""
        self.epochs += 1

    def supports(self, statistic: SampleStatistic) -> bool:
        """Whether the running sums suffice for it."""
        return statistic.reduction in self._states

    def arrays(
        self,
        statistics: Sequence[SampleStatistic],
        labels: Labels,
        swa_logits: NDArray[Any] | None,
        progress: Progress | None = None,
    ) -> list[SampleArrays]:
        """The sample arrays of every statistic, bit for bit the same as from the logits of all epochs."""
        require_swa(statistics, swa_logits)
        for statistic in statistics:
            if not statistic.reduction.aggregation.can_stream:
                raise InputError(f"{statistic.name} needs the logits of every epoch; this run has running sums only")
            if not self.supports(statistic):
                raise InputError(f"this run has no running sums for {statistic.name}, only for {', '.join(self.names)}")
        if not self.seen.all():
            raise InputError(f"sample {int(np.argmin(self.seen))} was not recorded at any epoch")

        def states_of(block: slice) -> States:
            states = {
                reduction: {key: array[block] for key, array in state.items()}
                for reduction, state in self._states.items()
            }
            if swa_logits is not None:
                set_swa(states, swa_logits[block])
            return states

        return arrays_from_states(statistics, labels, (self.epochs, *self._shape), states_of, progress)

    def arrays_to_store(self) -> dict[str, NDArray[Any]]:
        """The names of the methods and all states, by their names in a .npz file."""
        return {"methods": np.array(self.names), **self._arrays()}

    @classmethod
    def from_stored(
        cls, stored: dict[str, NDArray[Any]], file: str, epochs: int, samples: int, classes: int
    ) -> "Reducers":
        """The states after that many epochs from the arrays in a .npz file; `file` is its name, for messages."""
        if "methods" not in stored:
            raise StoreError(f"{file} does not hold running sums: it has no array named methods")
        reducers = cls([parse(str(name)) for name in stored["methods"]], samples, classes)
        for name, array in reducers._arrays().items():
            values = stored.get(name)
            if values is None or values.shape != array.shape or values.dtype != array.dtype:
                raise StoreError(f"{file} does not hold the running sums of this run: array {name} is not as expected")
            array[:] = values
        reducers.epochs = epochs
        return reducers

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays that change from epoch to epoch, by their names on disk."""
        states = {
            f"{number}.{key}": array
            for number, reduction in enumerate(self._reductions)
            for key, array in self._states[reduction].items()
        }
        return {"seen": self.seen, **states}


def streaming_methods(names: Sequence[str | Method] | None) -> list[Method]:
    """The named methods; None: every method that can stream. "default" is every default that can."""
    if names is None:
        return [method for method in all_methods() if method.reduction.aggregation.can_stream]
    if isinstance(names, str) or not names:
        raise InputError(f"methods must be a list of names, not {names!r}")
    chosen = [each for name in names for each in (DEFAULTS_FROM_SUMS if is_default(name) else (name,))]
    methods = [parse(name) for name in dict.fromkeys(chosen)]
    for method in methods:
        if not method.reduction.aggregation.can_stream:
            raise InputError(f"{method.name} needs the logits of every epoch; use keep='all'")
    return methods
