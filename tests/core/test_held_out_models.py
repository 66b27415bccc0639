"""Models that predict held-out labels: against loops, without a look at a sample's own label, in unusual cases."""

import math
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss as sklearn_log_loss
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.naive_bayes import MultinomialNB

from errata.core import held_out_models as models
from errata.core.sample_context import SampleContext
from errata.errors import InputError


def clouds(samples=90, classes=3, columns=4, spread=0.7, seed=0):
    """Points (N, D) that form one cloud per class, and labels of which one in ten is wrong."""
    rng = np.random.default_rng(seed)
    true = np.arange(samples) % classes
    points = 2 * rng.normal(size=(classes, columns))[true] + spread * rng.normal(size=(samples, columns))
    return points, np.where(rng.random(samples) < 0.1, (true + 1) % classes, true)


def documents(samples=90, classes=3, terms=60, seed=0):
    """Sparse counts (N, D) of terms, four per sample, from a part of the terms that depends on the class; labels."""
    rng = np.random.default_rng(seed)
    labels = np.arange(samples) % classes
    part = terms // classes
    counts = np.zeros((samples, terms))
    for row, label in enumerate(labels):
        np.add.at(counts[row], label * part + rng.integers(0, part, 3), 1)
        counts[row, rng.integers(0, terms)] += 1
    return counts, labels


def predictions(inputs, labels, classes):
    spaces = SampleContext(inputs=inputs)
    return models.held_out_predictions(inputs, labels, classes, lambda k: spaces.nearest("inputs", k))


# All models.


@pytest.mark.parametrize(
    ("data", "count"), [(clouds, 4), (documents, 3), (lambda: (csr_matrix(documents()[0]), documents()[1]), 3)]
)
def test_every_model_predicts_labels_better_than_guessing(data, count):
    inputs, labels = data()
    found = predictions(inputs, labels, 3)
    assert len(found) == count
    for logs in found:
        assert logs.shape == (len(labels), 3)
        np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1)
        assert models.log_loss(logs, labels) < 0.9 * math.log(3)
        assert (logs.argmax(axis=1) == labels).mean() > 0.7


@pytest.mark.parametrize("data", [clouds, documents])
def test_neighbours_are_searched_if_they_are_not_given(data):
    inputs, labels = data()
    for given_neighbours, searched in zip(
        predictions(inputs, labels, 3), models.held_out_predictions(inputs, labels, 3), strict=True
    ):
        np.testing.assert_array_equal(given_neighbours, searched)


def test_with_many_classes_terms_are_not_predicted_by_logistic_regression(monkeypatch):
    monkeypatch.setattr(models, "MAX_CLASSES_OF_TERMS", 2)
    assert len(predictions(*documents(), 3)) == 2


def test_terms_with_negative_numbers_are_not_predicted_by_naive_bayes():
    inputs, labels = documents()
    assert len(predictions(np.where(inputs > 1, -1.0, inputs), labels, 3)) == 2


def test_a_table_of_few_numbers_other_than_zero_is_predicted_like_a_sparse_matrix():
    inputs, labels = documents()
    for dense, sparse in zip(predictions(inputs, labels, 3), predictions(csr_matrix(inputs), labels, 3), strict=True):
        np.testing.assert_array_equal(dense, sparse)


@pytest.mark.parametrize(("share", "expected"), [(0.05, True), (0.1, False), (0.5, False)])
def test_mostly_zeros(share, expected):
    values = np.zeros(1000)
    values[: int(1000 * share)] = -2
    assert models.mostly_zeros(values.reshape(100, 10)) == expected


@pytest.mark.parametrize("labels", [np.arange(9) % 2, np.zeros(40, dtype=np.int64)])
def test_nothing_is_predicted_with_few_samples_or_a_single_class(labels):
    assert predictions(np.random.default_rng(0).normal(size=(len(labels), 2)), labels, 3) == []


