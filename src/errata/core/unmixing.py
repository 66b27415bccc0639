"""The step Unmixed: from the probabilities of given labels to the probabilities of true classes.

A model learns the given labels. If 40 % of the cats are labelled dog, it predicts "dog, 40 %" for a clear cat, and a
wrong label no longer stands out. Let T (K, K) be the matrix of how often samples of class j get label i, at [j, i].
Then the model predicts p = q T, where q are the probabilities of the true classes.

T is estimated with the confident joint of confident learning: it counts the labels of samples that are confidently of
one class. If the step kNN used neighbours before, these are the probabilities n(i) of the neighbours, because a model
that has memorised labels is confident that all are correct; otherwise p. Expectation maximisation then finds q,
starting at q = p:

    q_j  <-  q_j  sum over labels i of  T_ji p_i / (q T)_i

Two rounds are enough; with more rounds q becomes too confident and ranks worse (docs/research.md).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, softmax

from errata.core.checks import Floats, Labels
from errata.core.confident_learning import confident_joint
from errata.core.jit import BLOCK_ELEMENTS, over_blocks
from errata.core.method_parts import ProbabilityStep, ProbabilityVectors
from errata.core.method_registry import register
from errata.core.neighbours import NeighbourSpaces
from errata.errors import InputError


@register
@dataclass(frozen=True)
class Unmix(ProbabilityStep):
    """Removes the label noise that a model has learned from its probabilities (see the module)."""

    registered_name = "Unmixed"

    rounds: int = 2

    def __post_init__(self) -> None:
        if self.rounds != int(self.rounds) or self.rounds < 1:
            raise InputError(f"Unmixed needs a whole number of rounds, at least 1, not {self.rounds}")

    def apply(self, vectors: ProbabilityVectors, labels: Labels, spaces: NeighbourSpaces) -> ProbabilityVectors:
        """Log-probabilities (N, K) of true classes from those of given labels.

        With fewer than K² samples, T cannot be estimated and nothing is changed.
        """
        samples, classes = vectors.log_probabilities.shape
        if samples < classes**2:
            return vectors
        logs: Floats = np.asarray(log_softmax(vectors.log_probabilities, axis=1), dtype=np.float64)
        neighbours = vectors.neighbour_log_probabilities
        T = transition(np.exp(logs) if neighbours is None else softmax(neighbours, axis=1), labels)
        result = np.empty_like(logs)

        def work(block: slice) -> None:
            result[block] = true_classes(logs[block], T, self.rounds)

        over_blocks(samples, max(1, BLOCK_ELEMENTS // classes), work)
        return ProbabilityVectors(result, neighbours)


def transition(probabilities: Floats, labels: Labels) -> Floats:
    """T (K, K): how often samples that are confidently of class j have label i, at [j, i].

    One is added to each count, so that no label becomes impossible: a wrong label of a rare pair of classes must still
    be found.
    """
    counts = confident_joint(probabilities, labels).T + 1.0
    T: Floats = counts / counts.sum(axis=1, keepdims=True)
    return T


def true_classes(log_p: Floats, T: Floats, rounds: int) -> Floats:
    """Log q (n, K) after some rounds, from log p (n, K). Sums of logarithms keep small probabilities apart."""
    p, log_q = np.exp(log_p), log_p
    for _ in range(rounds):
        log_q = log_q + np.log((p / (np.exp(log_q) @ T)) @ T.T)
    return log_q
