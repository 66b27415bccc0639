"""The reductions over classes that every measure stands on, compiled."""

import numpy as np
from numpy.typing import NDArray

from errata.core.jit import compiled

Array = NDArray[np.floating]

# A mean probability is kept as itself when it is at least TINY and as its logarithm (a negative number) below that,
# so that probabilities of any size add up without underflow and without a logarithm in the common case.
TINY = 1e-250


@compiled
def log_odds_against(logits: Array, labels: NDArray[np.int64], out: NDArray[np.float64]) -> None:
    """out[i] = log sum_{k != y} exp(z_k) - z_y for logits (n, K), labels (n,)."""
    samples, classes = logits.shape
    for i in range(samples):
        label = labels[i]
        largest = -np.inf
        for k in range(classes):
            if k != label and logits[i, k] > largest:
                largest = np.float64(logits[i, k])
        total = 0.0
        for k in range(classes):
            if k != label:
                total += np.exp(np.float64(logits[i, k]) - largest)
        out[i] = (largest - np.float64(logits[i, label])) + np.log(total)


@compiled
def margin(logits: Array, labels: NDArray[np.int64], out: NDArray[np.float64]) -> None:
    """out[i] = max_{k != y} z_k - z_y for logits (n, K), labels (n,)."""
    samples, classes = logits.shape
    for i in range(samples):
        label = labels[i]
        largest = -np.inf
        for k in range(classes):
            if k != label and logits[i, k] > largest:
                largest = np.float64(logits[i, k])
        out[i] = largest - np.float64(logits[i, label])


@compiled
def finite_rows(logits: Array, out: NDArray[np.bool_]) -> int:
    """Mark the rows of logits (n, K) without NaN or infinity; returns how many are broken."""
    samples, classes = logits.shape
    broken = 0
    for i in range(samples):
        poison = np.float64(0.0)
        for k in range(classes):
            poison += np.float64(logits[i, k]) * 0.0
        out[i] = poison == 0.0
        if not out[i]:
            broken += 1
    return broken


@compiled
def log_add(a: float, b: float) -> float:
    """log(exp(a) + exp(b)), also where one or both are -inf."""
    high, low = max(a, b), min(a, b)
    if low == -np.inf:
        return high
    return high + np.log1p(np.exp(low - high))


@compiled
def blend_probabilities(logits: Array, keep: float, weight: float, blended: NDArray[np.float64]) -> None:
    """blended[i] = keep * blended[i] + weight * softmax(logits[i]), in the encoding of TINY; -inf means nothing yet.

    The first probabilities of a sample count in full: a sum starts at them, a moving average too.
    """
    samples, classes = logits.shape
    exponentials = np.empty(classes)
    for i in range(samples):
        largest = np.float64(logits[i, 0])
        for k in range(1, classes):
            largest = max(largest, np.float64(logits[i, k]))
        total = 0.0
        for k in range(classes):
            exponentials[k] = np.exp(np.float64(logits[i, k]) - largest)
            total += exponentials[k]
        first = True
        for k in range(classes):
            first = first and blended[i, k] == -np.inf
        share = 1.0 if first else weight
        for k in range(classes):
            old = blended[i, k]
            linear = old if old >= 0.0 else np.exp(old)
            new = keep * linear + share * (exponentials[k] / total)
            if new < TINY:
                log_old = old if old < 0.0 else np.log(old)
                log_new = np.float64(logits[i, k]) - largest - np.log(total)
                new = log_add(np.log(keep) + log_old, np.log(share) + log_new)
            blended[i, k] = new


@compiled
def window_statistics(
    segments: NDArray[np.float64],
    labels: NDArray[np.int64],
    wanted: NDArray[np.int64],
    of_margin: bool,
    out: NDArray[np.float64],
) -> None:
    """Margin or log odds of the probabilities summed over runs of segments.

    segments (S, n, K) are sums of probabilities in the encoding of TINY; wanted (S, S) holds the row of `out` (W, n)
    that the run from segment a to segment b (both included) is written to, or -1.
    """
    count, samples, classes = segments.shape
    running = np.empty((samples, classes))
    for a in range(count):
        furthest = -1
        for b in range(a, count):
            if wanted[a, b] >= 0:
                furthest = b
        if furthest < 0:
            continue
        running[:] = -np.inf
        for b in range(a, furthest + 1):
            window = wanted[a, b]
            for i in range(samples):
                label = labels[i]
                largest = -np.inf
                others = 0.0
                for k in range(classes):
                    old, extra = running[i, k], segments[b, i, k]
                    if old >= 0.0 and extra >= 0.0:
                        new = old + extra
                    elif old < 0.0 and extra < 0.0:
                        new = log_add(old, extra)
                        if new > np.log(TINY):
                            new = np.exp(new)
                    else:
                        new = max(old, 0.0) + max(extra, 0.0)
                    running[i, k] = new
                    if k != label:
                        largest = max(largest, new)
                        others += max(new, 0.0)
                if window < 0:
                    continue
                own = running[i, label]
                log_own = own if own < 0.0 else np.log(own)
                if of_margin or largest < 0.0:
                    against = largest if largest < 0.0 else np.log(largest)
                    if not of_margin:
                        total = 0.0
                        for k in range(classes):
                            if k != label:
                                total += np.exp(running[i, k] - largest)
                        against += np.log(total)
                else:
                    against = np.log(others)
                out[window, i] = against - log_own
