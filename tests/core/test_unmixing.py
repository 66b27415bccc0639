"""Unmixing against loops over classes, properties of expectation maximisation, and label noise that was learned."""

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from errata.core.measures import LM
from errata.core.method_parts import ProbabilityVectors
from errata.core.methods import parse
from errata.core.metrics import fnr
from errata.core.noise import asymmetric, asymmetric_matrix, symmetric
from errata.core.replay import Epochs, replay
from errata.core.sample_context import SampleContext
from errata.core.smoothing import KNN
from errata.core.unmixing import (
    Unmix,
    count_typical,
    label_evidence,
    transition_of_joint,
    transition_of_typical,
    true_classes,
)
from errata.errors import InputError

seeds = st.integers(0, 1000)


def a_mixture(seed, samples=20, classes=4):
    """Probabilities of true classes q, how often each gets each label, T, and the probabilities of labels, q T."""
    rng = np.random.default_rng(seed)
    T = 0.7 * np.eye(classes) + 0.3 * rng.dirichlet(np.ones(classes), classes)
    q = rng.dirichlet(np.ones(classes), samples)
    return q, T, q @ T


@given(seed=seeds, rounds=st.integers(1, 5))
def test_a_round_is_the_formula(seed, rounds):
    _, T, p = a_mixture(seed)
    found = np.exp(true_classes(np.log(p), T, rounds))
    np.testing.assert_allclose(found, [oracle.true_classes(row, T, rounds) for row in p], rtol=1e-10)
    np.testing.assert_allclose(found.sum(axis=1), 1)


@given(seed=seeds)
def test_every_round_increases_the_likelihood_of_the_labels(seed):
    _, T, p = a_mixture(seed)
    likelihoods = [(p * np.log(np.exp(true_classes(np.log(p), T, rounds)) @ T)).sum() for rounds in range(1, 12)]
    assert (np.diff(likelihoods) >= -1e-12).all()


@settings(max_examples=10)  # each example takes 20,000 steps
@given(seed=seeds)
def test_it_converges_to_the_distribution_of_true_classes(seed):
    q, T, p = a_mixture(seed)
    np.testing.assert_allclose(np.exp(true_classes(np.log(p), T, 20_000)), q, atol=0.02)


def test_without_noise_nothing_changes():
    p = np.random.default_rng(0).dirichlet(np.ones(3), 10)
    np.testing.assert_allclose(true_classes(np.log(p), np.eye(3), 3), np.log(p))


def test_small_probabilities_do_not_underflow():
    logs = log_softmax(np.array([[0.0, -2000.0, -3000.0]]), axis=1)
    unmixed = true_classes(logs, np.full((3, 3), 1 / 3), 2)
    assert np.isfinite(unmixed).all()
    assert unmixed[0, 1] > unmixed[0, 2]


def test_transitions_are_counted_for_confident_samples():
    """One in four of class 0 is labelled 1, all of class 1 are; the model is confident of all samples but one."""
    true = np.array([0, 0, 0, 0, 1, 1, 1, 1, 0])
    given_labels = np.array([0, 0, 0, 1, 1, 1, 1, 1, 0])
    p = np.where(true[:, None] == np.arange(2), 0.9, 0.1)
    p[8] = 0.5
    np.testing.assert_allclose(transition_of_joint(p, given_labels), [[4 / 6, 2 / 6], [1 / 6, 5 / 6]])


def test_labels_are_counted_for_the_surest_tenth_of_each_predicted_class():
    """Class 0 is predicted for 20 samples, of which the surest two have labels 0 and 1; class 2 for none."""
    sure, labels = np.linspace(0.9, 0.6, 20), np.array([0, 1, *[2] * 18])
    p = np.stack([sure, 1 - sure, 0 * sure], axis=1)
    p, labels = np.concatenate([p, [[0.1, 0.9, 0], [0.2, 0.8, 0]]]), np.append(labels, [1, 0])
    with np.errstate(divide="ignore"):
        counts = count_typical(np.log(p), labels)
    np.testing.assert_array_equal(counts, [[1, 1, 0], [0, 1, 0], [0, 0, 0]])


