"""Noise that changes which samples there are: long-tailed class sizes, and samples of no class."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.core.checks import Labels, check_seed
from errata.core.noise.labels import NoisyLabels, check_some_labels, count_classes, members, transition
from errata.core.noise.matrices import check_model
from errata.errors import InputError


def long_tailed(labels: ArrayLike, ratio: float, num_classes: int | None = None, *, seed: int = 0) -> Labels:
    """Rows (M,) of a part of `labels` (N,) in which each class is smaller than the one before, in order.

    The class sizes of Cui et al. (2019), Class-Balanced Loss Based on Effective Number of Samples: of the n samples of
    class i, n·μ^i are kept, with μ such that of equal classes the first keeps `ratio` times as many as the last. A
    class that has samples keeps at least one.
    """
    classes = count_classes(labels, num_classes)
    if classes < 2:
        raise InputError(f"a long tail needs at least two classes, and there is {classes}")
    if not 1 <= ratio < np.inf:
        raise InputError(f"ratio of the largest to the smallest class is {ratio}; it must be a number from 1 on")
    by_class = members(check_some_labels(labels, classes), classes)
    # A stream of its own: noise drawn with the same seed must not depend on which samples were kept.
    (rng,) = np.random.default_rng(check_seed(seed)).spawn(1)
    shares = float(ratio) ** (-np.arange(classes) / (classes - 1))
    sizes = [max(1, round(len(rows) * share)) if len(rows) else 0 for rows, share in zip(by_class, shares, strict=True)]
    kept = [rng.choice(rows, size, replace=False) for rows, size in zip(by_class, sizes, strict=True)]
    return np.sort(np.concatenate(kept)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class OpenSetNoise(NoisyLabels):
    """Labels of samples some of which are of none of the classes."""

    rows: Labels
    """Which samples these are, (M,), in order; labels and truth are theirs. `realised` still has all K classes."""


def open_set(
    labels: ArrayLike, held_out: int, rate: float, num_classes: int | None = None, *, seed: int = 0
) -> OpenSetNoise:
    """Take the last `held_out` classes of `labels` (N,) away and give their samples labels of the others, at random.

    The share of these samples is `rate`, exactly but for rounding: of whichever there are too many, the samples of the
    classes kept or of those held out, some are left out. All other labels are right. Wang et al. (2018), Iterative
    Learning with Open-set Noisy Labels, from one dataset alone.
    """
    classes = count_classes(labels, num_classes)
    check_model(classes, rate)
    if not 1 <= held_out <= classes - 2:
        raise InputError(f"of {classes} classes hold out 1 to {classes - 2}, so that two are left, not {held_out}")
    if rate in (0, 1):
        raise InputError(f"the share of samples of no class must be inside 0..1, not {rate}")
    true = check_some_labels(labels, classes)
    rng = np.random.default_rng(check_seed(seed))
    first_held_out = classes - held_out
    rows = _rows_at_rate(true >= first_held_out, rate, rng)
    outside = true[rows] >= first_held_out
    given = true[rows]
    given[outside] = rng.integers(first_held_out, size=int(outside.sum()))
    return OpenSetNoise(given, outside, transition(true[rows], given, classes), int(seed), rows)


def _rows_at_rate(outside: NDArray[np.bool_], rate: float, rng: np.random.Generator) -> Labels:
    """As many rows as there can be when `rate` of them are `outside` (N,), in order."""
    parts = [np.flatnonzero(outside), np.flatnonzero(~outside)]
    shares = [rate, 1 - rate]
    total = min(len(part) / share for part, share in zip(parts, shares, strict=True))
    sizes = [round(total * share) for share in shares]
    if 0 in sizes:
        raise InputError(
            f"of {len(parts[1])} samples of the classes kept and {len(parts[0])} of those held out, "
            f"none can be taken at a rate of {rate:g}; there must be more of them"
        )
    chosen = [rng.choice(part, size, replace=False) for part, size in zip(parts, sizes, strict=True)]
    return np.sort(np.concatenate(chosen)).astype(np.int64)
