"""Subsets with long-tailed class sizes, and open-set noise: samples that belong to none of the classes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.core.checks import Labels, check_seed
from errata.core.noise.labels import NoisyLabels, check_some_labels, count_classes, rows_by_class, transition
from errata.core.noise.matrices import check_model
from errata.errors import InputError


def long_tailed(labels: ArrayLike, ratio: float, num_classes: int | None = None, *, seed: int = 0) -> Labels:
    """Sorted rows (M,) of a subset of `labels` (N,) in which each class is smaller than the one before.

    The class sizes of Cui et al. (2019), Class-Balanced Loss Based on Effective Number of Samples: n·μ^i of the n
    samples of class i are kept. For classes of equal size, the first keeps `ratio` times as many as the last. Every
    class keeps at least one sample.
    """
    classes = count_classes(labels, num_classes)
    if classes < 2:
        raise InputError(f"a long tail needs at least two classes, not {classes}")
    if not 1 <= ratio < np.inf:
        raise InputError(f"ratio of the largest to the smallest class is {ratio}; it must be 1 or more")
    by_class = rows_by_class(check_some_labels(labels, classes), classes)
    # A separate stream, so that this draw is independent of noise drawn with the same seed.
    (rng,) = np.random.default_rng(check_seed(seed)).spawn(1)
    shares = float(ratio) ** (-np.arange(classes) / (classes - 1))
    sizes = [max(1, round(len(rows) * share)) if len(rows) else 0 for rows, share in zip(by_class, shares, strict=True)]
    chosen = [rng.choice(rows, size, replace=False) for rows, size in zip(by_class, sizes, strict=True)]
    return np.sort(np.concatenate(chosen)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class OpenSetNoise(NoisyLabels):
    """Labels of samples, some of which belong to none of the classes."""

    rows: Labels
    """The sorted rows (M,) of the samples that remain; labels and truth are (M,). `realised` has all K classes."""


def open_set(
    labels: ArrayLike, held_out: int, rate: float, num_classes: int | None = None, *, seed: int = 0
) -> OpenSetNoise:
    """Remove the last `held_out` classes of `labels` (N,), and give their samples random labels of the other classes.

    The share of these samples is `rate`, up to rounding; surplus samples of either group are dropped. All other labels
    are correct. Wang et al. (2018), Iterative Learning with Open-set Noisy Labels, with one dataset.
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
    """The most rows of which a share of `rate` is `outside` (N,), sorted."""
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
