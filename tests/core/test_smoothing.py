"""The step kNN against a loop over samples, the settings that it chooses, and its names."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, logsumexp

from errata.core.measures import LM
from errata.core.method_parts import ProbabilityVectors
from errata.core.methods import parse
from errata.core.neighbours import label_votes
from errata.core.replay import Epochs, replay
from errata.core.sample_context import SampleContext
from errata.core.smoothing import KNN, KNNSettings, log_neighbour_mean
from errata.dynamics.ranking import rank
from errata.dynamics.scoring import score
from errata.dynamics.store import Dynamics
from errata.errors import InputError

# The mean over neighbours.


def made_up(samples=60, classes=5, k=7, spread=3.0, seed=0):
    rng = np.random.default_rng(seed)
    logs = log_softmax(spread * rng.normal(size=(samples, classes)), axis=1)
    return logs, rng.integers(0, samples, (samples, k)).astype(np.int32)


def expected_mean(logs, near):
    return logsumexp(logs[near], axis=1) - np.log(near.shape[1])


@given(
    spread=st.sampled_from([0.1, 3.0, 100.0, 1e4]),
    k=st.integers(1, 9),
    classes=st.integers(2, 6),
    seed=st.integers(0, 99),
)
def test_the_mean_equals_log_sum_exp(spread, k, classes, seed):
    logs, near = made_up(40, classes, k, spread, seed)
    np.testing.assert_allclose(log_neighbour_mean(logs, near), expected_mean(logs, near), rtol=1e-12, atol=1e-14)


def test_many_samples_in_several_blocks():
    logs, near = made_up(30_000, 12, 4)
    np.testing.assert_allclose(log_neighbour_mean(logs, near), expected_mean(logs, near), rtol=1e-12)


@pytest.mark.filterwarnings("error")
def test_a_probability_of_zero_stays_minus_infinity():
    with np.errstate(divide="ignore"):
        logs = np.log([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    mean = log_neighbour_mean(logs, np.array([[1, 2], [0, 3], [1, 3], [0, 0]], dtype=np.int32))
    np.testing.assert_allclose(np.exp(mean), [[0.5, 0.5, 0], [1, 0, 0], [0.75, 0.25, 0], [1, 0, 0]])


def test_probabilities_too_small_for_a_float():
    logs = np.array([[0.0, -2000.0], [0.0, -2001.0], [0.0, -3000.0]])
    mean = log_neighbour_mean(logs, np.array([[1, 2], [0, 2], [0, 1]], dtype=np.int32))
    expected = [-2001 - np.log(2), -2000 - np.log(2), -2000 + np.log((1 + np.exp(-1)) / 2)]
    np.testing.assert_allclose(mean[:, 1], expected)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_types_and_read_only_arrays(dtype):
    logs, near = made_up()
    logs = logs.astype(dtype)
    logs.flags.writeable = near.flags.writeable = False
    mean = log_neighbour_mean(logs, near)
    assert mean.dtype == np.float64
    np.testing.assert_allclose(mean, expected_mean(logs.astype(np.float64), near), rtol=1e-12)


def test_memory_does_not_hold_the_rows_of_all_neighbours():
    logs, near = made_up(3000, 40, 100)
    log_neighbour_mean(logs[:200], near[:200] % 200)
    tracemalloc.start()
    log_neighbour_mean(logs, near)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * logs.nbytes


def test_votes_count_the_labels_of_the_neighbours():
    near = np.array([[1, 2], [0, 2], [0, 1]], dtype=np.int32)
    np.testing.assert_array_equal(label_votes(np.array([0, 2, 2]), near, 3), [[0, 0, 2], [1, 0, 1], [1, 0, 1]])


# The blend.


def by_hand(log_p, labels, points, k, a, share):
    """The docstring's formula, one sample and one class at a time."""
    samples, classes = log_p.shape
    result = np.empty_like(log_p)
    for i in range(samples):
        others = [j for j in range(samples) if j != i]
        near = sorted(others, key=lambda j: (math.dist(points[i], points[j]), j))[:k]
        for c in range(classes):
            values = [(1 - share) * math.exp(log_p[j, c]) + share * (labels[j] == c) for j in near]
            mean = math.fsum(values) / len(near)
            if share > 0:
                mean = (mean * len(near) + 1 / classes) / (len(near) + 1)
            result[i, c] = a * log_p[i, c] + (1 - a) * math.log(mean)
    return result


def smoothed(knn, log_p, labels, **points):
    return knn.apply(ProbabilityVectors(log_p), labels, SampleContext(**points)).log_probabilities


@pytest.fixture
def few():
    rng = np.random.default_rng(3)
    return log_softmax(rng.normal(size=(30, 4)), axis=1), rng.integers(0, 4, 30), rng.normal(size=(30, 3))


