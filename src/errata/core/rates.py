"""The noise rate of a dataset without knowing a single truth: three estimates, each with what its interval covers.

No interval covers the bias of its own assumption, and the estimates can disagree by more than their widths: side by
side they say more than any one of them.
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from errata.core.checks import Floats, Labels, check_labels, check_logits, check_scores
from errata.errors import InputError

JOINT_REPLICATES = 2000
MIXTURE_REPLICATES = 200
MIXTURE_POINTS = 2000
# Shares of the samples that start out as the upper component: label noise is anything from rare to frequent.
MIXTURE_STARTS = (0.02, 0.05, 0.1, 0.2, 0.4)


@dataclass(frozen=True)
class NoiseRate:
    """An estimated fraction of wrong labels."""

    rate: float
    low: float
    high: float
    confidence: float
    how: str
    """What is estimated, and what the interval covers."""


def from_confident_joint(
    probabilities: ArrayLike, labels: ArrayLike, *, confidence: float = 0.95, seed: int = 0
) -> NoiseRate:
    """Mass off the diagonal of the calibrated confident joint of `probabilities` (N, K) and `labels` (N,)."""
    from errata.core.confident_learning import calibrate, confident_joint

    _check_confidence(confidence)
    rows = check_logits(probabilities, "probabilities")
    given = check_labels(labels, rows.shape[-1])
    counts = confident_joint(rows, given)
    class_counts = np.bincount(given, minlength=len(counts))
    rate = float(1 - np.trace(calibrate(counts, class_counts)))
    replicates = _joint_rates(counts, class_counts, np.random.default_rng(seed))
    low, high = _between(replicates, confidence)
    return NoiseRate(
        rate=rate,
        low=min(low, rate),
        high=max(high, rate, _nothing_seen(len(given), confidence)),
        confidence=confidence,
        how="The share of samples that confident learning counts in another class than their label; the interval is a "
        "multinomial bootstrap of those counts and covers the choice of samples, not errors of the model's "
        "probabilities or of the class thresholds.",
    )


def from_mixture(scores: ArrayLike, *, confidence: float = 0.95, seed: int = 0) -> NoiseRate:
    """Weight of the upper of two Gaussians fitted to `scores` (N,); scores that are all equal are refused."""
    _check_confidence(confidence)
    checked = check_scores(scores)
    if np.isinf(checked).any():
        raise InputError(f"score of sample {int(np.flatnonzero(np.isinf(checked))[0])} is infinite")
    if (checked == checked[0]).all():
        raise InputError(f"every score is {checked[0]}, so there are no two groups to tell apart")
    points = _even_points(checked)
    upper = _fit_mixture(points)
    rng = np.random.default_rng(seed)
    replicates = np.array(
        [_refit(rng.choice(points, len(points)), upper) for _ in range(MIXTURE_REPLICATES)],
    )
