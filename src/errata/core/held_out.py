"""The step HeldOut: blend the probabilities of a sample with those of models that have not seen its label.

A model that was trained on a wrong label has moved towards it. Models that were trained without the sample have not:
errata.core.held_out_models describes them. They are pooled to one prediction h (errata.core.pooling):

    log p' = a log p(own) + (1 - a) log h

The loss of a run on the labels that it was trained on cannot choose the weight a, because every model fits these. So a
is 0.4; from 0.3 to 0.5 the results are the same within 1 % (results/research/README.md). If `errata find` measured that
the model predicts the labels of a validation split better than h does, a is 0.7. This happens for tables of categories
that follow exact rules, which networks and boosting learn, and the models of h do not.
"""

from dataclasses import dataclass
from typing import ClassVar

from errata.core.checks import Floats, Labels
from errata.core.method_parts import ProbabilityStep, ProbabilityVectors
from errata.core.method_registry import register
from errata.core.pooling import held_out_pool
from errata.core.sample_context import SampleContext
from errata.errors import InputError

USUAL_WEIGHT, WEIGHT_OF_BETTER_RUN = 0.4, 0.7


@register
@dataclass(frozen=True)
class HeldOut(ProbabilityStep):
    """Blends a sample's log-probabilities with predictions of models that have not seen its label (see the module)."""

    must_be_first: ClassVar[bool] = True

    a: float = USUAL_WEIGHT

    def __post_init__(self) -> None:
        if not 0 <= self.a <= 1:
            raise InputError(f"HeldOut needs a between 0 and 1, not {self.a}")

    def can_apply(self, context: SampleContext) -> bool:
        """Whether there are held-out predictions, or inputs to predict from."""
        return context.can_hold_out

    def apply(self, vectors: ProbabilityVectors, labels: Labels, context: SampleContext) -> ProbabilityVectors:
        """The blend (N, K), whose rows are not normalised, and the held-out log-probabilities alone."""
        if not self.can_apply(context):
            raise InputError(f"{self.name} needs inputs of the samples, or held-out predictions; this run has neither")
        own = vectors.log_probabilities
        held_out = held_out_pool(labels, own.shape[1], context)
        if held_out is None:
            return vectors
        return ProbabilityVectors(self.blended(own, held_out), held_out_log_probabilities=held_out)

    def blended(self, own: Floats, held_out: Floats) -> Floats:
        """The blend (N, K) of log-probabilities, whose rows are not normalised."""
        return self.a * own + (1 - self.a) * held_out
