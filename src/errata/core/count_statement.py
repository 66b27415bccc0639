"""What can be said about the number of wrong labels before any verdict: a number, a range, or nothing.

Where classes overlap, correct labels of borderline samples look like errors, and no method can tell the two apart
without a verdict. The thresholds were set on runs with known errors; docs/guarantees.md has these, and others.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import xlogy

from errata.core.checks import Floats
from errata.core.rates import NoiseRate

LEAST_SEPARATION = 3.6  # of the two groups of scores, in standard deviations within a group
MOST_AMBIGUITY = 0.32  # of p_wrong
SMALLEST_RATE = 0.02  # a lower estimate is stated as a number: a range would say no more
HELD_OUT_SHARE = 0.2  # of the samples
DEVIATIONS = 2  # standard deviations of the held-out loss

Reason = Literal["", "guessing", "overlap", "held-out loss"]


@dataclass(frozen=True)
class CountStatement:
    """kind: whether to state the estimated number, a range, or nothing. low, high: the range of the rate.

    reason: why it is not a number: the model guesses, the classes overlap, or held-out samples are predicted better
    than the estimated number of wrong labels allows.
    """

    kind: Literal["number", "range", "nothing"]
    low: float
    high: float
    reason: Reason = ""


def count_statement(
    scores: Floats, p_wrong: Floats, estimate: NoiseRate, *, guessing: bool, held_out_loss: float | None
) -> CountStatement:
    """What to state about the number of wrong labels.

    scores, p_wrong (N,): of all samples. guessing: the model has learned nothing. held_out_loss: the log loss of the
    given labels of samples that the model was not trained on; None if it is not known.
    """
    if guessing:
        return CountStatement("nothing", 0.0, 1.0, "guessing")
    limit = 1.0 if held_out_loss is None else highest_rate(held_out_loss, HELD_OUT_SHARE * len(scores))
    if estimate.rate < SMALLEST_RATE:
        return CountStatement("number", estimate.low, estimate.high)
    # Overlapping classes may explain every contradiction between model and labels, so the range starts at 0.
    high = min(estimate.high, limit)
    separation = group_separation(scores, round(estimate.rate * len(scores)))
    if separation < LEAST_SEPARATION or ambiguity(p_wrong) > MOST_AMBIGUITY:
        return CountStatement("range", 0.0, high, "overlap")
    if estimate.rate > limit:
        return CountStatement("range", 0.0, high, "held-out loss")
    return CountStatement("number", estimate.low, estimate.high)


def group_separation(scores: Floats, count: int) -> float:
    """The distance between the means of the `count` highest scores and of the others, in standard deviations.

    The standard deviation is that within the two groups. 0 if a group is empty.
    """
    ordered = np.sort(scores)[::-1]
    upper, lower = ordered[:count], ordered[count:]
    if not len(upper) or not len(lower):
        return 0.0
    within = np.sqrt((upper.var() * len(upper) + lower.var() * len(lower)) / len(ordered))
    return float((upper.mean() - lower.mean()) / max(within, 1e-12))


def ambiguity(p_wrong: Floats) -> float:
    """How undecided p_wrong (N,) is: the sum of p (1 - p) as a share of the sum of p. 0 if all are 0 or 1."""
    total = float(p_wrong.sum())
    return float((p_wrong * (1 - p_wrong)).sum()) / total if total > 0 else 0.0


def highest_rate(held_out_loss: float, samples: float) -> float:
    """The highest rate of random errors that allows such a log loss on this number of held-out samples, at most 0.5.

    Random errors at the rate r cannot be predicted, so they cost every model the entropy of r on average. Chance may
    make it less, by DEVIATIONS standard deviations.
    """
    rates = np.linspace(0, 0.5, 5001)[1:]
    entropy = -xlogy(rates, rates) - xlogy(1 - rates, 1 - rates)
    deviation = np.sqrt(rates * (1 - rates) / max(samples, 1)) * np.log((1 - rates) / rates)
    possible = rates[entropy - DEVIATIONS * deviation <= held_out_loss]
    return float(possible.max()) if len(possible) else 0.0
