"""Detectors that are not made of an aggregation and a measure: confident learning."""

from dataclasses import dataclass
from typing import ClassVar

from errata.core import confident_learning
from errata.core.aggregations import Last
from errata.core.checks import Labels
from errata.core.method_parts import Detector, MethodResult, SampleArrays, VectorAggregation
from errata.core.method_registry import register
from errata.core.neighbourhood import NeighbourSpaces


@register
@dataclass(frozen=True)
class ConfidentLearning(Detector):
    """Confident learning on the probabilities of the last epoch: flags, with flagged samples ranked by self-confidence.

    cleanlab: flag exactly the samples that cleanlab 2.9 flags.
    """

    registered_name = "CL"
    variants = confident_learning.VARIANTS
    aggregation: ClassVar[VectorAggregation] = Last()
    known_from = ("confident learning",)
    why_not_in_paper = ""

    cleanlab: bool = False

    def sample_arrays(self, state: SampleArrays, labels: Labels, epochs: int) -> SampleArrays:
        """Probabilities (n, K) of the last epoch."""
        from scipy.special import softmax

        return {"probabilities": softmax(state["logits"], axis=-1)}

    def result(self, arrays: SampleArrays, labels: Labels, budget: int | None, spaces: NeighbourSpaces) -> MethodResult:
        """Flags, and scores that rank flagged samples first."""
        flagged = confident_learning.flags(arrays["probabilities"], labels, self.variant, cleanlab=self.cleanlab)
        return MethodResult(confident_learning.scores(flagged, arrays["probabilities"], labels), flagged)
