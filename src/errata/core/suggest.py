"""What would have been said instead of the given label."""

from dataclasses import dataclass

import numpy as np

from errata.core.aggregations import MeanProb
from errata.core.checks import Floats, Labels
from errata.core.folds import Fold, State, shared_fold
from errata.core.measures import LM
from errata.core.methods import Composed, Method
from errata.core.neighbourhood import Space


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
        return _likeliest(MeanProb().vector(state), labels)


def best_known(method: Method, told: State, alone: State, labels: Labels, space: Space) -> State:
    """What a method that looks around believes of all samples, from what it was told; else `alone`, what they say."""
    if not isinstance(method, Composed) or not method.looks_around:
        return alone
    return _likeliest(method.believed(told, labels, space), labels)


def _likeliest(log_probabilities: Floats, labels: Labels) -> State:
    """The likeliest class (n,), and its probability beside that of the label; rows (n, K) need not sum to 1."""
    from scipy.special import softmax

    probabilities = softmax(log_probabilities, axis=1)
    suggested = probabilities.argmax(axis=1)
    every = np.arange(len(labels))
    return {
        "suggested": suggested,
        "suggested_probability": probabilities[every, suggested],
        "label_probability": probabilities[every, labels],
    }
