"""Unmixing, the fifth axis of the taxonomy: what a model has learned of the noise is taken out of its probabilities.

A model learns given labels. Where cats are often labelled dog, it says of a sure cat that it may be labelled dog, and
a wrong label no longer stands out. If T (K, K) holds how often samples of each class get each label, the probabilities
of given labels are p = q T, a mixture of the probabilities q of true classes. T is counted by confident learning: how
often samples that are confidently of a class bear each label. Who is of which class is asked of the neighbours where
they are known: a model that has memorised labels would say that all of them are right. Then q is found by expectation
maximisation,

    q_j  <-  q_j  sum over labels i of  T_ji p_i / (q T)_i

which begins at p. A few rounds do: more of them make q sharper than p can tell.
"""

from dataclasses import dataclass

import numpy as np

from errata.core.checks import Floats, Labels
from errata.core.confident_learning import confident_joint
from errata.core.jit import BLOCK_ELEMENTS, over_blocks
from errata.errors import InputError


@dataclass(frozen=True)
class Unmix:
    """Takes the noise that a model has learned out of log-probabilities, in so many rounds (docs/research.md)."""

    rounds: int = 2

    def __post_init__(self) -> None:
        if self.rounds != int(self.rounds) or self.rounds < 1:
            raise InputError(f"Unmixed needs a whole number of rounds, at least 1, not {self.rounds}")

    @property
    def name(self) -> str:
        """Its name in the grammar: Unmixed, then the rounds if they are not the usual ones."""
        return "Unmixed" if self == Unmix() else f"Unmixed(rounds={self.rounds})"

    def unmix(self, log_probabilities: Floats, labels: Labels, heard: Floats | None = None) -> Floats:
        """Log-probabilities of true classes (N, K) from those of given labels, whose rows need not sum to 1.

        heard: what neighbours say, (N, K) too, by which transitions are counted; None: by the log-probabilities.
        With fewer samples than pairs of classes nothing can be counted, and they stay as they are.
        """
        from scipy.special import log_softmax, softmax

        samples, classes = log_probabilities.shape
        if samples < classes**2:
            return log_probabilities
        logs: Floats = np.asarray(log_softmax(log_probabilities, axis=1), dtype=np.float64)
        T = transition(np.exp(logs) if heard is None else softmax(heard, axis=1), labels)
        result = np.empty_like(logs)

        def work(block: slice) -> None:
            result[block] = true_classes(logs[block], T, self.rounds)

        over_blocks(samples, max(1, BLOCK_ELEMENTS // classes), work)
        return result


def transition(probabilities: Floats, labels: Labels) -> Floats:
    """T (K, K): how often samples that are confidently of class j bear label i, at [j, i]; one more is counted of each.

    That one keeps every label possible, as a wrong label of a rare pair of classes is still a wrong label.
    """
    counts = confident_joint(probabilities, labels).T + 1.0
    T: Floats = counts / counts.sum(axis=1, keepdims=True)
    return T


def true_classes(log_p: Floats, T: Floats, rounds: int) -> Floats:
    """After so many rounds log q (n, K), from log p, as a sum of logarithms, in which no probability is lost."""
    p, log_q = np.exp(log_p), log_p
    for _ in range(rounds):
        log_q = log_q + np.log((p / (np.exp(log_q) @ T)) @ T.T)
    return log_q
