"""The mathematics of a second training pass: how far each label is trusted, what is trained on, how passes combine.

A label is trusted by the margin that the first run gives it. Wrong and right labels have margins of two groups, and the
weight of a label is the probability that it belongs to the lower group.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax

from errata.core.checks import Floats, Labels
from errata.core.rates import fit_two_groups

SHARPENING = 2.0
"""The power that predictions are raised to before they are trained on."""


def label_weights(margins: Floats) -> Floats:
    """The weight (N,) of each given label: the probability of the lower of two Gaussians fitted to margins (N,).

    Below the lower mean and above the upper mean, the weight is that at the mean. A wider Gaussian would otherwise
    claim the margins on the far side of the other one. If all margins are equal, all weights are 1.
    """
    if len(margins) < 2 or np.ptp(margins) == 0:
        return np.ones(len(margins))
    groups = fit_two_groups(margins)
    lower, upper = np.argsort(groups.means)
    between = np.clip(margins, groups.means[lower], groups.means[upper])
    log_densities = np.log(groups.weights) - np.log(groups.variances) / 2
    log_densities = log_densities - (between[:, None] - groups.means) ** 2 / (2 * groups.variances)
    return np.asarray(expit(log_densities[:, lower] - log_densities[:, upper]))


def soft_targets(labels: Labels, weights: Floats, probabilities: NDArray[Any]) -> Floats:
    """Targets (N, K): weight × given label + (1 - weight) × sharpened prediction.

    probabilities (N, K): those of the first run. Sharpened: raised to a power, and normalised.
    """
    with np.errstate(divide="ignore"):
        sharpened = softmax(SHARPENING * np.log(probabilities.astype(np.float64)), axis=1)
    targets = (1 - weights)[:, None] * sharpened
    targets[np.arange(len(labels)), labels] += weights
    return np.asarray(targets)


def combine_passes(first: NDArray[Any], second: NDArray[Any]) -> Floats:
    """Log-probabilities (N, K) of the geometric mean of two runs; rows need not be normalised, before or after."""
    return np.asarray((log_softmax(first, axis=1) + log_softmax(second, axis=1)) / 2)