UNUSUAL = {
    "the fewest samples": (np.random.default_rng(0).normal(size=(10, 2)), np.arange(10) % 2, 2),
    "a class with one sample": (np.random.default_rng(0).normal(size=(16, 2)), np.array([0] * 15 + [3]), 4),
    "more classes than samples": (np.random.default_rng(0).normal(size=(11, 2)), np.arange(11), 50),
    "absent classes": (np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 2 + 3, 9),
    "zeros": (np.zeros((30, 3)), np.arange(30) % 3, 3),
    "constant inputs": (np.full((30, 3), 7.0), np.arange(30) % 3, 3),
    "two points, repeated": (np.repeat(np.eye(2), 15, axis=0), np.arange(30) % 3, 3),
    "one column": (np.random.default_rng(0).normal(size=(30, 1)), np.arange(30) % 3, 3),
    "whole numbers": (np.random.default_rng(0).integers(0, 9, (30, 3)), np.arange(30) % 3, 3),
    "float16": (np.random.default_rng(0).normal(size=(30, 3)).astype(np.float16), np.arange(30) % 3, 3),
    "far from the origin": (1e6 + np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 3, 3),
    "a sparse row without terms": (np.where(np.arange(90)[:, None] == 5, 0, documents()[0]), documents()[1], 3),
}


@pytest.mark.parametrize("case", UNUSUAL)
def test_unusual_data_is_predicted_without_warnings(case):
    inputs, labels, classes = UNUSUAL[case]
    before = inputs.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = predictions(inputs, labels, classes)
    assert found
    for logs in found:
        assert logs.shape == (len(labels), classes)
        assert np.isfinite(logs).all()
        np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1)
    np.testing.assert_array_equal(inputs, before)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_numbers_that_no_model_can_use_are_refused(value):
    for inputs, labels in (clouds(), documents()):
        inputs[3, np.argmax(inputs[3] != 0)] = value
        with pytest.raises(InputError, match=r"float32|not finite|holds"):
            predictions(inputs, labels, 3)