@given(
    k=st.integers(1, 12),
    a=st.sampled_from([0.0, 0.25, 0.5, 0.9]),
    share=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 20),
)
def test_the_blend_is_the_formula(k, a, share, seed):
    rng = np.random.default_rng(seed)
    log_p, labels = log_softmax(2 * rng.normal(size=(14, 3)), axis=1), rng.integers(0, 3, 14)
    points = rng.normal(size=(14, 2))
    found = smoothed(KNN(k=k, a=a, labels=share, space="inputs"), log_p, labels, inputs=points)
    np.testing.assert_allclose(found, by_hand(log_p, labels, points, k, a, share), rtol=1e-9, atol=1e-12)


def test_features_are_compared_by_angle(few):
    log_p, labels, points = few
    scaled = points * np.linspace(0.1, 9, len(points))[:, None]
    smoothing = KNN(k=4, a=0.5, labels=0.0)
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    expected = by_hand(log_p, labels, unit, 4, 0.5, 0.0)
    np.testing.assert_allclose(smoothed(smoothing, log_p, labels, features=scaled), expected, rtol=1e-9)


def test_a_whole_method_smooths_the_vector_of_its_aggregation(curves):
    logits, labels, _ = curves(5, samples=40)
    points = np.random.default_rng(0).normal(size=(len(labels), 2))
    method = parse("kNN(k=5,a=0.5,labels=0,space=inputs)-MeanProb-LM")
    found = replay(Epochs(logits, labels, context=SampleContext(inputs=points)), [method])[0].scores
    mean = np.log(np.exp(log_softmax(logits.astype(np.float64), axis=2)).mean(axis=0))
    np.testing.assert_allclose(found, LM(by_hand(mean, labels, points, 5, 0.5, 0.0), labels), rtol=1e-7, atol=1e-9)


def well_separated(samples=200, dimensions=2, noise=0.05):
    """Two clusters, one per class, and probabilities that predict the class."""
    rng = np.random.default_rng(0)
    labels = np.arange(samples) % 2
    points = np.zeros((samples, dimensions))
    points[:, 0] = 10 * labels
    log_p = log_softmax(4.0 * np.eye(2)[labels] + rng.normal(scale=0.1, size=(samples, 2)), axis=1)
    return log_p, labels, points + noise * rng.normal(size=points.shape)


def test_rules_for_features_and_inputs():
    points = np.zeros((3, 2))
    assert KNN().choose(SampleContext(features=points)) == KNNSettings("features", 50, 0.5, 0.0)
    for both in (SampleContext(inputs=points), SampleContext(features=points, inputs=points)):
        assert KNN().choose(both) == KNNSettings("inputs", 10, 0.7, 1.0)


def test_given_settings_are_kept():
    both = SampleContext(features=np.zeros((3, 2)), inputs=np.zeros((3, 2)))
    assert KNN(k=3, a=0.2, labels=0.5, space="features").choose(both) == KNNSettings("features", 3, 0.2, 0.5)
    assert KNN(k=3).choose(both) == KNNSettings("inputs", 3, 0.7, 1.0)


def test_planted_errors_come_first_though_the_model_has_memorised_them():
    """The model predicts every given label; only the neighbours disagree with wrong ones."""
    _, labels, points = well_separated()
    planted = np.arange(len(labels)) % 9 == 0
    given = np.where(planted, 1 - labels, labels)
    memorised = log_softmax(3.0 * np.eye(2)[given], axis=1)
    dynamics = Dynamics.from_arrays(memorised, given, inputs=points)
    ranking = rank(dynamics, "kNN-MeanProb-LM")
    assert set(ranking["id"][: planted.sum()]) == set(np.flatnonzero(planted))
    assert not planted[np.argmax(score(dynamics, "MeanProb-LM"))] or len(set(score(dynamics, "MeanProb-LM"))) == 1


def test_a_window_has_the_same_neighbours(few):
    log_p, labels, points = few
    dynamics = Dynamics.from_arrays(np.stack([log_p, log_p[::-1]]), labels, inputs=points)
    assert dynamics.window((0, 0)).context is dynamics.context


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kNN-Mean-LM", "kNN needs one probability vector per sample, and Mean has none"),
        ("kNN-CTRL-CE", "CTRL has none"),
        ("kNN-CL-PBNR (IS)", "unknown method"),
        ("kNN(k=0)-Last-LM", "whole number of neighbours"),
        ("kNN(k=2.5)-Last-LM", "whole number of neighbours"),
        ("kNN(a=2)-Last-LM", "a between 0 and 1"),
        ("kNN(labels=-1)-Last-LM", "labels between 0 and 1"),
        ("kNN(space=moon)-Last-LM", "features or inputs, not 'moon'"),
        ("kNN(q=1)-Last-LM", "no parameter 'q'"),
    ],
)
def test_bad_names(name, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        parse(name)


def test_a_run_without_points_is_refused(few):
    log_p, labels, points = few
    with pytest.raises(InputError, match="needs features or inputs"):
        score(Dynamics.from_arrays(log_p, labels), "kNN-MeanProb-LM")
    with pytest.raises(InputError, match="needs inputs of the samples"):
        score(Dynamics.from_arrays(log_p, labels, features=points), "kNN(space=inputs)-MeanProb-LM")
    with pytest.raises(InputError, match=r"inputs must be numbers of shape \(30, D\)"):
        Dynamics.from_arrays(log_p, labels, inputs=np.zeros(30))
