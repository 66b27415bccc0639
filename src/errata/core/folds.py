"""What an aggregation is: a fold over epochs.

It starts a state, takes in the epochs one by one and is finished once, so that a stored run and a run that streams past
give the same bits. A state is a dict of arrays whose first axis is samples.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Floats, Labels
from errata.core.measures import LM, LabelledRows, Measure
from errata.core.neighbourhood import Space

State = dict[str, NDArray[Any]]


class Chunk(LabelledRows):
    """Logits (n, K) and labels (n,) of some samples at one epoch, counted from 0 in the window."""

    def __init__(self, logits: NDArray[Any], labels: Labels, epoch: int) -> None:
        super().__init__(logits, labels)
        self.logits = logits
        self.epoch = epoch

    def measure(self, measure: Measure) -> Floats:
        """The measure of every sample, (n,)."""
        return np.asarray(measure.of(self.statistic(measure.statistic)))


class Verdict(NamedTuple):
    """What a method says of N samples: scores (N,), and flags (N,) if it has an operating point of its own."""

    scores: Floats
    flags: NDArray[np.bool_] | None


@dataclass(frozen=True)
class Aggregation(ABC):
    """One way to turn epochs into scores; its fields are its parameters and appear in the names of its methods."""

    title: ClassVar[str]
    known_from: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    left_out: ClassVar[Mapping[str, str] | None] = None  # measure to reason; None: the paper knows nothing of it
    reads: ClassVar[Literal["every epoch", "last epoch", "no epoch"]] = "every epoch"
    streams: ClassVar[bool] = True
    one_vector: ClassVar[bool] = False
    looks_around: ClassVar[bool] = False  # whether other samples have a say in the vector of a sample

    @property
    def name(self) -> str:
        """Its name in the grammar: the class, then the parameters that are not at their default."""
        changed = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        ]
        return type(self).__name__ + (f"({','.join(changed)})" if changed else "")

    @abstractmethod
    def start(self, samples: int, classes: int, epochs: int) -> State:
        """The state before the first epoch of a window of `epochs` epochs (0 when its length is not known yet)."""

    @abstractmethod
    def update(self, state: State, chunk: Chunk, measure: Measure) -> None:
        """Take in one epoch, writing to the arrays of the state in place."""

    @abstractmethod
    def rows(self, state: State, measure: Measure, labels: Labels, epochs: int) -> State:
        """What the verdict needs of each sample once all epochs are in; by default its score."""

    def verdict(self, rows: State, measure: Measure, labels: Labels, budget: int | None) -> Verdict:
        """Scores of all N samples together; `budget` is how many samples will be inspected, where that matters."""
        return Verdict(rows["scores"], None)


class VectorAggregation(Aggregation):
    """Brings the epochs to one logit vector a sample, which any measure then scores.

    One that looks around may bring several, and settles on one once all samples are there.
    """

    one_vector = True

    @abstractmethod
    def vector(self, state: State) -> NDArray[Any]:
        """The aggregated logits (n, K); several of them are (n, P, K)."""

    def log_probabilities(self, state: State) -> NDArray[Any]:
        """The vector as logarithms of probabilities; several of them may keep how much each is of."""
        from scipy.special import log_softmax

        return np.asarray(log_softmax(self.vector(state), axis=-1))

    def settle(self, log_probabilities: NDArray[Any], labels: Labels, space: Space) -> Floats:
        """The one vector (N, K) of each of all samples; where there are several, (N, P, K), one of these."""
        return log_probabilities

    def rows(self, state: State, measure: Measure, labels: Labels, epochs: int) -> State:
        """The measure of the aggregated logits."""
        return {"scores": np.asarray(measure.of(LabelledRows(self.vector(state), labels).statistic(measure.statistic)))}


AGGREGATIONS: dict[str, type[Aggregation]] = {}
AggregationClass = TypeVar("AggregationClass", bound=type[Aggregation])


def aggregation(cls: AggregationClass) -> AggregationClass:
    """Register an aggregation under its class name."""
    AGGREGATIONS[cls.__name__] = cls
    return cls


class Fold(NamedTuple):
    """An aggregation at work; methods with equal folds share one state."""

    aggregation: Aggregation
    measure: Measure


def shared_fold(aggregation: Aggregation, measure: Measure) -> Fold:
    """The fold of a method: where the aggregation yields a vector, the state does not depend on the measure."""
    return Fold(aggregation, LM if aggregation.one_vector else measure)
