"""What would have been said instead of the given label."""

from dataclasses import dataclass

import numpy as np

from errata.core.aggregations import MeanProb
from errata.core.checks import Floats, Labels
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
        return likeliest(MeanProb().vector(state), labels)


def likeliest(log_probabilities: Floats, labels: Labels) -> State:
    """The likeliest class (n,), and its probability beside that of the label; rows (n, K) need not sum to 1."""
    from scipy.special import softmax

    probabilities = softmax(log_probabilities, axis=1)
    suggested = log_probabilities.argmax(axis=1)
    every = np.arange(len(labels))
    return {
        "suggested": suggested,
        "suggested_probability": probabilities[every, suggested],
        "label_probability": probabilities[every, labels],
    }
