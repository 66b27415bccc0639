"""Noise that depends on the inputs, long-tailed subsets, and samples that belong to none of the classes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from errata.core.checks import Floats, Labels, as_numpy, check_seed, rows_by_class
from errata.core.noise.transition_noise import (
    NoisyLabels,
    check_model,
    check_some_labels,
    count_classes,
    transition,
)
from errata.errors import InputError

SPREAD = 0.1  # standard deviation of the flip rates, as published


def instance_dependent(
    labels: ArrayLike, inputs: ArrayLike, rate: float, num_classes: int | None = None, *, seed: int = 0
) -> NoisyLabels:
    """Noise on `labels` (N,) that depends on the inputs (N, ...), which should have mean 0 and standard deviation 1.

    The flip rate of each sample is drawn from a normal distribution around `rate`, truncated to 0..1; for a small
    `rate` the mean is therefore slightly higher. The new label depends on a random projection of the inputs, one per
    true class. Algorithm 2 of Xia et al. (2020), Part-dependent Label Noise: Towards Instance-dependent Label Noise.

    >>> import errata, numpy as np
    >>> inputs = np.random.default_rng(0).normal(size=(300, 4))
    >>> noisy = errata.noise.instance_dependent([0, 1, 2] * 100, inputs, 0.2, seed=0)
    >>> 0.1 < noisy.rate < 0.3
    True
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

    >>> import errata, numpy as np
    >>> inputs, projections = np.array([[1.0]]), np.zeros((3, 1, 3))
    >>> errata.noise.instance_transitions(np.array([0]), inputs, np.array([0.5]), projections).tolist()
    [[0.5, 0.25, 0.25]]
    """
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


def long_tailed(labels: ArrayLike, ratio: float, num_classes: int | None = None, *, seed: int = 0) -> Labels:
    """Sorted rows (M,) of a subset of `labels` (N,) in which each class is smaller than the one before.

    The class sizes of Cui et al. (2019), Class-Balanced Loss Based on Effective Number of Samples: n·μ^i of the n
    samples of class i are kept. For classes of equal size, the first keeps `ratio` times as many as the last. Every
    class keeps at least one sample.

    >>> import errata
    >>> rows = errata.noise.long_tailed([0] * 50 + [1] * 50, ratio=10)
    >>> [int(count) for count in (sum(rows < 50), sum(rows >= 50))]  # samples that are kept, by class
    [50, 5]
    """
    classes = count_classes(labels, num_classes)
    if classes < 2:
        raise InputError(f"a long tail needs at least two classes, not {classes}")
    if not 1 <= ratio < np.inf:
        raise InputError(f"ratio of the largest to the smallest class is {ratio}; it must be 1 or more")
    by_class = rows_by_class(check_some_labels(labels, classes), classes)
    # A separate stream, so that this draw is independent of noise drawn with the same seed.
    (rng,) = np.random.default_rng(check_seed(seed)).spawn(1)
    # Powers of Python numbers: those of arrays differ in the last bit between versions of numpy.
    shares = [float(ratio) ** (-number / (classes - 1)) for number in range(classes)]
    sizes = [max(1, round(len(rows) * share)) if len(rows) else 0 for rows, share in zip(by_class, shares, strict=True)]
    chosen = [rng.choice(rows, size, replace=False) for rows, size in zip(by_class, sizes, strict=True)]
    return np.sort(np.concatenate(chosen)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class OpenSetNoise(NoisyLabels):
    """Labels of samples. Some of the samples belong to none of the classes.

    >>> import errata
    >>> noisy = errata.noise.open_set([0, 1, 2] * 100, held_out=1, rate=0.2)
    >>> len(noisy.rows) == len(noisy.labels) == len(noisy.truth)
    True
    """

    rows: Labels
    """The sorted rows (M,) of the samples that remain; labels and truth are (M,). `realised` has all K classes."""


def open_set(
    labels: ArrayLike, held_out: int, rate: float, num_classes: int | None = None, *, seed: int = 0
) -> OpenSetNoise:
    """Remove the last `held_out` classes of `labels` (N,), and give their samples random labels of the other classes.

    The share of these samples is `rate`, up to rounding; surplus samples of either group are dropped. All other labels
    are correct. Wang et al. (2018), Iterative Learning with Open-set Noisy Labels, with one dataset.

    >>> import errata
    >>> noisy = errata.noise.open_set([0, 1, 2] * 100, held_out=1, rate=0.2)
    >>> noisy.count, sorted(set(noisy.labels.tolist()))  # 50 samples of class 2 have another label now
    (50, [0, 1])
    """
    classes = count_classes(labels, num_classes)
    check_model(classes, rate)
    if not 1 <= held_out <= classes - 2:
        raise InputError(
            f"held_out is {held_out}, outside 1..{classes - 2}; at least two of the {classes} classes must remain"
        )
    if rate in (0, 1):
        raise InputError(f"the rate of open-set noise must be between 0 and 1, both excluded, not {rate}")
    true = check_some_labels(labels, classes)
    rng = np.random.default_rng(check_seed(seed))
    first_held_out = classes - held_out
    rows = _rows_at_rate(true >= first_held_out, rate, rng)
    outside = true[rows] >= first_held_out
    given = true[rows]
    given[outside] = rng.integers(first_held_out, size=int(outside.sum()))
    return OpenSetNoise(given, outside, transition(true[rows], given, classes), int(seed), rows)


def _rows_at_rate(outside: NDArray[np.bool_], rate: float, rng: np.random.Generator) -> Labels:
    """As many rows as possible, sorted, such that the share of rows that are `outside` (N,) is `rate`."""
    parts = [np.flatnonzero(outside), np.flatnonzero(~outside)]
    shares = [rate, 1 - rate]
    total = min(len(part) / share for part, share in zip(parts, shares, strict=True))
    sizes = [round(total * share) for share in shares]
    if 0 in sizes:
        raise InputError(
            f"{len(parts[1])} samples of the remaining classes and {len(parts[0])} of the removed ones "
            f"are too few for a rate of {rate:g}"
        )
    chosen = [rng.choice(part, size, replace=False) for part, size in zip(parts, sizes, strict=True)]
    return np.sort(np.concatenate(chosen)).astype(np.int64)
