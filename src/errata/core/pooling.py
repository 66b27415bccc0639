"""One held-out prediction per sample: the models of errata.core.held_out_models, pooled.

The pool h is a weighted geometric mean of their probabilities:

    log h = sum over models m of w(m) log p(m)        (rows are then normalised)

with the weights w >= 0 that minimise the log loss of the given labels. A model that knows little about these data, such
as neighbours by a distance that means little, gets a weight near 0. So no rule has to decide which models suit a
dataset, and no true label is needed.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import log_softmax

from errata.core.checks import Floats, Labels
from errata.core.held_out_models import held_out_predictions, pool_weights
from errata.core.sample_context import SampleContext


def held_out_pool(labels: Labels, classes: int, context: SampleContext) -> Floats | None:
    """Log h (N, K): the one that the run brings, or predicted from its inputs, once.

    None if there are neither, too few samples to hold some out, or no model that suits the inputs.
    """
    if context.held_out is not None or "inputs" not in context.points:
        return context.held_out

    def predict() -> Floats | None:
        inputs = context.finite_points("inputs")
        return pool(held_out_predictions(inputs, labels, classes, lambda k: context.nearest("inputs", k)), labels)

    return context.computed_once(("held out", classes, labels.tobytes()), predict)


def pool(predictions: Sequence[Floats], labels: Labels) -> Floats | None:
    """Log h (N, K) from log-probabilities (N, K) of each model; None if there is none."""
    if not predictions:
        return None
    stacked = np.stack(predictions)
    return np.asarray(log_softmax(np.tensordot(pool_weights(stacked, labels), stacked, axes=1), axis=1))
