"""Three estimates of the noise rate that need no true label, and their median.

Each interval covers the choice of samples, but not the bias of the estimate's assumption. The estimates can therefore
differ by more than the width of their intervals, and the median is more reliable than any single one.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.core.checks import Floats, Labels, check_labels, check_scores
from errata.core.confident_learning import calibrate, confident_joint
from errata.errors import InputError

JOINT_REPLICATES = 1000
MIXTURE_REPLICATES = 100
MIXTURE_POINTS = 2000
MIXTURE_STARTS = (0.02, 0.05, 0.1, 0.2, 0.4)  # initial weights of the upper component
MIXTURE_TOLERANCE = 1e-7  # at scikit-learn's 1e-3 the fit stops near its start, and all refits agree with it
MIXTURE_ITERATIONS = 2000
CAP_ABOVE_OTHERS = 0.1  # capping the interval here never excluded the true rate in 127 cells of the benchmark


@dataclass(frozen=True)
class NoiseRate:
    """An estimated fraction of wrong labels."""

    rate: float
    low: float
    high: float
    confidence: float | None
    """None if the interval is not a confidence interval."""
    how: str
    """What is estimated, and what the interval covers."""


def from_confident_joint(probabilities: NDArray[Any], labels: ArrayLike, *, confidence: float = 0.95) -> NoiseRate:
    """The off-diagonal mass of the calibrated confident joint of probabilities (N, K) and labels (N,)."""
    counts = confident_joint(probabilities, labels)
    class_counts = np.bincount(check_labels(labels, len(counts)), minlength=len(counts))
    replicates = _joint_replicates(counts, class_counts, np.random.default_rng(0))
    low, high = np.quantile(replicates, [(1 - confidence) / 2, (1 + confidence) / 2])
    return _estimate(
        rate=1 - np.trace(calibrate(counts, class_counts)),
        low=low,
        high=high,
        samples=int(class_counts.sum()),
        confidence=confidence,
        how="The share of samples that confident learning assigns to another class than their label. The interval is a "
        "multinomial bootstrap of its counts. It covers the choice of samples, not errors of the model's "
        "probabilities, which make this estimate too low on real noise.",
    )


def from_mixture(scores: ArrayLike, *, confidence: float = 0.95) -> NoiseRate:
    """The weight of the upper of two Gaussians fitted to scores (N,), which must not all be equal."""
    checked = check_scores(scores)
    if np.isinf(checked).any():
        raise InputError(f"score of sample {int(np.flatnonzero(np.isinf(checked))[0])} is infinite")
    ordered = np.sort(checked)
    points = _even_points(ordered)
    if points[0] == points[-1]:
        raise InputError(f"(nearly) every sample has the score {points[0]}, so there are no two groups of scores")
    centre, scale = points.mean(), points.std()
    points = (points - centre) / scale
    starts = [_fit_mixture(points, *_split(points, share)) for share in MIXTURE_STARTS]
    likeliest = max(starts, key=lambda mixture: mixture.lower_bound_)
    fit = _fit_mixture((ordered - centre) / scale, likeliest.weights_, likeliest.means_, likeliest.precisions_)
    rate = _upper_weight(fit)
    resampled = np.random.default_rng(0).multinomial(
        len(points), np.full(len(points), 1 / len(points)), size=MIXTURE_REPLICATES
    )
    replicates = _refits(fit, points, resampled.astype(np.float64))
    # A resample has fewer points than there are samples; its deviation is scaled accordingly.
    spread = _log_odds(replicates).std(ddof=1) * np.sqrt(len(points) / len(checked))
    low, high = 1 / (1 + np.exp(spread * _normal_quantile(confidence) * np.array([1, -1]) - _log_odds(rate)))
    return _estimate(
        rate=rate,
        low=low,
        high=high,
        samples=len(checked),
        confidence=confidence,
        how="The weight of the upper of two Gaussians fitted to the scores. It is the noise rate if wrong labels and "
        "correct labels each have normally distributed scores. The interval, normal on the log-odds, is from "
        f"{MIXTURE_REPLICATES} refits to resamples of {len(points)} scores, scaled to {len(checked)} samples. It "
        "covers the choice of samples, not that assumption.",
    )


def from_sign(margins: ArrayLike, *, confidence: float = 0.95) -> NoiseRate:
    """The share of positive margins (N,): log-probability of the most likely other class minus that of the label."""
    checked = check_scores(margins)
    positive = int((checked > 0).sum())
    low, high = _wilson(positive, len(checked), confidence)
    return _estimate(
        rate=positive / len(checked),
        low=low,
        high=high,
        samples=len(checked),
        confidence=confidence,
        how="The share of samples for which the model, averaged over the epochs, prefers another class to the label. "
        "The interval is Wilson's. It covers the choice of samples, not wrong labels that the model has memorised or "
        "correct ones that it has not learned.",
    )


def median_estimate(estimates: Sequence[NoiseRate], names: Sequence[str] = ()) -> NoiseRate:
    """The median of several estimates, with an interval from the lowest to the highest end of theirs.

    With three or more, the highest end is capped: at CAP_ABOVE_OTHERS above the second highest, or at twice the second
    highest if that is more. A single high end is mostly a mixture that has split the correct labels in two.
    names: the estimates in a sentence.
    """
    if len({estimate.confidence for estimate in estimates}) != 1:
        raise InputError("the median needs one or more estimates, all of the same confidence")
    *others, (high, highest) = sorted((estimate.high, number) for number, estimate in enumerate(estimates))
    which, capped = f" ({', '.join(names)})" if names else "", ""
    if len(others) > 1 and high > (cap := max(others[-1][0] + CAP_ABOVE_OTHERS, 2 * others[-1][0])):
        name = f"the highest, {names[highest]}," if names else "the highest"
        capped = f" ({name} ends at {high:.0%} and is capped at {cap:.0%}, as the others are far lower)"
        high = cap
    return NoiseRate(
        rate=float(np.median([estimate.rate for estimate in estimates])),
        low=min(estimate.low for estimate in estimates),
        high=high,
        confidence=None,
        how=f"The median of {len(estimates)} estimates with different assumptions{which}. The interval is from the "
        f"lowest to the highest end of theirs{capped}. It covers their disagreement, not an error that they share.",
    )


def _estimate(*, rate: float, low: float, high: float, samples: int, confidence: float, how: str) -> NoiseRate:
    """Extend the interval so that it contains the rate, and is not empty if all samples agree."""
    none_found = _wilson(0, samples, confidence)[1]
    return NoiseRate(
        rate=float(rate),
        low=float(max(0.0, min(low, rate, 1 - none_found))),
        high=float(min(1.0, max(high, rate, none_found))),
        confidence=confidence,
        how=how,
    )


def _joint_replicates(counts: Labels, class_counts: Labels, rng: np.random.Generator) -> Floats:
    """Rates (JOINT_REPLICATES,) of confident joints of resampled datasets."""
    agree = np.diag(counts)
    differ = counts.sum(axis=1) - agree
    not_counted = class_counts - agree - differ
    # The trace of a calibrated joint depends only on these three counts per class, not on all K² cells.
    cells = np.concatenate([agree, differ, not_counted])
    resampled = rng.multinomial(cells.sum(), cells / cells.sum(), size=JOINT_REPLICATES)
    agree, differ, not_counted = np.split(resampled, 3, axis=1)
    confident = agree + differ
    wrong = (confident + not_counted) * differ / np.maximum(confident, 1)
    return np.asarray(wrong.sum(axis=1) / cells.sum())


def _even_points(ordered: Floats) -> Floats:
    """At most MIXTURE_POINTS of the sorted scores, at equal steps: nearly the same distribution, faster to fit."""
    size = min(len(ordered), MIXTURE_POINTS)
    return ordered[((np.arange(size) + 0.5) * len(ordered) / size).astype(np.int64)]


def _split(points: Floats, share: float) -> tuple[Floats, Floats, Floats]:
    """Weights (2,), means (2, 1) and precisions (2, 1) of the upper `share` of sorted points and of the rest."""
    cut = min(max(round(len(points) * (1 - share)), 1), len(points) - 1)
    halves = points[:cut], points[cut:]
    weights = np.array([len(half) for half in halves]) / len(points)
    means = np.array([[half.mean()] for half in halves])
    precisions = np.array([[1 / (half.var() + 1e-3)] for half in halves])
    return weights, means, precisions


def _fit_mixture(points: Floats, weights: Floats, means: Floats, precisions: Floats) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    mixture = GaussianMixture(
        n_components=2,
        covariance_type="diag",
        tol=MIXTURE_TOLERANCE,
        max_iter=MIXTURE_ITERATIONS,
        weights_init=weights,
        means_init=means,
        precisions_init=precisions,
    )
    with warnings.catch_warnings():
        # If there are no two groups, the fit may not converge; the interval is then wide.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return mixture.fit(points[:, None])


def _refits(fit: Any, points: Floats, counts: Floats) -> Floats:
    """Upper weights (R,) of refits to points (P,) with counts (R, P), all started from one fit.

    The same expectation-maximisation as in scikit-learn, which takes no weights, for all refits at once.
    """
    order = np.argsort(fit.means_[:, 0])
    weights, means, variances = (
        np.tile(values[order], (len(counts), 1)) for values in (fit.weights_, fit.means_[:, 0], fit.covariances_[:, 0])
    )
    totals, bounds = counts.sum(axis=1), np.full(len(counts), -np.inf)
    left = np.arange(len(counts))  # refits that have not converged
    for _ in range(MIXTURE_ITERATIONS):
        lower, upper = (
            np.log(weights[left, k, None])
            - (
                np.log(2 * np.pi * variances[left, k, None])
                + (points - means[left, k, None]) ** 2 / variances[left, k, None]
            )
            / 2
            for k in (0, 1)
        )
        density = np.logaddexp(lower, upper)
        bound = (counts[left] * density).sum(axis=1) / totals[left]
        shares = counts[left] * np.exp(upper - density)
        for k, share in enumerate((counts[left] - shares, shares)):
            mass = share.sum(axis=1) + 10 * np.finfo(np.float64).eps
            weights[left, k] = mass / totals[left]
            means[left, k] = share @ points / mass
            variances[left, k] = (share * (points - means[left, k, None]) ** 2).sum(axis=1) / mass + 1e-6
        converged = np.abs(bound - bounds[left]) < MIXTURE_TOLERANCE
        bounds[left] = bound
        left = left[~converged]
        if not len(left):
            break
    return np.asarray(weights[:, 1] / weights.sum(axis=1))


def _upper_weight(mixture: Any) -> float:
    return float(mixture.weights_[np.argmax(mixture.means_[:, 0])])


def _wilson(successes: int, trials: int, confidence: float) -> tuple[float, float]:
    """Wilson's score interval of a proportion."""
    z = _normal_quantile(confidence)
    share = successes / trials
    centre = share + z**2 / (2 * trials)
    half = z * np.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2))
    scale = 1 + z**2 / trials
    return float((centre - half) / scale), float((centre + half) / scale)


def _normal_quantile(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _log_odds(share: Any) -> Any:
    clipped = np.clip(share, 1e-12, 1 - 1e-12)
    return np.log(clipped / (1 - clipped))
