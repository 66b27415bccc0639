"""Estimates of the noise rate that need no true label, and their median.

Each interval covers the choice of samples, but not the bias of the estimate's assumption. The estimates can therefore
differ by more than the width of their intervals, and the median is more reliable than any single one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, NamedTuple

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
TYPICAL_SAMPLES = "typical samples"  # the kind of the estimate by `from_typical_samples`
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
    fit = _fit_mixtures((ordered - centre) / scale, np.ones((1, len(ordered))), _likeliest_mixture(points))
    upper = int(fit.means[0].argmax())
    rate = float(fit.weights[0, upper])
    resampled = np.random.default_rng(0).multinomial(
        len(points), np.full(len(points), 1 / len(points)), size=MIXTURE_REPLICATES
    )
    all_alike = fit.rows([0] * MIXTURE_REPLICATES)
    replicates = _fit_mixtures(points, resampled.astype(np.float64), all_alike).weights[:, upper]
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
    return from_positive(int((checked > 0).sum()), len(checked), confidence=confidence)


def from_positive(positive: int, samples: int, *, confidence: float = 0.95) -> NoiseRate:
    """The same from the number of positive margins, which those of parts of a run add up to."""
    low, high = _wilson(positive, samples, confidence)
    return _estimate(
        rate=positive / samples,
        low=low,
        high=high,
        samples=samples,
        confidence=confidence,
        how="The share of samples for which the model, averaged over the epochs, prefers another class to the label. "
        "The interval is Wilson's. It covers the choice of samples, not wrong labels that the model has memorised or "
        "correct ones that it has not learned.",
    )


def from_typical_samples(counts: Floats, *, confidence: float = 0.95) -> NoiseRate:
    """The share of wrong labels among typical samples, which hardly overlap with other classes.

    counts: (K, K), how often typical samples of predicted class j have label i, at [j, i] (errata.core.unmixing).
    """
    typical = int(counts.sum())
    if not typical:
        raise InputError("there are no typical samples")
    wrong = typical - int(np.trace(counts))
    low, high = _wilson(wrong, typical, confidence)
    return _estimate(
        rate=wrong / typical,
        low=low,
        high=high,
        samples=typical,
        confidence=confidence,
        how="The share of other labels among the samples of each class that held-out predictions are most confident "
        "about. It is the noise rate if typical samples are as often mislabelled as others. The interval is Wilson's. "
        "It covers the choice of samples, not that assumption.",
    )


def combine(estimates: Mapping[str, NoiseRate], names: Sequence[str] = ()) -> NoiseRate:
    """The `median_estimate` of estimates by kind.

    The upper end of the interval of typical samples is not used. There are few of them, so it is high even if all of
    their labels are correct, and overlap only makes it higher.
    """
    shortened = [
        replace(estimate, high=estimate.rate) if kind == TYPICAL_SAMPLES else estimate
        for kind, estimate in estimates.items()
    ]
    return median_estimate(shortened, names)


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


class TwoGroups(NamedTuple):
    """Two Gaussians: weights, means and variances, each (2,)."""

    weights: Floats
    means: Floats
    variances: Floats


def fit_two_groups(scores: Floats) -> TwoGroups:
    """The two Gaussians that fit finite scores (N,) best; the scores must not all be equal. Large runs are thinned."""
    points = _even_points(np.sort(scores))
    centre, scale = points.mean(), points.std() or 1.0
    fit = _likeliest_mixture((points - centre) / scale)
    return TwoGroups(fit.weights[0], fit.means[0] * scale + centre, fit.variances[0] * scale**2)


def _likeliest_mixture(points: Floats) -> "_Mixtures":
    """The mixture with the highest likelihood of those fitted from all starts to standardised, sorted points (P,)."""
    starts = _fit_mixtures(points, np.ones((len(MIXTURE_STARTS), len(points))), _splits(points))
    return starts.rows([int(np.argmax(starts.likelihoods))])


def _even_points(ordered: Floats) -> Floats:
    """At most MIXTURE_POINTS of the sorted scores, at equal steps: nearly the same distribution, faster to fit."""
    size = min(len(ordered), MIXTURE_POINTS)
    return ordered[((np.arange(size) + 0.5) * len(ordered) / size).astype(np.int64)]


class _Mixtures(NamedTuple):
    """R mixtures of two Gaussians: weights, means and variances (R, 2), and mean log-likelihoods of the points (R,)."""

    weights: Floats
    means: Floats
    variances: Floats
    likelihoods: Floats

    def rows(self, rows: Sequence[int]) -> "_Mixtures":
        """Some of the mixtures."""
        return _Mixtures(*(values[rows] for values in self))


def _splits(points: Floats) -> _Mixtures:
    """For each of the MIXTURE_STARTS, the moments of this upper share of sorted points and of the rest."""
    moments = []
    for share in MIXTURE_STARTS:
        cut = min(max(round(len(points) * (1 - share)), 1), len(points) - 1)
        moments.append(
            [(len(half) / len(points), half.mean(), half.var() + 1e-3) for half in (points[:cut], points[cut:])]
        )
    weights, means, variances = np.moveaxis(np.array(moments), 2, 0)
    return _Mixtures(weights, means, variances, np.full(len(moments), -np.inf))


def _fit_mixtures(points: Floats, counts: Floats, start: _Mixtures) -> _Mixtures:
    """Mixtures fitted to points (P,) with counts (R, P) by expectation-maximisation, as in scikit-learn.

    All are fitted at once. If there are no two groups, a fit may not converge; the interval is then wide.
    """
    weights, means, variances = start.weights.copy(), start.means.copy(), start.variances.copy()
    totals, likelihoods = counts.sum(axis=1), np.full(len(counts), -np.inf)
    left = np.arange(len(counts))  # mixtures that have not converged
    for _ in range(MIXTURE_ITERATIONS):
        first, second = (
            np.log(weights[left, k, None])
            - (
                np.log(2 * np.pi * variances[left, k, None])
                + (points - means[left, k, None]) ** 2 / variances[left, k, None]
            )
            / 2
            for k in (0, 1)
        )
        smaller = np.exp(-np.abs(second - first))  # the smaller density, relative to the larger one
        density = np.maximum(first, second) + np.log1p(smaller)  # np.logaddexp takes several times as long
        likelihood = (counts[left] * density).sum(axis=1) / totals[left]
        shares = counts[left] * np.where(second > first, 1, smaller) / (1 + smaller)
        for k, share in enumerate((counts[left] - shares, shares)):
            mass = share.sum(axis=1) + 10 * np.finfo(np.float64).eps
            weights[left, k] = mass / totals[left]
            means[left, k] = share @ points / mass
            variances[left, k] = (share * (points - means[left, k, None]) ** 2).sum(axis=1) / mass + 1e-6
        weights[left] /= weights[left].sum(axis=1, keepdims=True)
        converged = np.abs(likelihood - likelihoods[left]) < MIXTURE_TOLERANCE
        likelihoods[left] = likelihood
        left = left[~converged]
        if not len(left):
            break
    return _Mixtures(weights, means, variances, likelihoods)


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
