"""The default method, written again from the descriptions in errata.core alone, one sample and one step at a time."""

import math

import numpy as np
import pytest

import errata
from errata.dynamics.scoring import find_method

CLASSES, EPOCHS = 4, 16


def probabilities_of(logits):
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def cut_offs(epochs):
    shares = (1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1)
    return sorted({max(1, round(share * epochs)) for share in shares})


def reverses(before, late, labels):
    """Whether late epochs predict more than 10 % of the labels that the earlier ones confidently rejected."""
    rejected = [max(p) > 0.6 and p[y] < 0.2 for p, y in zip(before, labels, strict=True)]
    predicted = [np.argmax(p) == y for p, y in zip(late, labels, strict=True)]
    both = sum(a and b for a, b in zip(rejected, predicted, strict=True))
    return sum(rejected) >= 10 and both / sum(rejected) > 0.1


def predicted_by_class(p, labels):
    return np.array([sum(np.argmax(p[i]) == y == k for i, y in enumerate(labels)) for k in range(p.shape[1])])


def early_average(p, labels, h):
    ends = cut_offs(len(p))
    if h is not None:
        frequencies = np.bincount(labels) / len(labels)
        guessing = -sum(f * math.log(f) for f in frequencies if f)
        if -np.mean([math.log(h[i, y]) for i, y in enumerate(labels)]) <= 0.8 * guessing:
            agreement = [(h * np.log(np.maximum(p[:end].mean(axis=0), math.exp(-30)))).sum() for end in ends]
            return p[: ends[max(range(len(ends)), key=lambda place: (agreement[place], place))]].mean(axis=0)
    place = len(ends) - 1
    late = predicted_by_class(p[ends[-2] :].mean(axis=0), labels)
    while place > 0:
        before, part = p[: ends[place - 1]].mean(axis=0), p[ends[place - 1] : ends[place]].mean(axis=0)
        if not reverses(before, part, labels) or (predicted_by_class(before, labels) < late / 2).any():
            break
        place -= 1
    return p[: ends[place]].mean(axis=0)


def mean_of_neighbours(p, features, count):
    means = []
    for i, own in enumerate(features):
        distance = [1 - own @ other / np.linalg.norm(own) / np.linalg.norm(other) for other in features]
        nearest = sorted((d, j) for j, d in enumerate(distance) if j != i)[:count]
        means.append(np.mean([p[j] for _, j in nearest], axis=0))
    return np.array(means)


def typical_counts(labels, h):
    counts = np.zeros((CLASSES, CLASSES))
    for k in range(CLASSES):
        rows = [i for i in range(len(labels)) if np.argmax(h[i]) == k]
        typical = np.quantile([h[i, k] for i in rows], 0.9)
        for i in rows:
            counts[k, labels[i]] += h[i, k] >= typical
    return counts


def transitions_by_class(counts):
    """T, and whether it depends on the class: with marginal likelihoods as products of single draws."""

    def of_draws(numbers, priors):  # of a sequence of draws with these numbers of each kind: Polya's urn
        total, drawn = 0.0, 0
        for number, prior in zip(numbers, priors, strict=True):
            for n in range(int(number)):
                total += math.log((prior + n) / (sum(priors) + drawn))
                drawn += 1
        return total

    right = counts.diagonal()
    wrong = [np.delete(counts[k], k) for k in range(CLASSES)]
    rates = sum(of_draws([sum(wrong[k]), right[k]], [1, 1]) for k in range(CLASSES))
    rates -= of_draws([np.sum(wrong), sum(right)], [1, 1])
    prior = [1 / (CLASSES - 1)] * (CLASSES - 1)
    directions = sum(of_draws(row, prior) + sum(row) * math.log(CLASSES - 1) for row in wrong)
    T = np.empty((CLASSES, CLASSES))
    common = (np.sum(wrong) + 1) / (counts.sum() + 2)
    for k in range(CLASSES):
        e = (sum(wrong[k]) + 1) / (sum(counts[k]) + 2) if rates >= math.log(100) else common
        U = (wrong[k] + prior) / (sum(wrong[k]) + 1) if directions >= math.log(100) else prior
        by_counts = np.insert(e * np.array(U), k, 1 - e)
        T[k] = 0.8 * by_counts + 0.2 * np.insert(common * np.array(prior), k, 1 - common)
    return T, max(rates, directions) >= math.log(100)


def transitions(labels, n):
    counts = np.ones((CLASSES, CLASSES))
    least = [np.mean([n[i, k] for i, y in enumerate(labels) if y == k]) for k in range(CLASSES)]
    for i, y in enumerate(labels):
        reached = [k for k in range(CLASSES) if n[i, k] >= least[k]]
        if reached:
            counts[reached[0] if len(reached) == 1 else np.argmax(n[i]), y] += 1
    return counts / counts.sum(axis=1, keepdims=True)


def unmixed(p, T):
    q = p.copy()
    for _ in range(2):
        q = np.array([[q[i, j] * sum(T[j] * p[i] / (q[i] @ T)) for j in range(CLASSES)] for i in range(len(p))])
    return q


