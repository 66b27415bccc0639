"""A method that consists of an aggregation, steps and a measure, and the suggested label of a run."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import softmax

from errata.core.aggregations import MeanProb
from errata.core.checks import Floats, Labels
from errata.core.measures import LM, LabelledLogits, Measure
from errata.core.method_parts import (
    NOT_IN_PAPER,
    Aggregation,
    EpochReduction,
    Gathering,
    MethodResult,
    ProbabilityStep,
    ProbabilityVectors,
    SampleArrays,
    VectorAggregation,
    epoch_reduction,
)
from errata.core.sample_context import SampleContext
from errata.core.smoothing import KNN
from errata.errors import InputError

# Out-of-sample, the paper evaluates these two and confident learning.
_OUT_OF_SAMPLE_IN_PAPER = (("Last", "LM"), ("Mean", "LM"))


@dataclass(frozen=True)
class ComposedMethod:
    """A method that consists of an aggregation, steps in the order of their application, and a measure."""

    aggregation: Aggregation
    measure: Measure
    gathering: Gathering = "in-sample"
    steps: tuple[ProbabilityStep, ...] = ()

    def __post_init__(self) -> None:
        for number, step in enumerate(self.steps):
            if not isinstance(self.aggregation, VectorAggregation):
                raise InputError(
                    f"{self.name}: {step.registered_name} needs one probability vector per sample, and "
                    f"{self.aggregation.name} has none"
                )
            if number and step.must_be_first:
                raise InputError(f"{self.name}: {step.registered_name} must stand directly before the aggregation")
            if step.registered_name in {other.registered_name for other in self.steps[:number]}:
                raise InputError(f"{self.name}: the step {step.registered_name} is named twice")

    @cached_property
    def name(self) -> str:
        """Its name; in-sample is not written."""
        steps = "".join(f"{step.name}-" for step in reversed(self.steps))
        gathering = " (OOS)" if self.gathering != "in-sample" else ""
        return f"{steps}{self.aggregation.name}-{self.measure.name}{gathering}"

    @property
    def paper_name(self) -> str:
        """Its name in the paper's tables, where CE and JS share a row if they rank alike."""
        return self.name.replace("-CE", "-CE/JS") if isinstance(self.aggregation, VectorAggregation) else self.name

    @property
    def uses_other_samples(self) -> bool:
        """Whether the class probabilities of a sample depend on other samples."""
        return self.aggregation.uses_other_samples or bool(self.steps)

    @property
    def searches_neighbours(self) -> bool:
        """Whether its first step needs the neighbours of all samples."""
        return bool(self.steps) and isinstance(self.steps[0], KNN)

    @property
    def known_from(self) -> tuple[str, ...]:
        """The published detectors that rank like it."""
        return () if self.uses_other_samples else tuple(self.aggregation.known_from.get(self.measure.name, ()))

    @property
    def why_not_in_paper(self) -> str:
        """Why the paper does not evaluate it; empty if it does."""
        if self.uses_other_samples:
            return NOT_IN_PAPER
        if self.measure.name not in self.aggregation.paper_measures:
            return self.aggregation.why_not_in_paper.get(self.measure.name, NOT_IN_PAPER)
        pair = (self.aggregation.name, self.measure.name)
        if self.gathering == "in-sample" or pair in _OUT_OF_SAMPLE_IN_PAPER:
            return ""
        return "out-of-sample is evaluated for Last-LM, Mean-LM and confident learning only"

    @property
    def reduction(self) -> EpochReduction:
        """How epochs are reduced."""
        return epoch_reduction(self.aggregation, self.measure)

    def sample_arrays(self, state: SampleArrays, labels: Labels, epochs: int) -> SampleArrays:
        """What `result` needs of each sample."""
        if not self.uses_other_samples:
            return self.aggregation.sample_arrays(state, self.measure, labels, epochs)
        assert isinstance(self.aggregation, VectorAggregation)
        return {"log_probabilities": self.aggregation.log_probabilities(state)}

    def result(self, arrays: SampleArrays, labels: Labels, budget: int | None, context: SampleContext) -> MethodResult:
        """Scores of all samples, and flags if the aggregation chooses a threshold."""
        if not self.uses_other_samples:
            return self.aggregation.result(arrays, self.measure, labels, budget)
        return MethodResult(self.score_probabilities(self.class_log_probabilities(arrays, labels, context), labels))

    def class_log_probabilities(self, arrays: SampleArrays, labels: Labels, context: SampleContext) -> Floats:
        """Log-probabilities (N, K) after all steps; rows need not be normalised."""
        assert isinstance(self.aggregation, VectorAggregation)
        vectors = ProbabilityVectors(self.aggregation.select_vector(arrays["log_probabilities"], labels, context))
        for step in self.steps:
            vectors = step.apply(vectors, labels, context)
        return vectors.log_probabilities

    def score_probabilities(self, log_probabilities: Floats, labels: Labels) -> Floats:
        """Scores (N,) from class log-probabilities (N, K)."""
        return LabelledLogits(log_probabilities, labels).measure(self.measure)


@dataclass(frozen=True)
class SuggestedLabel:
    """The suggested label for methods without class probabilities of their own: the class with the largest MeanProb."""

    name = "the suggested label"

    @property
    def reduction(self) -> EpochReduction:
        """Probabilities averaged over the epochs."""
        return epoch_reduction(MeanProb(), LM)

    def sample_arrays(self, state: SampleArrays, labels: Labels, epochs: int) -> SampleArrays:
        """The arrays of `suggest`."""
        return suggest(MeanProb().vector(state), labels)


def suggest(log_probabilities: Floats, labels: Labels) -> SampleArrays:
    """suggested: the most probable class (n,). suggested_probability, label_probability: its and the label's, (n,).

    Rows of the log-probabilities (n, K) need not be normalised.
    """
    probabilities = softmax(log_probabilities, axis=1)
    suggested = probabilities.argmax(axis=1)
    every = np.arange(len(labels))
    return {
        "suggested": suggested,
        "suggested_probability": probabilities[every, suggested],
        "label_probability": probabilities[every, labels],
    }
