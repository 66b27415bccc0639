import hashlib
import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chisquare

from errata.core import noise
from errata.core.noise import (
    NOISE_MODELS,
    inject,
    label_hash,
    pairflip,
    pairflip_matrix,
    symmetric,
    symmetric_matrix,
    transition,
)
from errata.errors import InputError

rates = st.floats(0.0, 1.0)
class_counts = st.integers(2, 12)


@st.composite
def labelled(draw):
    num_classes = draw(class_counts)
    return np.array(draw(st.lists(st.integers(0, num_classes - 1), min_size=1, max_size=80))), num_classes


@st.composite
def transition_matrices(draw, num_classes):
    weights = draw(
        st.lists(
            st.lists(st.integers(0, 5), min_size=num_classes, max_size=num_classes).filter(any),
            min_size=num_classes,
            max_size=num_classes,
        )
    )
    counts = np.array(weights, float)
    return counts / counts.sum(axis=1, keepdims=True)


def test_symmetric_matrix_never_redraws_the_true_class():
    np.testing.assert_allclose(symmetric_matrix(3, 0.2), [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])


def test_pairflip_matrix_flips_to_the_next_class_and_from_the_last_to_the_first():
    np.testing.assert_allclose(pairflip_matrix(3, 0.25), [[0.75, 0.25, 0], [0, 0.75, 0.25], [0.25, 0, 0.75]])
    np.testing.assert_allclose(pairflip_matrix(2, 0.25), symmetric_matrix(2, 0.25))


@settings(deadline=None)
@given(class_counts, rates)
def test_every_noise_model_flips_at_exactly_its_rate(num_classes, rate):
    for model in NOISE_MODELS.values():
        matrix = model(num_classes, rate)
        assert (matrix >= 0).all()
        np.testing.assert_allclose(matrix.sum(axis=1), 1)
        np.testing.assert_allclose(1 - np.diag(matrix), rate, atol=1e-12)


def test_noise_models_are_found_by_name():
    assert NOISE_MODELS["symmetric"] is symmetric_matrix
    assert NOISE_MODELS["pairflip"] is pairflip_matrix
    with pytest.raises(InputError, match="already a noise model named pairflip"):
        noise.noise_model("pairflip")(symmetric_matrix)


@settings(deadline=None, max_examples=60)
@given(labelled(), st.data(), st.integers(0, 2**31))
def test_the_result_describes_the_labels(case, data, seed):
    labels, num_classes = case
    matrix = data.draw(transition_matrices(num_classes))
    noisy = inject(labels, matrix, seed=seed)
    assert noisy.labels.dtype == np.int64
    np.testing.assert_array_equal(noisy.truth, noisy.labels != labels)
    assert (matrix[labels, noisy.labels] > 0).all(), "a label of probability 0 was given"
    assert noisy.count == noisy.realised.sum() - np.trace(noisy.realised) == noisy.truth.sum()
    assert noisy.rate == noisy.count / len(labels)
    np.testing.assert_array_equal(noisy.realised.sum(axis=1), np.bincount(labels, minlength=num_classes))
    np.testing.assert_array_equal(noisy.realised.sum(axis=0), np.bincount(noisy.labels, minlength=num_classes))
    again = inject(labels, matrix, seed=seed)
    np.testing.assert_array_equal(again.labels, noisy.labels)
    assert again.metadata() == noisy.metadata()


def test_seeds_differ():
    labels = np.arange(1000) % 10
    hashes = {symmetric(labels, 0.2, seed=seed).hash for seed in range(20)}
    assert len(hashes) == 20


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("corrupt", [symmetric, pairflip])
def test_independent_draws_realise_the_rate_within_binomial_bounds(corrupt, rate):
    labels = np.arange(20_000) % 10
    counts = [corrupt(labels, rate, seed=seed).count for seed in range(10)]
    low, high = binom.interval(1 - 1e-6, len(labels), rate)
    assert all(low <= count <= high for count in counts)
    assert len(set(counts)) > 1, "an independent draw has no fixed count"


def test_independent_draws_follow_any_matrix():
    matrix = np.array([[0.5, 0.3, 0.2], [0.0, 1.0, 0.0], [0.05, 0.15, 0.8]])
    realised = inject(np.repeat([0, 1, 2], 30_000), matrix, seed=1).realised
    assert realised[1].tolist() == [0, 30_000, 0]
    for row in (0, 2):
        assert chisquare(realised[row], 30_000 * matrix[row]).pvalue > 1e-3


