"""Instance-dependent noise: the flip rate and the new label depend on the inputs of the sample."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.core.checks import Floats, Labels, as_numpy, check_seed
from errata.core.noise.labels import NoisyLabels, check_some_labels, count_classes, rows_by_class, transition
from errata.core.noise.matrices import check_model
from errata.errors import InputError

SPREAD = 0.1  # standard deviation of the flip rates, as published


def instance_dependent(
    labels: ArrayLike, inputs: ArrayLike, rate: float, num_classes: int | None = None, *, seed: int = 0
) -> NoisyLabels:
    """Noise on `labels` (N,) that depends on the inputs (N, ...), which should have mean 0 and standard deviation 1.

    The flip rate of each sample is drawn from a normal distribution around `rate`, truncated to 0..1; for a small
    `rate` the mean is therefore slightly higher. The new label depends on a random projection of the inputs, one per
    true class. Algorithm 2 of Xia et al. (2020), Part-dependent Label Noise: Towards Instance-dependent Label Noise.
    """
    classes = count_classes(labels, num_classes)
    check_model(classes, rate)
    if rate in (0, 1):
        raise InputError(f"the rate of instance-dependent noise must be between 0 and 1, both excluded, not {rate}")
    true = check_some_labels(labels, classes)
    table = _check_inputs(inputs, len(true))
    rng = np.random.default_rng(check_seed(seed))
    rates = flip_rates(rate, len(true), rng)
    projections = rng.standard_normal((classes, table.shape[1], classes))
    given = _draw(instance_transitions(true, table, rates, projections), rng)
    return NoisyLabels(given, given != true, transition(true, given, classes), int(seed))


def instance_transitions(labels: Labels, inputs: NDArray[Any], rates: Floats, projections: Floats) -> Floats:
    """The probability (N, K) of each given label.

    A sample keeps its label with probability 1 − rate (`rates`: (N,)). The rest is divided between the other classes by
    the softmax of its inputs (N, D) times the projection of its true class (`projections`: (K, D, K)).
    """
    from scipy.special import softmax

    classes = len(projections)
    transitions = np.empty((len(labels), classes))
    for true, rows in enumerate(rows_by_class(labels, classes)):
        scores = np.asarray(inputs[rows], dtype=np.float64) @ projections[true]
        scores[:, true] = -np.inf
        transitions[rows] = rates[rows, None] * softmax(scores, axis=1)
        transitions[rows, true] = 1 - rates[rows]
    return transitions


def flip_rates(rate: float, samples: int, rng: np.random.Generator) -> Floats:
    """Flip rates (N,) around `rate`, between 0 and 1."""
    from scipy.stats import truncnorm

    # From uniform numbers, because the sampler of scipy differs between versions.
    uniform = rng.random(samples)
    rates: Floats = truncnorm.ppf(uniform, -rate / SPREAD, (1 - rate) / SPREAD, loc=rate, scale=SPREAD)
    return rates


def _draw(transitions: Floats, rng: np.random.Generator) -> Labels:
    """A label (N,) from each row of `transitions` (N, K)."""
    cumulative = np.cumsum(transitions, axis=1)
    # Divided by the last value, because a row may sum to 1 - 1e-16.
    passed = cumulative / cumulative[:, -1:] <= rng.random((len(transitions), 1))
    given: Labels = passed.sum(axis=1, dtype=np.int64)
    return given


def _check_inputs(inputs: ArrayLike, samples: int) -> NDArray[Any]:
    """Finite inputs as a table (N, D)."""
    checked = as_numpy(inputs)
    if checked.ndim < 2 or checked.dtype.kind not in "biuf":
        raise InputError(f"inputs must be numbers of shape (N, ...), not {checked.dtype} {checked.shape}")
    if len(checked) != samples:
        raise InputError(f"there are {samples} labels but inputs of {len(checked)} samples")
    table = checked.reshape(samples, -1)
    finite = np.isfinite(table).all(axis=1)
    if not finite.all():
        raise InputError(f"inputs of sample {int(np.argmin(finite))} are not finite; fill in missing values first")
    return table
