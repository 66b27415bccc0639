"""The step HeldOut: blend the probabilities of a sample with those of models that have not seen its label.

A model that was trained on a wrong label has moved towards it. Models that were trained without the sample have not:
errata.core.held_out_models describes them. They are pooled to one prediction h (errata.core.pooling):

    log p' = a log p(own) + (1 - a) log h

The weight a = 0.4 of the run is fixed: a run that was trained on its samples fits their labels however good it is, so
its own loss cannot choose it. From 0.3 to 0.5 the results are the same within 1 % (results/research/README.md).
"""

from dataclasses import dataclass
from typing import ClassVar

from errata.core.checks import Labels
from errata.core.method_parts import ProbabilityStep, ProbabilityVectors
from errata.core.method_registry import register
from errata.core.neighbours import NeighbourSpaces
from errata.core.pooling import held_out_pool
from errata.errors import InputError


@register
@dataclass(frozen=True)
class HeldOut(ProbabilityStep):
    """Blends a sample's log-probabilities with predictions of models that have not seen its label (see the module)."""

    must_be_first: ClassVar[bool] = True

    a: float = 0.4

    def __post_init__(self) -> None:
        if not 0 <= self.a <= 1:
            raise InputError(f"HeldOut needs a between 0 and 1, not {self.a}")

    def apply(self, vectors: ProbabilityVectors, labels: Labels, spaces: NeighbourSpaces) -> ProbabilityVectors:
        """The blend (N, K), whose rows are not normalised, and the held-out log-probabilities alone."""
        if not spaces.can_hold_out:
            raise InputError(f"{self.name} needs inputs of the samples, or held-out predictions; this run has neither")
        own = vectors.log_probabilities
        held_out = held_out_pool(labels, own.shape[1], spaces)
        if held_out is None:
            return vectors
        return ProbabilityVectors(self.a * own + (1 - self.a) * held_out, held_out_log_probabilities=held_out)