def test_pairflip_gives_no_other_class_than_the_next():
    labels = np.arange(5000) % 5
    noisy = pairflip(labels, 0.4, seed=3)
    assert noisy.truth.any()
    np.testing.assert_array_equal(noisy.labels[noisy.truth], (labels[noisy.truth] + 1) % 5)


def test_the_number_of_classes_is_by_default_that_of_the_highest_label():
    assert symmetric([0, 1, 2], 0.5).realised.shape == (3, 3)
    assert pairflip([0, 1, 2], 0.5).realised.shape == (3, 3)
    assert symmetric([0, 1, 2], 0.5, num_classes=5).realised.shape == (5, 5)
    assert pairflip([0, 1, 2], 0.5, 4).realised.shape == (4, 4)


def test_no_noise_and_all_noise():
    labels = np.arange(100) % 4
    assert symmetric(labels, 0.0).count == 0
    assert symmetric(labels, 1.0).count == 100
    assert pairflip(labels, 1.0).labels.tolist() == ((labels + 1) % 4).tolist()


def test_the_hash_is_of_the_label_vector_as_little_endian_int64():
    expected = hashlib.sha256(struct.pack("<4q", 3, 0, 2, 1)).hexdigest()
    assert expected == "9846ca601955deb7f464e5537362751f0dca2b5d7b9329b434a7b3cfac0cfdcb"
    for labels in ([3, 0, 2, 1], np.array([3, 0, 2, 1], np.uint8), np.array([3, 0, 2, 1], ">i4"), [3.0, 0.0, 2.0, 1.0]):
        assert label_hash(labels) == expected
    assert label_hash([0, 3, 2, 1]) != expected


def test_metadata_is_plain():
    noisy = symmetric(np.arange(100) % 4, 0.2, seed=np.int64(7))
    metadata = json.loads(json.dumps(noisy.metadata()))
    assert metadata == {
        "count": noisy.count,
        "rate": noisy.rate,
        "hash": label_hash(noisy.labels),
        "seed": 7,
    }


def test_transition_counts_true_by_given():
    counts = transition([0, 0, 1, 2, 2, 2], [0, 1, 1, 0, 2, 2], 4)
    assert counts.tolist() == [[1, 1, 0, 0], [0, 1, 0, 0], [1, 0, 2, 0], [0, 0, 0, 0]]
    with pytest.raises(InputError, match="2 true labels but 1 given"):
        transition([0, 1], [0], 2)
    with pytest.raises(InputError, match="label of sample 1 is 2"):
        transition([0, 2], [0, 1], 2)


def test_inputs_are_not_changed():
    labels, matrix = np.arange(50) % 3, symmetric_matrix(3, 0.5)
    before = matrix.copy()
    labels.flags.writeable = matrix.flags.writeable = False
    inject(labels, matrix)
    np.testing.assert_array_equal(matrix, before)


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        (np.eye(3)[:2], "shape"),
        (np.ones((1, 1)), "K at least 2"),
        (np.zeros(4), "shape"),
        ([[1.0, 0.0], [0.3, 0.6]], "row 1 of the transition matrix sums to 0.9"),
        ([[1.2, -0.2], [0.0, 1.0]], "row 0 of the transition matrix has 1.2 in column 0"),
        ([[1.0, 0.0], [np.nan, 1.0]], "row 1 of the transition matrix has nan in column 0"),
        (np.eye(2), "label of sample 2 is 2"),
    ],
)
def test_an_invalid_matrix_is_refused(matrix, sentence):
    with pytest.raises(InputError, match=sentence):
        inject([0, 1, 2], matrix)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: symmetric([0, 1], 1.2), "noise rate is 1.2"),
        (lambda: symmetric([0, 1], float("nan")), "noise rate is nan"),
        (lambda: pairflip([0, 0], 0.2), "at least two classes"),
        (lambda: symmetric([0, 1], 0.2, num_classes=0), "at least two classes"),
        (lambda: symmetric([0, -1], 0.2), "label of sample 1 is -1"),
        (lambda: symmetric(["cat", "dog"], 0.2), "labels are names"),
        (lambda: inject([], np.eye(2)), "labels are empty"),
        (lambda: inject(np.array([], int), np.eye(2)), "labels are empty"),
        (lambda: label_hash([0.5]), "label of sample 0 is 0.5"),
    ],
)
def test_bad_arguments_are_refused(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()
