"""The step Unmixed: from the probabilities of given labels to the probabilities of true classes.

A model learns the given labels. If 40 % of the cats are labelled dog, it predicts "dog, 40 %" for a clear cat, and a
wrong label no longer stands out. Let T (K, K) be the matrix of how often samples of class j get label i, at [j, i].
Then the model predicts p = q T, where q are the probabilities of the true classes.

T is estimated by counting the labels of samples that are typical of a class. The step before Unmixed decides which
samples these are:

- HeldOut: for each predicted class, the half of its samples that the held-out predictions h(i) are most confident
  about. Far from other classes, a label of another class is noise and not overlap (`transition_of_typical`).
- kNN: the samples that are confident of one class by the probabilities n(i) of their neighbours. The confident joint
  of confident learning counts them (`transition_of_joint`). A model that has memorised its labels is confident that all
  of them are correct; the neighbours are not.
- Neither: the samples that are confident of one class by the model's own p.

Expectation maximisation then finds q, starting at q = p:

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
from errata.core.sample_context import SampleContext
from errata.errors import InputError

MATRIX_ROWS = 192  # a multiple of the rows that BLAS libraries process together
TYPICAL_SHARE = 0.5
"""Of the samples of a predicted class. From 0.1 to 0.75, the misses differ by 2 % (results/research/README.md)."""


@register
@dataclass(frozen=True)
class Unmix(ProbabilityStep):
    """Removes the label noise that a model has learned from its probabilities (see the module)."""

    registered_name = "Unmixed"

    rounds: int = 2

    def __post_init__(self) -> None:
        if self.rounds != int(self.rounds) or self.rounds < 1:
            raise InputError(f"Unmixed needs a whole number of rounds, at least 1, not {self.rounds}")

    def apply(self, vectors: ProbabilityVectors, labels: Labels, context: SampleContext) -> ProbabilityVectors:
        """Log-probabilities (N, K) of true classes from those of given labels.

        With fewer than K² samples, T cannot be estimated and nothing is changed.
        """
        samples, classes = vectors.log_probabilities.shape
        if samples < classes**2:
            return vectors
        logs: Floats = np.asarray(log_softmax(vectors.log_probabilities, axis=1), dtype=np.float64)
        neighbours, held_out = vectors.neighbour_log_probabilities, vectors.held_out_log_probabilities
        if held_out is not None:
            T = transition_of_typical(held_out, labels)
        else:
            T = transition_of_joint(np.exp(logs) if neighbours is None else softmax(neighbours, axis=1), labels)
        result = np.empty_like(logs)

        def work(block: slice) -> None:
            result[block] = true_classes(logs[block], T, self.rounds)

        over_blocks(samples, max(1, BLOCK_ELEMENTS // classes), work)
        return vectors._replace(log_probabilities=result)


def transition_of_joint(probabilities: Floats, labels: Labels) -> Floats:
    """T (K, K): how often samples that are confidently of class j have label i, at [j, i].

    One is added to each count, so that no label becomes impossible: a wrong label of a rare pair of classes must still
    be found.
    """
    return as_transition(confident_joint(probabilities, labels).T.astype(np.float64))


def transition_of_typical(held_out: Floats, labels: Labels) -> Floats:
    """T (K, K) from the labels of the samples that held-out log-probabilities (N, K) are most confident about.

    Of the samples with predicted class j, these are the TYPICAL_SHARE with the highest probability of j. Labels of held
    out samples do not influence their own predictions, so their frequencies are not biased towards "all correct".
    """
    samples, classes = held_out.shape
    predicted, counts = held_out.argmax(axis=1), np.zeros((classes, classes))
    confidence = held_out[np.arange(samples), predicted]
    for j in range(classes):
        rows = np.flatnonzero(predicted == j)
        lowest = np.quantile(confidence[rows], 1 - TYPICAL_SHARE) if len(rows) else np.inf
        counts[j] = np.bincount(labels[rows[confidence[rows] >= lowest]], minlength=classes)
    return as_transition(counts)


def as_transition(counts: Floats) -> Floats:
    """T (K, K) from counts of pairs of class and label."""
    smoothed = counts + 1.0
    T: Floats = smoothed / smoothed.sum(axis=1, keepdims=True)
    return T


def true_classes(log_p: Floats, T: Floats, rounds: int) -> Floats:
    """Log q (n, K) after some rounds, from log p (n, K). Sums of logarithms keep small probabilities apart.

    Products of matrices sum in an order that depends on the number of rows. So rows are added up to a whole number of
    MATRIX_ROWS: the result of a sample does not depend on which other samples are computed with it.
    """
    samples = len(log_p)
    whole = np.pad(log_p, ((0, -samples % MATRIX_ROWS), (0, 0)), mode="edge")
    p, log_q = np.exp(whole), whole
    for _ in range(rounds):
        log_q = log_q + np.log((p / (np.exp(log_q) @ T)) @ T.T)
    return log_q[:samples]