def test_samples_that_are_as_sure_as_the_least_sure_typical_one_count_too():
    held_out = np.log(np.full((10, 2), [0.8, 0.2]))
    np.testing.assert_array_equal(count_typical(held_out, np.repeat([0, 1], 5)), [[5, 5], [0, 0]])


def drawn_counts(rng, T, samples):
    """Labels of samples of each class, counted."""
    return np.array([rng.multinomial(samples, row) for row in T]).astype(float)


@given(seed=seeds, classes=st.integers(2, 12), rate=st.floats(0, 0.5))
def test_noise_that_is_the_same_in_all_classes_has_one_rate_and_no_direction(seed, classes, rate):
    """The probability of a decisive Bayes factor by chance is at most 2 / 100, so one draw in 50 may have one."""
    rng = np.random.default_rng(seed)
    T = (1 - rate) * np.eye(classes) + rate * (1 - np.eye(classes)) / (classes - 1)
    mistaken = []
    for _ in range(50):
        counts = drawn_counts(rng, T, 50)
        found = transition_of_typical(counts)
        mistaken.append(depends_on_the_class(found))
        if not mistaken[-1]:
            assert found[0, 1] * (classes - 1) == pytest.approx(
                (counts.sum() - counts.trace() + 1) / (counts.sum() + 2)
            )
            np.testing.assert_allclose(label_evidence(found), 0, atol=1e-12)
    assert np.mean(mistaken) < 0.2


def depends_on_the_class(T):
    return np.ptp(T.diagonal()) > 1e-12 or np.ptp(T[~np.eye(len(T), dtype=bool)]) > 1e-12


def partly_the_same(T):
    """Four fifths of T, and a fifth of the noise with the mean rate of T that is the same in all classes."""
    classes, rate = len(T), 1 - T.diagonal().mean()
    return 0.8 * T + 0.2 * ((1 - rate) * np.eye(classes) + rate * (1 - np.eye(classes)) / (classes - 1))


@given(seed=seeds, classes=st.integers(3, 12), rate=st.floats(0.2, 0.5))
def test_a_transition_is_found_if_wrong_labels_are_always_the_next_class(seed, classes, rate):
    rng = np.random.default_rng(seed)
    T = (1 - rate) * np.eye(classes) + rate * np.roll(np.eye(classes), 1, axis=1)
    found = transition_of_typical(drawn_counts(rng, T, 200))
    np.testing.assert_allclose(found, partly_the_same(T), atol=0.15)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (found > 0).all()


@pytest.mark.parametrize("classes", [2, 3, 8])
def test_a_transition_is_found_if_only_one_class_has_wrong_labels(classes):
    T = np.eye(classes)
    T[0] = [0.6, *[0.4 / (classes - 1)] * (classes - 1)]
    found = transition_of_typical(200 * T)
    np.testing.assert_allclose(found, partly_the_same(T), atol=0.02)


def test_the_bayes_factors_are_those_of_integrals():
    """Two classes: only the rates can differ. The marginal likelihoods by numeric integration over the rates."""
    rates = (np.arange(20_000) + 0.5) / 20_000

    def likelihood(wrong, right):
        return np.mean(rates**wrong * (1 - rates) ** right)

    def factor(first, second):
        together = likelihood(first[0] + second[0], first[1] + second[1])
        return likelihood(*first) * likelihood(*second) / together

    for first, second in [((9, 41), (0, 50)), ((7, 43), (0, 50)), ((12, 38), (1, 49)), ((5, 45), (2, 48))]:
        counts = np.array([[first[1], first[0]], [second[0], second[1]]], dtype=float)
        assert depends_on_the_class(transition_of_typical(counts)) == (factor(first, second) >= 100)