def with_label(q, T, labels):
    """q, times T of the given label relative to its mean over right or wrong labels."""
    right = np.eye(CLASSES, dtype=bool)
    factors = np.where(right, T * sum(T[right]) / sum(T[right] ** 2), T * sum(T[~right]) / sum(T[~right] ** 2))
    return np.array([row * factors[:, y] for row, y in zip(q, labels, strict=True)])


def margins(q, labels):
    return [math.log(max(np.delete(row, y))) - math.log(row[y]) for row, y in zip(q, labels, strict=True)]


def default_scores(logits, labels, features=None, h=None):
    p = probabilities_of(logits)
    quarter = round(0.75 * len(p))
    before, late, whole = p[:quarter].mean(axis=0), p[quarter:].mean(axis=0), p.mean(axis=0)
    n = None
    if h is not None:
        average = early_average(p, labels, h)
        blend = average**0.4 * h**0.6
    elif features is not None and not features_have_memorised(before, late, whole, labels):
        weights = np.arange(1, len(p) + 1) / np.arange(1, len(p) + 1).sum()
        average = np.tensordot(weights, p, axes=1)
        n = mean_of_neighbours(average, features, 50)
        blend = average**0.5 * n**0.5
    else:
        average = early_average(p, labels, None) if reverses(before, late, labels) else whole
        blend = average
    blend = blend / blend.sum(axis=1, keepdims=True)
    if h is None:
        return margins(unmixed(blend, transitions(labels, blend if n is None else n)), labels)
    T, _ = transitions_by_class(typical_counts(labels, h))
    return margins(with_label(unmixed(blend, T), T, labels), labels)


def features_have_memorised(before, late, whole, labels):
    fits = [(np.argmax(late[i]) == y, np.argmax(whole[i]) == y) for i, y in enumerate(labels)]
    gained = sum(a for a, _ in fits) - sum(b for _, b in fits)
    ruled_out = [i for i, y in enumerate(labels) if max(before[i]) > 8 * before[i, y]]
    back = sum(np.argmax(late[i]) == labels[i] for i in ruled_out)
    late_fit = gained / max(1, sum(not b for _, b in fits))
    return late_fit > 0.19 and len(ruled_out) >= 10 and back / len(ruled_out) > 0.03


def run_of(seed, memorises, samples=120):
    """Logits (E, N, K) of true classes, and at the end of given labels if the model memorises; 19 % are wrong."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, CLASSES, samples)
    labels = np.where(rng.random(samples) < 0.25, rng.integers(0, CLASSES, samples), true)
    sure = np.linspace(2, 6, EPOCHS)[:, None, None] * np.eye(CLASSES)[true]
    if memorises:
        sure[3 * EPOCHS // 4 :] = 8 * np.eye(CLASSES)[labels]
    features = 3 * np.eye(CLASSES)[true] + rng.normal(size=(samples, CLASSES))
    h = probabilities_of(1.5 * np.eye(CLASSES)[true] + rng.normal(size=(samples, CLASSES)))
    return sure + 0.7 * rng.normal(size=sure.shape), labels, features, h


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("known", "memorises", "name"),
    [
        ("held_out", False, "Unmixed-HeldOut-EarlyProb-LM"),
        ("held_out", True, "Unmixed-HeldOut-EarlyProb-LM"),
        ("features", False, "Unmixed-kNN-RampProb-LM"),
        ("features", True, "Unmixed-EarlyProb-LM"),
        ("nothing", True, "Unmixed-EarlyProb-LM"),
        ("nothing", False, "Unmixed-MeanProb-LM"),
    ],
)
def test_the_default_is_what_its_description_says(seed, known, memorises, name):
    logits, labels, features, h = run_of(seed, memorises)
    own = {"features": {"features": features}, "held_out": {"held_out": np.log(h)}, "nothing": {}}[known]
    dynamics = errata.Dynamics.from_arrays(logits, labels, gathering="in-sample", **own)
    assert find_method(dynamics, None).name == name
    by_hand = default_scores(
        logits, labels, features if known == "features" else None, h if known == "held_out" else None
    )
    np.testing.assert_allclose(errata.score(dynamics), by_hand, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("wrong_classes", [[0], list(range(CLASSES))], ids=["rates and directions", "directions"])
def test_the_default_is_what_its_description_says_of_noise_that_depends_on_the_class(seed, wrong_classes):
    logits, _, _, h = run_of(seed, False, samples=900)
    true = np.argmax(h, axis=1)
    rng = np.random.default_rng(seed)
    labels = np.where(np.isin(true, wrong_classes) & (rng.random(900) < 0.4), (true + 1) % CLASSES, true)
    assert transitions_by_class(typical_counts(labels, h))[1]
    dynamics = errata.Dynamics.from_arrays(logits, labels, gathering="in-sample", held_out=np.log(h))
    np.testing.assert_allclose(errata.score(dynamics), default_scores(logits, labels, h=h), rtol=1e-4, atol=1e-4)
