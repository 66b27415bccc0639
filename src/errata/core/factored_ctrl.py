"""CTRL on a run in parts: cluster a sample of the curves, then vote on all.

The sample has about SAMPLE_OF_CLASS curves of each class, chosen by a hash of the row number. A class with no more
samples is in it completely; if all classes are, the votes and flags are those of the whole run bit for bit. Otherwise
they are those of CTRL on the sample, applied to all. The configuration is chosen on the part of the sample in which all
classes have the same rate, so that it is a uniform sample of the run.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core import ctrl
from errata.core.aggregations import CTRL
from errata.core.checks import Floats
from errata.core.composed_method import ComposedMethod
from errata.core.factored_method import BUDGET, SAMPLES, FactoredMethod, Part, State
from errata.core.method_parts import MethodResult
from errata.core.random_part import GOLDEN, mix_bits

SAMPLE_OF_CLASS = 5_000
"""Curves of a class that are clustered. k-means takes seconds for this number."""


class FactoredCTRL(FactoredMethod):
    """Sizes of the classes, then a sample of the curves."""

    rounds = 2

    @property
    def _aggregation(self) -> CTRL:
        assert isinstance(self.method, ComposedMethod)
        assert isinstance(self.method.aggregation, CTRL)
        return self.method.aggregation

    def map(self, number: int, part: Part, known: State) -> State:
        """Round 0: sizes by class. Round 1: of the sample, hashes, labels, curves and correct predictions."""
        if number == 0:
            return dict(zip(*(found.tolist() for found in np.unique(part.labels, return_counts=True)), strict=True))
        hashes = mix_bits(np.arange(part.first + 1, part.first + len(part.labels) + 1, dtype=np.uint64) * GOLDEN)
        kept = np.flatnonzero(hashes <= _thresholds(known)[part.labels])
        arrays = hashes[kept], part.labels[kept], self._curves(part, known)[kept], part.arrays["correct"][kept]
        return {"sample": (arrays,)}

    def reduce(self, number: int, state: State, known: State) -> State:
        """The sizes, then what CTRL learns from the sample."""
        if number == 0:
            return known | {"sizes": state}
        hashes, labels, curves, correct = (np.concatenate(arrays) for arrays in zip(*state["sample"], strict=True))
        uniform: Any = hashes <= _thresholds(known)[list(known["sizes"])].min()
        budget = known[BUDGET]
        if budget is not None:
            budget = round(budget * np.count_nonzero(uniform) / known[SAMPLES])
        choice = self._aggregation.choose(curves, labels, correct, uniform, budget)
        return {"observed": len(known["sizes"]), "choice": choice}

    def result(self, part: Part, known: State) -> MethodResult:
        """The votes of one part."""
        return self._aggregation.vote(known["choice"], self._curves(part, known), part.labels)

    def _curves(self, part: Part, known: State) -> Floats:
        observed = known["observed"] if "observed" in known else len(known["sizes"])
        return ctrl.smoothed(part.arrays["curve"], observed, self._aggregation.smooth)


def _thresholds(known: State) -> NDArray[np.uint64]:
    """The highest hash, by class, of a curve in the sample."""
    thresholds = np.zeros(max(known["sizes"]) + 1, dtype=np.uint64)
    for label, size in known["sizes"].items():
        thresholds[label] = min(SAMPLE_OF_CLASS * (1 << 64) // size, (1 << 64) - 1)
    return thresholds