@given(seed=seeds)
def test_evidence_of_the_label_is_the_transition_and_1_on_average(seed):
    """In proportion to T on and off the diagonal; the means over the draws of T are 1."""
    T = np.random.default_rng(seed).dirichlet(np.ones(5), 5)
    factors, same = np.exp(label_evidence(T)), np.eye(5, dtype=bool)
    for part in (same, ~same):
        assert np.ptp(factors[part] / T[part]) < 1e-6 * factors[part].max() / T[part].max()
        assert np.average(factors[part], weights=T[part]) == pytest.approx(1)


def test_the_same_noise_in_all_classes_is_removed_without_changing_the_order_of_classes():
    """p = q T with q from 2 of 4 classes: the most probable class stays, and its probability comes close to q."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 4, 4000)
    noisy = symmetric(true, 0.3, seed=0)
    q = 0.96 * np.eye(4)[true] + 0.01
    p = q @ (0.6 * np.eye(4) + 0.1)
    held_out = np.log(0.7 * np.eye(4)[true] + rng.uniform(0.07, 0.08, size=(4000, 4)))
    vectors = ProbabilityVectors(np.log(p), held_out_log_probabilities=held_out)
    unmixed = softmax(Unmix(rounds=50).apply(vectors, noisy.labels, SampleContext()).log_probabilities, axis=1)
    assert (unmixed.argmax(axis=1) == true).all()
    assert np.abs(unmixed.max(axis=1) - 0.97).max() < 0.1 < 0.28 < np.abs(p.max(axis=1) - 0.97).min()


def test_held_out_predictions_give_the_transitions_if_there_are_any():
    rng = np.random.default_rng(0)
    _, noisy, true = noise_that_was_learned()
    memorised = log_softmax(3.0 * np.eye(4)[noisy.labels], axis=1)
    held_out = np.log(0.7 * np.eye(4)[true] + rng.uniform(0.07, 0.08, size=(4000, 4)))
    blend = 0.4 * memorised + 0.6 * held_out
    T = transition_of_typical(count_typical(held_out, noisy.labels))
    np.testing.assert_allclose(T, partly_the_same(asymmetric_matrix(4, 0.4, {0: 1, 2: 3})), atol=0.1)
    vectors = ProbabilityVectors(blend, held_out_log_probabilities=held_out)
    unmixed = Unmix().apply(vectors, noisy.labels, SampleContext())
    expected = true_classes(log_softmax(blend, axis=1), T, 2) + label_evidence(T)[:, noisy.labels].T
    np.testing.assert_allclose(unmixed.log_probabilities, expected)
    assert unmixed.held_out_log_probabilities is held_out


def test_a_label_that_noise_never_gives_is_not_suspected():
    """Class 0 is labelled 1, never the other way round: of two unsure samples, the one with label 1 is suspected."""
    rng = np.random.default_rng(0)
    true = np.repeat([0, 1], 2000)
    labels = np.where(rng.random(4000) < 0.4, 1, true)
    p = np.where(true[:, None] == np.arange(2), 0.8, 0.2) + rng.uniform(-0.05, 0.05, size=(4000, 1)) * [1, -1]
    p[[0, 1]], labels[[0, 1]] = 0.5, [0, 1]
    vectors = ProbabilityVectors(np.log(p), held_out_log_probabilities=np.log(p))
    first, second = LM(Unmix().apply(vectors, labels, SampleContext()).log_probabilities, labels)[:2]
    assert second > first + 2


def unmix(log_p, labels, neighbours=None):
    vectors = ProbabilityVectors(log_p, neighbours)
    return Unmix().apply(vectors, labels, SampleContext()).log_probabilities


def noise_that_was_learned(samples=4000, classes=4, rate=0.4, seed=0):
    """Class 0 is labelled 1 and class 2 is labelled 3 at the rate; a model has learned this, and memorised a little."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, classes, samples)
    noisy = asymmetric(true, rate, {0: 1, 2: 3}, num_classes=classes, seed=seed)
    T = np.eye(classes)
    T[0, :2] = T[2, 2:] = 1 - rate, rate
    q = 0.85 * np.eye(classes)[true] + 0.15 * rng.dirichlet(np.full(classes, 0.3), samples)
    learned = 0.85 * q @ T + 0.15 * np.eye(classes)[noisy.labels]
    return log_softmax(np.log(learned) + 0.5 * rng.normal(size=learned.shape), axis=1), noisy, true


