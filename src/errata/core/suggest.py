"""What the model would have said instead of the given label."""

from dataclasses import dataclass

import numpy as np

from errata.core.aggregations import MeanProb
from errata.core.checks import Labels
from errata.core.folds import Fold, State, shared_fold
from errata.core.measures import LM


@dataclass(frozen=True)
class Suggestion:
    """The class with the largest mean probability over the epochs, and that probability beside the label's."""

    name = "the suggested label"

    @property
    def fold(self) -> Fold:
        """Probabilities averaged over the epochs."""
        return shared_fold(MeanProb(), LM)

    def rows(self, state: State, labels: Labels, epochs: int) -> State:
        """suggested, suggested_probability and label_probability, each (n,)."""
        from scipy.special import softmax

        probabilities = softmax(MeanProb().vector(state), axis=1)
        suggested = probabilities.argmax(axis=1)
        every = np.arange(len(labels))
        return {
            "suggested": suggested,
            "suggested_probability": probabilities[every, suggested],
            "label_probability": probabilities[every, labels],
        }
