"""One held-out prediction per sample: the models of errata.core.held_out_models, pooled.

The pool h is a weighted geometric mean of their probabilities:

    log h = sum over models m of w(m) log p(m)        (rows are then normalised)

with the weights w >= 0 that minimise the log loss of the given labels. A model that knows little about these data, such
as neighbours by a distance that means little, gets a weight near 0. So no rule has to decide which models suit a
dataset, and no true label is needed.
"""

from typing import Any

import numpy as np
from scipy.special import log_softmax

from errata.core.checks import Floats, Labels
from errata.core.held_out_models import NearestRows, held_out_predictions, pool_weights
from errata.core.neighbours import NeighbourSpaces


def held_out_pool(labels: Labels, classes: int, spaces: NeighbourSpaces) -> Floats | None:
    """Log h (N, K): the one that the run brings, or predicted from its inputs, once.

    None if there are neither, or too few samples to hold some out.
    """
    if spaces.held_out is not None or "inputs" not in spaces.points:
        return spaces.held_out

    def predict() -> Floats | None:
        return pool_models(spaces.finite_points("inputs"), labels, classes, lambda k: spaces.nearest("inputs", k))

    return spaces.computed_once(("held out", classes, labels.tobytes()), predict)


def pool_models(inputs: Any, labels: Labels, classes: int, nearest: NearestRows | None = None) -> Floats | None:
    """Log h (N, K) from inputs (N, D); None if nothing can be held out. Arguments as `held_out_predictions` has."""
    predictions = np.array(held_out_predictions(inputs, labels, classes, nearest))
    if not len(predictions):
        return None
    weights = pool_weights(predictions, labels)
    return np.asarray(log_softmax(np.tensordot(weights, predictions, axes=1), axis=1))
