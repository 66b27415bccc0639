"""Base classes of the parts that methods are made of. To add a part, subclass one and decorate it with `register`.

The name of a method is `[Step-]*Aggregation-Measure` or `Detector-Variant`:

- Aggregation: from the logits of all epochs to one score or one vector per sample.
- ProbabilityStep: changes the probability vectors of all samples together, before they are measured.
- Measure (errata.core.measures): from a vector and the given label to a score.
- Detector: a method that does not consist of these, such as confident learning.

An aggregation reduces epochs one at a time: it starts a state, updates it with each epoch, and is finished once. So
stored logits and running sums give the same bits.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from errata.core.checks import Floats, Labels
from errata.core.measures import LM, LabelledLogits, Measure
from errata.core.method_registry import Kind
from errata.core.sample_context import SampleContext

Gathering = Literal["in-sample", "out-of-sample"]
"""Where logits come from: a model that was trained on the sample, or, with folds, one that was not."""
SampleArrays = dict[str, NDArray[Any]]
"""Named arrays whose first axis is samples: the state of an aggregation, or what is computed from it per sample."""
NOT_IN_PAPER = "not a method of the paper"


class EpochBatch(LabelledLogits):
    """Logits (n, K) and labels (n,) of some samples at one epoch, which is counted from 0 in the window."""

    def __init__(self, logits: NDArray[Any], labels: Labels, epoch: int) -> None:
        super().__init__(logits, labels)
        self.logits = logits
        self.epoch = epoch


class MethodResult(NamedTuple):
    """The result of a method: scores (N,), and flags (N,) if the method chooses a threshold itself."""

    scores: Floats
    flags: NDArray[np.bool_] | None = None


class ProbabilityVectors(NamedTuple):
    """Log-probabilities (N, K) that steps work on, and what a step has blended them with, where one did.

    Rows need not be normalised: a measure depends only on differences between classes.
    neighbour_log_probabilities (N, K): of the neighbours alone. held_out_log_probabilities (N, K): of the models that
    have not seen the sample's label.
    """

    log_probabilities: Floats
    neighbour_log_probabilities: Floats | None = None
    held_out_log_probabilities: Floats | None = None


@dataclass(frozen=True)
class MethodPart(ABC):
    """A part of a method name. Its dataclass fields are its parameters, written in brackets if not at their default."""

    kind: ClassVar[Kind]
    registered_name: ClassVar[str]  # the name of the class, unless the class sets another
    not_parameters: ClassVar[tuple[str, ...]] = ()  # fields that are written elsewhere in the name

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "registered_name" not in cls.__dict__:
            cls.registered_name = cls.__name__

    @classmethod
    def parameters(cls) -> list[str]:
        """The names of its parameters."""
        return [field.name for field in fields(cls) if field.name not in cls.not_parameters]

    def changed_parameters(self) -> str:
        """The parameters that are not at their default, in brackets; empty if there are none."""
        defaults = {field.name: field.default for field in fields(self)}
        values = {name: getattr(self, name) for name in self.parameters()}
        changed = [
            f"{name}={int(value) if isinstance(value, bool) else value}"
            for name, value in values.items()
            if value != defaults[name]
        ]
        return f"({','.join(changed)})" if changed else ""

    @property
    def name(self) -> str:
        """Its name in the names of methods."""
        return self.registered_name + self.changed_parameters()


@dataclass(frozen=True)
class Aggregation(MethodPart):
    """One way to reduce epochs to scores."""

    kind = "aggregation"
    known_from: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # by measure: published detectors that rank the same
    paper_measures: ClassVar[tuple[str, ...]] = ()  # the measures with which the paper evaluates it
    why_not_in_paper: ClassVar[Mapping[str, str]] = {}  # reasons for other measures
    reads: ClassVar[Literal["every epoch", "last epoch", "no epoch"]] = "every epoch"
    can_stream: ClassVar[bool] = True  # False: needs the number of epochs, or arrays that grow with it
    uses_other_samples: ClassVar[bool] = False  # whether the vector of a sample depends on other samples

    @abstractmethod
    def start(self, samples: int, classes: int, epochs: int) -> SampleArrays:
        """The state before the first epoch of a window of `epochs` epochs (0 if the length is not known yet)."""

    @abstractmethod
    def update(self, state: SampleArrays, batch: EpochBatch, measure: Measure) -> None:
        """Add one epoch, by writing to the arrays of the state."""

    @abstractmethod
    def sample_arrays(self, state: SampleArrays, measure: Measure, labels: Labels, epochs: int) -> SampleArrays:
        """What `result` needs of each sample, after the last epoch; unless `result` is overridden, `scores`."""

    def result(self, arrays: SampleArrays, measure: Measure, labels: Labels, budget: int | None) -> MethodResult:
        """The result for all N samples together; `budget` is the number of samples that will be inspected."""
        return MethodResult(arrays["scores"])


class VectorAggregation(Aggregation):
    """Reduces the epochs to one vector of logits or log-probabilities per sample.

    Any measure can score the vector, and any step can change it. An aggregation with `uses_other_samples` may keep
    several candidate vectors, and select one when all samples are known.
    """

    @abstractmethod
    def vector(self, state: SampleArrays) -> NDArray[Any]:
        """The aggregated logits or log-probabilities (n, K), not normalised, or P candidates (n, P, K)."""

    def log_probabilities(self, state: SampleArrays) -> NDArray[Any]:
        """The vector as log-probabilities; candidates need not be normalised."""
        return np.asarray(log_softmax(self.vector(state), axis=-1))

    def select_vector(self, log_probabilities: NDArray[Any], labels: Labels, context: SampleContext) -> Floats:
        """The log-probabilities (N, K) of all samples, selected from the candidates (N, P, K) if there are any."""
        return log_probabilities

    def sample_arrays(self, state: SampleArrays, measure: Measure, labels: Labels, epochs: int) -> SampleArrays:
        """The measure of the aggregated logits."""
        return {"scores": LabelledLogits(self.vector(state), labels).measure(measure)}


class EpochReduction(NamedTuple):
    """An aggregation with its measure. Methods with equal reductions share one state."""

    aggregation: Aggregation
    measure: Measure


def epoch_reduction(aggregation: Aggregation, measure: Measure) -> EpochReduction:
    """The reduction of a method. The state of a VectorAggregation does not depend on the measure."""
    return EpochReduction(aggregation, LM if isinstance(aggregation, VectorAggregation) else measure)


@dataclass(frozen=True)
class ProbabilityStep(MethodPart):
    """Changes the probability vectors of all samples, after the aggregation and before the measure."""

    kind = "step"
    must_be_first: ClassVar[bool] = False  # needs normalised rows, as aggregations give them

    def can_apply(self, context: SampleContext) -> bool:
        """Whether enough is known about the samples."""
        return True

    @abstractmethod
    def apply(self, vectors: ProbabilityVectors, labels: Labels, context: SampleContext) -> ProbabilityVectors:
        """The changed vectors. The arrays of the input must not be written to."""


@dataclass(frozen=True)
class Detector(MethodPart):
    """A method that is not made of an aggregation and a measure. Its name is `Name-Variant (IS)` or `(OOS)`.

    `aggregation` reduces the epochs; override `sample_arrays` if another array than `log_probabilities` is needed.
    """

    kind = "detector"
    not_parameters = ("variant", "gathering")
    variants: ClassVar[tuple[str, ...]]
    aggregation: ClassVar[VectorAggregation]
    known_from: ClassVar[tuple[str, ...]] = ()
    why_not_in_paper: ClassVar[str] = NOT_IN_PAPER
    uses_other_samples: ClassVar[bool] = False  # its scores are not computed from class probabilities

    variant: str
    gathering: Gathering = "in-sample"

    @property
    def name(self) -> str:
        """Its name; both gatherings are written."""
        gathering = "IS" if self.gathering == "in-sample" else "OOS"
        return f"{self.registered_name}-{self.variant}{self.changed_parameters()} ({gathering})"

    @property
    def paper_name(self) -> str:
        """Its name in the paper's tables."""
        return self.name

    @property
    def reduction(self) -> EpochReduction:
        """How epochs are reduced."""
        return epoch_reduction(self.aggregation, LM)

    def sample_arrays(self, state: SampleArrays, labels: Labels, epochs: int) -> SampleArrays:
        """Aggregated log-probabilities (n, K)."""
        return {"log_probabilities": self.aggregation.log_probabilities(state)}

    @abstractmethod
    def result(self, arrays: SampleArrays, labels: Labels, budget: int | None, context: SampleContext) -> MethodResult:
        """Scores, and flags if it chooses a threshold itself, from `sample_arrays` of all N samples."""