DIGEST = """
import hashlib, os, sys
sys.path.insert(0, sys.argv[1])
if sys.argv[2] == "1":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from test_held_out_models import clouds, documents, predictions
found = [logs.tobytes() for data in (clouds(200, columns=20), documents()) for logs in predictions(*data, 3)]
print(hashlib.sha256(b"".join(found)).hexdigest())
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be limited to one CPU here")
def test_the_same_twice_and_with_one_or_two_cpus():
    digests = set()
    for cpus in ("1", "2"):
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), cpus)
        command = [sys.executable, "-c", DIGEST, str(Path(__file__).parent), cpus]
        done = subprocess.run(command, env=os.environ | threads, capture_output=True, text=True, check=True)
        digests.add(done.stdout)
    assert len(digests) == 1


# A prediction does not depend on the label of its own sample.


@pytest.mark.parametrize("number", [0, 3])
def test_labels_of_a_fold_do_not_change_its_predictions(number):
    inputs, labels = clouds()
    matrix, fold = inputs.astype(np.float32), models.assign_folds(labels, models.FOLDS)
    terms, _ = documents()
    held_out = np.flatnonzero(fold == number)
    changed = labels.copy()
    changed[held_out] = (labels[held_out] + 1) % 3
    for before, after in (
        [list(models._logistic_regressions((0.1, 10.0), matrix, known, 3, fold)) for known in (labels, changed)],
        [list(models._naive_bayes(csr_matrix(terms), known, 3, fold)) for known in (labels, changed)],
    ):
        for one, same in zip(before, after, strict=True):
            np.testing.assert_array_equal(one[held_out], same[held_out])
            assert not np.array_equal(one, same)


def test_labels_of_a_fold_do_not_change_what_the_network_predicts_after_an_epoch(monkeypatch):
    monkeypatch.setattr(models, "log_loss", lambda logs, labels: next(losses))
    inputs, labels = clouds()
    matrix, fold = inputs.astype(np.float32), models.assign_folds(labels, models.FOLDS)
    changed = np.where(fold == 2, (labels + 1) % 3, labels)
    found = []
    for given_labels in (labels, changed):
        losses = iter([3.0, 2.0, 1.0] + [5.0] * models.PATIENCE)  # the third epoch is the best
        (logs,) = models._network(matrix, given_labels, 3, fold)
        found.append(logs)
    np.testing.assert_array_equal(found[0][fold == 2], found[1][fold == 2])
    assert not np.array_equal(found[0], found[1])


@pytest.mark.parametrize("row", [0, 17, 89])
def test_the_label_of_a_sample_does_not_change_its_neighbours_votes_or_its_out_of_bag_prediction(row):
    inputs, labels = clouds()
    changed = labels.copy()
    changed[row] = (labels[row] + 1) % 3
    spaces = SampleContext(inputs=inputs)
    votes = [
        list(models.neighbour_votes(known, 3, lambda k: spaces.nearest("inputs", k))) for known in (labels, changed)
    ]
    for one, other in zip(*votes, strict=True):
        np.testing.assert_array_equal(one[row], other[row])
    (one,), (other,) = (list(models._forest(inputs.astype(np.float32), known, 3)) for known in (labels, changed))
    np.testing.assert_array_equal(one[row], other[row])
    assert not np.array_equal(one, other)


def test_a_sample_is_not_among_its_own_neighbours_even_if_all_others_are_opposite():
    terms = np.zeros((12, 30), dtype=np.float32)
    terms[:6, 0], terms[6:, 0] = 1, -1
    near = models._nearest_by_cosine(csr_matrix(terms), 11)
    for row, others in enumerate(near):
        assert sorted(others) == [other for other in range(12) if other != row]


# Each model against an independent computation.


def votes_by_hand(labels, points, k, classes, distance):
    """Log-probabilities by a loop over samples: k votes, and one that is spread over all classes."""
    result = np.empty((len(labels), classes))
    for i in range(len(labels)):
        others = sorted((j for j in range(len(labels)) if j != i), key=lambda j: (distance(points[i], points[j]), j))
        near = [labels[j] for j in others[:k]]
        result[i] = [math.log((near.count(c) + 1 / classes) / (len(near) + 1)) for c in range(classes)]
    return result


def test_leave_one_out_neighbours_are_those_of_a_loop():
    inputs, labels = clouds(samples=50)
    spaces = SampleContext(inputs=inputs)
    variants = list(models.neighbour_votes(labels, 3, lambda k: spaces.nearest("inputs", k)))
    assert len(variants) == len(models.NEIGHBOUR_COUNTS)
    for k, logs in zip(models.NEIGHBOUR_COUNTS, variants, strict=True):
        np.testing.assert_allclose(logs, votes_by_hand(labels.tolist(), inputs, k, 3, math.dist))


@pytest.mark.parametrize("block", [1, 7, 1 << 22])
def test_sparse_neighbours_are_the_nearest_by_angle(monkeypatch, block):
    monkeypatch.setattr(models, "SIMILARITIES", block * 40)
    rng = np.random.default_rng(0)
    terms = rng.random((40, 30)) * (rng.random((40, 30)) < 0.3)
    near = models._nearest_by_cosine(csr_matrix(terms), 6)
    unit = terms / np.linalg.norm(terms, axis=1, keepdims=True)
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -1)
    expected = np.argsort(-similarity, axis=1)[:, :6]
    np.testing.assert_array_equal(near, expected)


@pytest.mark.parametrize(
    ("made", "model", "data"),
    [
        (lambda *data: models._logistic_regressions((0.1,), *data), LogisticRegression(C=0.1), clouds),
        (
            lambda *data: models._naive_bayes(*data),
            MultinomialNB(alpha=models.SMOOTHINGS[0], fit_prior=False),
            documents,
        ),
    ],
)
def test_fold_models_are_those_of_scikit_learn(made, model, data):
    inputs, labels = data()
    fold = models.assign_folds(labels, models.FOLDS)
    expected = cross_val_predict(model, inputs, labels, cv=PredefinedSplit(fold), method="predict_proba")
    matrix = csr_matrix(inputs) if data is documents else inputs
    found = next(iter(made(matrix, labels, 3, fold)))
    np.testing.assert_allclose(np.exp(found), expected, atol=1e-4)


def test_large_data_is_trained_on_a_part(monkeypatch):
    monkeypatch.setattr(models, "MAX_TRAINING_SAMPLES", 20)
    fold = models.assign_folds(np.arange(90) % 3, models.FOLDS)
    parts = list(models._training_rows(fold))
    assert sorted(np.concatenate([held_out for held_out, _ in parts])) == list(range(90))
    for number, (held_out, rows) in enumerate(parts):
        assert set(fold[held_out]) == {number}
        assert len(set(rows)) == 20
        assert number not in fold[rows]
    assert len(predictions(*clouds(), 3)) == 4


# Choosing between variants.


@given(seed=st.integers(0, 50), samples=st.integers(5, 40))
def test_the_best_variant_has_the_lowest_loss_at_its_best_factor(seed, samples):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, samples)
    variants = [
        log_softmax(sure * np.eye(3)[labels] + 2 * rng.normal(size=(samples, 3)), axis=1) for sure in (0.5, 1.5, 1.0)
    ]
    factors = np.concatenate([np.linspace(0, 4, 100), np.linspace(4, 40, 50)])
    losses = [
        min(-log_softmax(factor * logs, axis=1)[np.arange(samples), labels].mean() for factor in factors)
        for logs in variants
    ]
    chosen = models.best_variant(iter(variants), labels)
    (index,) = [number for number, logs in enumerate(variants) if logs is chosen]
    assert losses[index] <= min(losses) + 1e-3


def test_a_variant_that_is_only_too_confident_is_not_rejected():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    good = log_softmax(2 * np.eye(3)[labels] + rng.normal(size=(300, 3)), axis=1)
    worse = log_softmax(1.0 * np.eye(3)[labels] + rng.normal(size=(300, 3)), axis=1)
    too_confident = log_softmax(20 * good, axis=1)
    assert models.log_loss(too_confident, labels) > models.log_loss(worse, labels)
    assert models.best_variant([worse, too_confident], labels) is too_confident


@given(seed=st.integers(0, 50))
def test_the_log_loss_is_that_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    p, labels = rng.dirichlet(np.ones(4), 20), rng.integers(0, 4, 20)
    assert models.log_loss(np.log(p), labels) == pytest.approx(sklearn_log_loss(labels, p, labels=range(4)))


@given(p=st.lists(st.floats(0, 1), min_size=2, max_size=6).filter(lambda p: sum(p) > 0.5))
def test_cut_probabilities_are_normalised_and_never_zero(p):
    probabilities = np.array([p]) / sum(p)
    logs = models.cut(probabilities)
    assert np.exp(logs).sum() == pytest.approx(1)
    assert logs.min() >= models.LOWEST_HELD_OUT_LOG_PROBABILITY - 1e-4  # rows are normalised after the cut
    np.testing.assert_allclose(
        np.exp(logs), probabilities, atol=len(p) * math.exp(models.LOWEST_HELD_OUT_LOG_PROBABILITY)
    )


# Folds.


@given(labels=st.lists(st.integers(0, 4), min_size=10, max_size=80).map(np.array), folds=st.integers(2, 7))
def test_folds_are_equally_large_and_stratified(labels, folds):
    fold = models.assign_folds(labels, folds)
    assert np.ptp(np.bincount(fold, minlength=folds)) <= 1
    for label in np.unique(labels):
        assert np.ptp(np.bincount(fold[labels == label], minlength=folds)) <= 1
    np.testing.assert_array_equal(fold, models.assign_folds(labels, folds))


@pytest.mark.parametrize("folds", [1, 11])
def test_folds_need_samples(folds):
    with pytest.raises(InputError, match=f"10 samples cannot be split into {folds} folds"):
        models.assign_folds(np.zeros(10, dtype=np.int64), folds)
