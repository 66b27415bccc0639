"""The step Unmixed: from the probabilities of given labels to the probabilities of true classes.

A model learns the given labels. If 40 % of the cats are labelled dog, it predicts "dog, 40 %" for a clear cat, and a
wrong label no longer stands out. Let T (K, K) be the matrix of how often samples of class j get label i, at [j, i].
Then the model predicts p = q T, where q are the probabilities of the true classes. Expectation maximisation finds q,
starting at q = p:

    q_j  <-  q_j  sum over labels i of  T_ji p_i / (q T)_i

Two rounds are enough; with more rounds q becomes too confident and ranks worse (docs/research.md).

After HeldOut, T is counted where classes do not overlap: for the tenth of the samples of each predicted class that the
held-out predictions are most confident about. A label of another class is noise there. Held-out predictions have not
seen the label of their sample, so the counts are not biased towards "all correct". Of T_jj = 1 - e_j and
T_ji = e_j U_ji, two things may depend on the class j:

- the share e_j of wrong labels: uniformly distributed between 0 and 1 for each class, or for all classes together;
- the labels of wrong ones: U_ji by the Dirichlet distribution with parameters 1 / (K - 1), or always 1 / (K - 1).

For both, the simple hypothesis is used unless the counts are at least DECISIVE times more probable under the other one.
Where classes overlap, even typical samples have other labels without being wrong, which looks like noise that depends
on the class. So T is SHARE_OF_COUNTS times the posterior mean, and for the rest the posterior mean under both simple
hypotheses. The given label i itself is evidence besides p: q_j is multiplied by T_ji. So that scores keep their scale,
T_ji is divided by its mean over wrong labels, and T_ii by its mean over right ones; where the noise is the same in all
classes, this changes nothing.

Otherwise T is the confident joint of confident learning: it counts the samples that are confidently of one class, by
the probabilities n(i) of their neighbours after kNN, or else by the model's own p. A model that has memorised its
labels is confident that all of them are correct; its neighbours are not. With fewer than K² samples, the step then
changes nothing.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import betaln, gammaln, log_softmax, softmax

from errata.core.checks import Floats, Labels
from errata.core.confident_learning import confident_joint
from errata.core.jit import BLOCK_ELEMENTS, over_blocks
from errata.core.method_parts import ProbabilityStep, ProbabilityVectors
from errata.core.method_registry import register
from errata.core.sample_context import SampleContext
from errata.errors import InputError

MATRIX_ROWS = 192  # a multiple of the rows that BLAS libraries process together
TYPICAL_SHARE = 0.1
"""Of the samples of a predicted class. More of them include overlap (results/research/README.md)."""
DECISIVE = 100.0
"""Jeffreys' decisive Bayes factor. From 1 to 1000, the misses differ by 1 % (results/research/README.md)."""
SHARE_OF_COUNTS = 0.8
"""Of T. Less than 1 costs little where noise depends on the class, and helps where classes overlap (the same page)."""


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
        """Log-probabilities (N, K) of true classes from those of given labels; rows need not be normalised."""
        samples, classes = vectors.log_probabilities.shape
        neighbours, held_out = vectors.neighbour_log_probabilities, vectors.held_out_log_probabilities
        if held_out is None and samples < classes**2:
            return vectors
        logs: Floats = np.asarray(log_softmax(vectors.log_probabilities, axis=1), dtype=np.float64)
        if held_out is not None:
            T = transition_of_typical(count_typical(held_out, labels))
        elif neighbours is not None:
            T = transition_of_joint(softmax(neighbours, axis=1), labels)
        else:
            T = transition_of_joint(np.exp(logs), labels)
        return vectors._replace(log_probabilities=self.unmixed(logs, T, None if held_out is None else labels))

    def unmixed(self, logs: Floats, T: Floats, typical_labels: Labels | None) -> Floats:
        """Log-probabilities (N, K) of true classes from normalised ones of given labels.

        typical_labels (N,): the given labels, if T is of typical samples.
        """
        classes = logs.shape[1]
        evidence = np.zeros((classes, classes)) if typical_labels is None else label_evidence(T)
        result = np.empty_like(logs)

        def work(block: slice) -> None:
            result[block] = true_classes(logs[block], T, self.rounds)
            if typical_labels is not None:
                result[block] += evidence.T[typical_labels[block]]

        over_blocks(len(logs), max(1, BLOCK_ELEMENTS // classes), work)
        return result


def transition_of_joint(probabilities: Floats, labels: Labels) -> Floats:
    """T (K, K): how often samples that are confidently of class j have label i, at [j, i].

    One is added to each count, so that no label becomes impossible: a wrong label of a rare pair of classes must still
    be found.
    """
    return as_transition(confident_joint(probabilities, labels).T.astype(np.float64))


def count_typical(held_out: Floats, labels: Labels) -> Floats:
    """How often typical samples of predicted class j have label i, at [j, i].

    These are the `typical_size` samples with predicted class j that have the highest probability of j, and those equal
    to the last of them.
    """
    samples, classes = held_out.shape
    predicted, counts = held_out.argmax(axis=1), np.zeros((classes, classes))
    confidence = held_out[np.arange(samples), predicted]
    for j in np.unique(predicted):
        rows = np.flatnonzero(predicted == j)
        last = len(rows) - typical_size(len(rows))
        typical = rows[confidence[rows] >= np.partition(confidence[rows], last)[last]]
        counts[j] = np.bincount(labels[typical], minlength=classes)
    return counts


def typical_size(samples: int) -> int:
    """How many of the samples of a predicted class are typical: those not below the quantile 1 - TYPICAL_SHARE."""
    return 1 + int((samples - 1) * Fraction(str(TYPICAL_SHARE))) if samples else 0


def transition_of_typical(counts: Floats) -> Floats:
    """T (K, K) from counts of label i in class j, at [j, i]. What need not depend on the class is equal in all."""
    classes = len(counts)
    right, wrong = counts.diagonal(), counts * (1 - np.eye(classes))
    wrong_of_class, uniform = wrong.sum(axis=1), (1 - np.eye(classes)) / max(1, classes - 1)
    own_rates = betaln(wrong_of_class + 1, right + 1).sum() - betaln(wrong.sum() + 1, right.sum() + 1)
    others = uniform > 0
    own_directions = (gammaln(uniform[others] + wrong[others]) - gammaln(uniform[others])).sum()
    own_directions -= gammaln(1 + wrong_of_class).sum() - wrong.sum() * np.log(max(1, classes - 1))
    common = np.full(classes, (wrong.sum() + 1) / (counts.sum() + 2))
    e, U = common, uniform
    if own_rates >= np.log(DECISIVE):
        e = (wrong_of_class + 1) / (counts.sum(axis=1) + 2)
    if own_directions >= np.log(DECISIVE):
        U = (wrong + uniform) / (wrong_of_class + 1)[:, None]
    return SHARE_OF_COUNTS * _transition(e, U) + (1 - SHARE_OF_COUNTS) * _transition(common, uniform)


def _transition(e: Floats, U: Floats) -> Floats:
    """T (K, K) from the share of wrong labels of each class (K,), and the share of each label among them (K, K)."""
    return np.asarray(np.diag(1 - e) + e[:, None] * U)


def label_evidence(T: Floats) -> Floats:
    """Log factors (K, K) of class j, given label i, at [j, i]: T, relative to its means over wrong and right labels."""
    same = np.eye(len(T), dtype=bool)
    right, wrong = np.where(same, T, 0), np.where(same, 0, T)
    relative = [part * part.sum() / max((part**2).sum(), np.finfo(float).tiny) for part in (right, wrong)]
    return np.asarray(np.log(sum(relative)))


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
