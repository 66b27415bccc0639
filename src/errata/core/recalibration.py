"""p_wrong, corrected by verdicts, and how many errors to expect among the next samples of a review."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from errata.core.checks import Floats, as_numpy
from errata.core.guarantees import UNSURE, Verdicts, check_verdicts

SMALLEST = 1e-6  # probabilities are moved this far from 0 and 1
SHIFT_DEVIATION, SLOPE_DEVIATION = 3.0, 0.5  # of the prior of the two parameters
PRIOR_CHECKS = 20  # random checks at which half of the difference to the random part is corrected
STEPS = 100


def recalibrate(p_wrong: ArrayLike, rows: ArrayLike, wrong: ArrayLike, at_random: ArrayLike) -> Floats:
    """The probability (N,) that each label is wrong, given the verdicts. The arguments are those of `Verdicts`.

    Labels with a verdict have the probability 0 or 1. The log-odds of the others are a + b × the log-odds of p_wrong.
    a and b fit all verdicts. Verdicts on suspicious samples may be used, as they were chosen by p_wrong and not by the
    truth, but they say little about unsuspicious samples. So the result is then shifted towards the number of wrong
    labels that the random part shows.
    """
    verdicts = check_verdicts(p_wrong, rows, wrong, at_random)
    sure = verdicts.wrong != UNSURE
    odds = logit(np.clip(verdicts.p_wrong, SMALLEST, 1 - SMALLEST))
    judged, outcomes = verdicts.rows[sure], verdicts.wrong[sure].astype(np.float64)
    shift, slope = _fit(odds[judged], outcomes)
    corrected = np.asarray(expit(_shifted(shift + slope * odds, verdicts, sure)))
    corrected[judged] = outcomes
    return corrected


def expect_among_next(corrected: ArrayLike, ranked: ArrayLike, rows: ArrayLike, count: int) -> float:
    """The expected number of errors among the next `count` samples without a verdict.

    corrected (N,): the result of `recalibrate`. ranked (N,): all rows, most suspicious first. rows: those judged.
    """
    probabilities, order = np.asarray(as_numpy(corrected, "corrected"), dtype=np.float64), as_numpy(ranked, "ranked")
    left = np.ones(len(probabilities), dtype=np.bool_)
    left[np.asarray(rows, dtype=np.int64)] = False
    return float(probabilities[order[left[order]][:count]].sum())


def logistic_weights(design: Floats, outcomes: Floats, prior: Floats, deviations: Floats) -> Floats:
    """The most probable weights (k,) of a logistic curve, by Newton's method; without outcomes those of the prior.

    design (n, k): the columns are a constant, the log-odds of p_wrong and any others. outcomes (n,): 0 or 1. prior,
    deviations (k,): the means and standard deviations of the weights before any outcome. The weight of p_wrong is not
    negative: a higher score is never less suspicious.
    """
    precision, parameters = np.diag(deviations**-2.0), prior
    for _ in range(STEPS):
        predicted = expit(design @ parameters)
        gradient = design.T @ (outcomes - predicted) - precision @ (parameters - prior)
        curvature = (design * (predicted * (1 - predicted))[:, None]).T @ design + precision
        step = np.linalg.solve(curvature, gradient)
        parameters = parameters + step * min(1.0, 2.0 / float(np.abs(step).max() + 1e-300))
        if np.abs(step).max() < 1e-10:
            break
    return np.where(np.arange(len(prior)) == 1, np.maximum(parameters, 0.0), parameters)


def _fit(odds: Floats, outcomes: Floats) -> tuple[float, float]:
    """The shift and the slope of the log-odds; without outcomes 0 and 1."""
    design, deviations = np.column_stack([np.ones(len(odds)), odds]), np.array([SHIFT_DEVIATION, SLOPE_DEVIATION])
    shift, slope = logistic_weights(design, outcomes, np.array([0.0, 1.0]), deviations).tolist()
    return shift, slope


def _shifted(odds: Floats, verdicts: Verdicts, sure: NDArray[np.bool_]) -> Floats:
    """Log-odds (N,) shifted so that their sum over the random part is nearer to its verdicts."""
    from scipy.optimize import brentq

    drawn = verdicts.at_random & sure
    checks = int(drawn.sum())
    if not checks:
        return odds
    predicted = odds[verdicts.rows[drawn]]
    weight = checks / (checks + PRIOR_CHECKS)
    difference = float(verdicts.wrong[drawn].sum() - expit(predicted).sum())
    target = np.clip(float(expit(predicted).sum()) + weight * difference, 1e-3, checks - 1e-3)
    shift = brentq(lambda shift: float(expit(predicted + shift).sum() - target), -60, 60)
    return np.asarray(odds + shift)