def test_asymmetric_noise_is_found_after_unmixing():
    logs, noisy, _ = noise_that_was_learned()
    alone, unmixed = LM(logs, noisy.labels), LM(unmix(logs, noisy.labels), noisy.labels)
    assert fnr(unmixed, noisy.truth) < 0.6 * fnr(alone, noisy.truth)


def test_a_whole_method_applies_knn_first_and_counts_transitions_by_the_neighbours(curves):
    logits, labels, _ = curves(5, samples=60)
    points = np.random.default_rng(0).normal(size=(len(labels), 2))
    spaces = SampleContext(inputs=points)
    found = replay(Epochs(logits, labels, context=spaces), [parse("Unmixed(rounds=3)-kNN(k=5,a=0.4)-MeanProb-LM")])
    mean = np.log(np.exp(log_softmax(logits.astype(np.float64), axis=2)).mean(axis=0))
    neighbours = KNN(k=5, a=0.0).apply(ProbabilityVectors(mean), labels, spaces).log_probabilities
    blend = log_softmax(0.4 * mean + 0.6 * neighbours, axis=1)
    by_steps = true_classes(blend, transition_of_joint(softmax(neighbours, axis=1), labels), 3)
    np.testing.assert_allclose(found[0].scores, LM(by_steps, labels), rtol=1e-6, atol=1e-8)


def test_neighbours_give_the_transitions_if_the_model_has_memorised_all_labels():
    _, noisy, true = noise_that_was_learned()
    memorised = log_softmax(3.0 * np.eye(4)[noisy.labels], axis=1)
    neighbours = np.log(0.7 * np.eye(4)[true] + 0.3 / 4)
    blend = 0.7 * memorised + 0.3 * neighbours
    counted = (
        transition_of_joint(softmax(blend, axis=1), noisy.labels),
        transition_of_joint(softmax(neighbours, axis=1), noisy.labels),
    )
    np.testing.assert_allclose(counted[0], np.eye(4), atol=0.02)
    np.testing.assert_allclose(counted[1], asymmetric_matrix(4, 0.4, {0: 1, 2: 3}), atol=0.05)
    unmixed = unmix(blend, noisy.labels, neighbours)
    np.testing.assert_allclose(unmixed, true_classes(log_softmax(blend, axis=1), counted[1], 2))


def test_nothing_changes_with_fewer_samples_than_pairs_of_classes():
    rng = np.random.default_rng(0)
    logs = log_softmax(rng.normal(size=(99, 10)), axis=1)
    np.testing.assert_array_equal(unmix(logs, rng.integers(0, 10, 99)), logs)


def test_names():
    assert parse("unmixed-meanprob-lm").name == "Unmixed-MeanProb-LM"
    assert parse("Unmixed(rounds=5)-kNN(k=3)-Last-CE (OOS)").name == "Unmixed(rounds=5)-kNN(k=3)-Last-CE (OOS)"
    assert parse("Unmixed(rounds=2)-MeanProb-LM").name == "Unmixed-MeanProb-LM"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Unmixed-Mean-LM", "needs one probability vector per sample, and Mean has none"),
        ("Unmixed(rounds=0)-MeanProb-LM", "a whole number of rounds, at least 1, not 0"),
        ("Unmixed(rounds=1.5)-MeanProb-LM", "not 1.5"),
        ("Unmixed(k=2)-MeanProb-LM", "has no parameter 'k'; its parameters are rounds"),
        ("Unmixed-CL-PBC", "unknown method"),
        ("kNN-Unmixed-MeanProb-LM", "kNN must stand directly before the aggregation"),
        ("Unmixed-Unmixed-MeanProb-LM", "the step Unmixed is named twice"),
    ],
)
def test_bad_names(name, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        parse(name)
