"""Signs that a model has learned labels by heart, wrong ones included."""

from dataclasses import dataclass

import numpy as np

from errata.core.checks import Floats
from errata.dynamics.store import Dynamics

MUCH = 0.3
"""Runs that had learned so many of their suspects were misled by their last epoch, all that were measured
(docs/advise.md)."""


@dataclass(frozen=True)
class Memorising:
    """How many given labels the model predicts: of all samples, and of the suspects.

    learned: at the last epoch; learned_best: at the epoch with most of them, `best_epoch`. suspects_learned: at the
    last epoch; suspects_epoch: the epoch from which on it is at least half of that.
    """

    learned: float
    learned_best: float
    best_epoch: int
    suspects_learned: float
    suspects_epoch: int

    @property
    def much(self) -> bool:
        """Whether the last epochs should not be believed."""
        return self.suspects_learned >= MUCH


def memorising(dynamics: Dynamics, suspects: Floats) -> Memorising | None:
    """The signs of a run, where `suspects` (N,) says how far each sample is one.

    None where there are none: labels that were held out cannot be learned by heart, running sums do not tell.
    """
    if dynamics.logits is None or dynamics.gathering == "out-of-sample":
        return None
    every, doubted = np.empty(dynamics.epochs), np.empty(dynamics.epochs)
    predicted = np.zeros(dynamics.samples, dtype=np.bool_)
    for epoch, logits in enumerate(dynamics.logits):
        # A sample that misses an epoch is taken as it was before.
        rows = ~np.isnan(logits).all(axis=1) if dynamics.allow_missing else slice(None)
        predicted[rows] = logits[rows].argmax(axis=1) == dynamics.labels[rows]
        every[epoch], doubted[epoch] = predicted.mean(), np.average(predicted, weights=suspects)
    best = int(every.argmax())
    return Memorising(
        learned=float(every[-1]),
        learned_best=float(every[best]),
        best_epoch=best,
        suspects_learned=float(doubted[-1]),
        # An untrained model predicts some labels by chance: what counts is when it stays so.
        suspects_epoch=int(np.flatnonzero(np.append(True, doubted < doubted[-1] / 2))[-1]),
    )
