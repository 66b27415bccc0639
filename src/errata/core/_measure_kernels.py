"""The reductions over classes that every measure stands on, compiled."""

import numpy as np
from numpy.typing import NDArray

from errata.core.jit import compiled

Array = NDArray[np.floating]

# A mean probability is kept as itself when it is at least TINY and as its logarithm (a negative number) below that,
# so that probabilities of any size add up without underflow and without a logarithm in the common case.
TINY = 1e-250


@compiled
def shift_rows(
    logits: Array, labels: NDArray[np.int64], shifted: NDArray[np.float64], margins: NDArray[np.float64]
) -> int:
    """Per row of logits (n, K): its distances to its largest (n, K), and the margin (n,) of the best other class.

    Returns the first row with a NaN or an infinity, or -1.
    """
    samples, classes = logits.shape
    broken = -1
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
        if poison != 0.0 and broken < 0:
            broken = i
    return broken


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
    return float(high + np.log1p(np.exp(low - high)))


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
    """Blended = keep * blended + weight * exponentials / totals, in the encoding of TINY; -inf means nothing yet.

    The first probabilities of a sample count `first` times: a moving average starts at them in full.
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
            linear = old if old >= 0.0 else np.exp(old)
            new = keep * linear + scale * exponentials[i, k]
            if new < TINY:
                log_old = old if old < 0.0 else np.log(old)
                new = log_add(np.log(keep) + log_old, np.log(scale) + shifted[i, k])
            blended[i, k] = new


@compiled
def window_ratios(
    segments: NDArray[np.float64], wanted: NDArray[np.int64], of_margin: bool, out: NDArray[np.float64]
) -> None:
    """Largest (or sum) of the other classes' probabilities over the label's own, summed over runs of segments.

    segments (S, K, n) hold the label's own class first; wanted (S, S) holds the row of `out` (W, n) that the run from
    segment a to segment b, both included, is written to, or -1. Samples are innermost, so that they go in parallel.
    """
    count, classes, samples = segments.shape
    running = np.empty((classes, samples))
    against = np.empty(samples)
    for a in range(count):
        furthest = -1
        for b in range(a, count):
            if wanted[a, b] >= 0:
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
            if wanted[a, b] >= 0:
                for i in range(samples):
                    out[wanted[a, b], i] = against[i] / running[0, i]
