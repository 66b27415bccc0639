"""Compiled loops over classes that the measures and the averages of probabilities use."""

import math

import numpy as np
from numpy.typing import NDArray

from errata.core.jit import compiled

Array = NDArray[np.floating]

# A sum of probabilities is stored as itself if it is at least TINY, and as its logarithm (a negative number) otherwise.
# So small probabilities add up without underflow, and the common case needs no logarithm.
TINY = 1e-250


@compiled
def shift_rows(
    logits: Array, labels: NDArray[np.int64], shifted: NDArray[np.float64], margins: NDArray[np.float64]
) -> int:
    """Write each row of logits (n, K) minus its maximum, and the margin (n,) of the best other class over the label.

    Returns the first row with a NaN or an infinity, or -1.
    """
    samples, classes = logits.shape
    invalid = -1
    for i in range(samples):
        label = labels[i]
        other = -np.inf
        for k in range(label):
            other = max(other, np.float64(logits[i, k]))
        for k in range(label + 1, classes):
            other = max(other, np.float64(logits[i, k]))
        own = np.float64(logits[i, label])
        margins[i] = other - own
        largest = max(other, own)
        poison = 0.0
        for k in range(classes):
            shifted[i, k] = np.float64(logits[i, k]) - largest
            poison += shifted[i, k] * 0.0
        if poison != 0.0 and invalid < 0:
            invalid = i
    return invalid


@compiled
def sum_others(
    exponentials: NDArray[np.float64], labels: NDArray[np.int64], others: NDArray[np.float64], own: NDArray[np.float64]
) -> None:
    """Split the exponentials (n, K) of each row into the label's own and the sum of the others, both (n,)."""
    samples, classes = exponentials.shape
    for i in range(samples):
        label = labels[i]
        total = 0.0
        for k in range(label):
            total += exponentials[i, k]
        for k in range(label + 1, classes):
            total += exponentials[i, k]
        others[i] = total
        own[i] = exponentials[i, label]


@compiled
def log_add(a: float, b: float) -> float:
    """log(exp(a) + exp(b)), also where one or both are -inf."""
    high, low = max(a, b), min(a, b)
    if low == -np.inf:
        return high
    return high + math.log1p(math.exp(low - high))


@compiled
def safe_log(value: float) -> float:
    """The logarithm, also of 0, which Python refuses."""
    return math.log(value) if value > 0.0 else -np.inf


@compiled
def blend_probabilities(
    shifted: NDArray[np.float64],
    exponentials: NDArray[np.float64],
    totals: NDArray[np.float64],
    keep: float,
    weight: float,
    first: float,
    blended: NDArray[np.float64],
) -> None:
    """Blended = keep * blended + weight * exponentials / totals, encoded as described at TINY; -inf: no epoch yet.

    The weight of the first epoch of a sample is `first`: a moving average starts with weight 1.
    """
    samples, classes = shifted.shape
    for i in range(samples):
        lowest, highest = blended[i, 0], blended[i, 0]
        for k in range(1, classes):
            lowest = min(lowest, blended[i, k])
            highest = max(highest, blended[i, k])
        scale = (weight if highest > -np.inf else first) / totals[i]
        if keep * lowest >= TINY:  # nothing tiny in this row: no branch inside
            for k in range(classes):
                blended[i, k] = keep * blended[i, k] + scale * exponentials[i, k]
            continue
        if highest == -np.inf:
            smallest = np.inf
            for k in range(classes):
                blended[i, k] = scale * exponentials[i, k]
                smallest = min(smallest, blended[i, k])
            if smallest >= TINY:
                continue
            blended[i] = -np.inf
        for k in range(classes):
            old = blended[i, k]
            linear = old if old >= 0.0 else math.exp(old)
            new = keep * linear + scale * exponentials[i, k]
            if new < TINY:
                log_old = old if old < 0.0 else safe_log(old)
                new = log_add(safe_log(keep) + log_old, safe_log(scale) + shifted[i, k])
            blended[i, k] = new


@compiled
def window_ratios(
    segments: NDArray[np.float64], window_at: NDArray[np.int64], of_margin: bool, out: NDArray[np.float64]
) -> None:
    """For every window, the largest (or the sum) of the other classes' probabilities divided by the label's.

    segments: sums of probabilities over segments of epochs (S, K, n), the label's class first. window_at[a, b]: the row
    of `out` (W, n) for the window from segment a to segment b, both included, or -1. The innermost loops run over
    samples, so that the compiler can vectorise them.
    """
    count, classes, samples = segments.shape
    running = np.empty((classes, samples))
    against = np.empty(samples)
    for a in range(count):
        furthest = -1
        for b in range(a, count):
            if window_at[a, b] >= 0:
                furthest = b
        running[:] = 0.0
        for b in range(a, furthest + 1):
            against[:] = 0.0
            for i in range(samples):
                running[0, i] += segments[b, 0, i]
            for k in range(1, classes):
                if of_margin:
                    for i in range(samples):
                        new = running[k, i] + segments[b, k, i]
                        running[k, i] = new
                        against[i] = max(against[i], new)
                else:
                    for i in range(samples):
                        new = running[k, i] + segments[b, k, i]
                        running[k, i] = new
                        against[i] += new
            if window_at[a, b] >= 0:
                for i in range(samples):
                    out[window_at[a, b], i] = against[i] / running[0, i]
