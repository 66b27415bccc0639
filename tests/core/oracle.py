"""Formulas, written again as plainly as they are printed: one sample, one class at a time, in float64."""

import math

import numpy as np

from errata.core.confident_learning import confident_joint


def softmax(z):
    top = max(z)
    e = [math.exp(v - top) for v in z]
    return [v / math.fsum(e) for v in e]


def ce(z, y):
    return -math.log(softmax(z)[y])


def js(z, y):
    p = softmax(z)
    q = [1.0 if k == y else 0.0 for k in range(len(p))]
    m = [(a + b) / 2 for a, b in zip(p, q, strict=True)]

    def divergence(a):
        return math.fsum(u * math.log(u / v) for u, v in zip(a, m, strict=True) if u > 0)

    return (divergence(p) + divergence(q)) / 2


def lm(z, y):
    return max(v for k, v in enumerate(z) if k != y) - z[y]


def cpd(z, y):
    return float(lm(z, y) > 0)


MEASURES = {"CE": ce, "JS": js, "LM": lm, "CPD": cpd}


def last(curve_logits, y, measure):
    return measure(curve_logits[-1], y)


def mean(curve_logits, y, measure):
    return math.fsum(measure(z, y) for z in curve_logits) / len(curve_logits)


def mean_prob(curve_logits, y, measure):
    probabilities = [softmax(z) for z in curve_logits]
    average = [math.fsum(p[k] for p in probabilities) / len(probabilities) for k in range(len(curve_logits[0]))]
    return measure([math.log(p) for p in average], y)


def ramp_prob(curve_logits, y, measure):
    repeated = [z for epoch, z in enumerate(curve_logits) for _ in range(epoch + 1)]
    return mean_prob(repeated, y, measure)


def ema(curve_logits, y, measure, decay=0.9):
    average = softmax(curve_logits[0])
    for z in curve_logits[1:]:
        average = [decay * a + (1 - decay) * p for a, p in zip(average, softmax(z), strict=True)]
    return measure([math.log(p) for p in average], y)


def late_stopping(curve_logits, y, measure, k=1, delta=0.0):
    values = [measure(z, y) for z in curve_logits]
    for t in range(k, len(values) + 1):
        if all(values[t - 1 - j] <= delta for j in range(k)):
            return t
    return len(values) + 1


def true_classes(p, T, rounds):
    classes = range(len(p))
    q = list(p)
    for _ in range(rounds):
        mixed = [math.fsum(q[j] * T[j][i] for j in classes) for i in classes]
        q = [q[j] * math.fsum(T[j][i] * p[i] / mixed[i] for i in classes) for j in classes]
    return q


def unmixed(p, labels, rounds=2):
    """Probabilities of true classes (N, K) from those of given labels, which sum to 1."""
    counts = confident_joint(p, labels).T + 1
    T = [[count / row.sum() for count in row] for row in counts]
    return np.array([true_classes(row, T, rounds) for row in p])


def over_samples(aggregate, logits, labels, *args, **parameters):
    """Apply a one-sample formula to logits (E, N, K)."""
    return np.array(
        [aggregate(logits[:, i].tolist(), int(labels[i]), *args, **parameters) for i in range(len(labels))], dtype=float
    )
