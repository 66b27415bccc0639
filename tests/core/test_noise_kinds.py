"""Asymmetric, instance-dependent, long-tailed and open-set noise."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chisquare, ks_2samp

from errata.core.noise import (
    asymmetric,
    asymmetric_matrix,
    instance_dependent,
    instance_transitions,
    long_tailed,
    open_set,
    transition,
)
from errata.core.noise.sample_noise import flip_rates
from errata.errors import InputError

# Asymmetric noise.


def test_asymmetric_matrix_flips_only_the_listed_classes():
    np.testing.assert_allclose(
        asymmetric_matrix(4, 0.4, {0: 2, 2: 0, 3: 1}),
        [[0.6, 0, 0.4, 0], [0, 1, 0, 0], [0.4, 0, 0.6, 0], [0, 0.4, 0, 0.6]],
    )


def test_asymmetric_noise_has_its_rate_in_every_listed_class():
    labels = np.arange(40_000) % 4
    noisy = asymmetric(labels, 0.4, {0: 2, 2: 0, 3: 1}, seed=2)
    low, high = binom.interval(1 - 1e-6, 10_000, 0.4)
    moved = {(0, 2), (2, 0), (3, 1)}
    for true, label in np.ndindex(4, 4):
        if true != label:
            assert (
                (low <= noisy.realised[true, label] <= high)
                if (true, label) in moved
                else not noisy.realised[true, label]
            )


# Instance-dependent noise.


def test_transitions_equal_those_computed_sample_by_sample():
    rng = np.random.default_rng(0)
    labels, inputs = rng.integers(0, 4, 60), rng.normal(size=(60, 3))
    rates, projections = rng.random(60), rng.normal(size=(4, 3, 4))
    found = instance_transitions(labels, inputs, rates, projections)
    for row, true in enumerate(labels):
        others = [label for label in range(4) if label != true]
        scores = [float(sum(inputs[row, d] * projections[true, d, label] for d in range(3))) for label in others]
        shares = torch.softmax(torch.tensor(scores, dtype=torch.float64), dim=0).numpy()
        assert found[row, true] == pytest.approx(1 - rates[row])
        np.testing.assert_allclose(found[row, others], rates[row] * shares, rtol=1e-10)


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5, 0.95])
def test_flip_rates_are_truncated_normal(rate):
    drawn = flip_rates(rate, 20_000, np.random.default_rng(1))
    normal = np.random.default_rng(2).normal(rate, 0.1, 60_000)
    assert ks_2samp(drawn, normal[(normal >= 0) & (normal <= 1)]).pvalue > 1e-3


def test_instance_noise_of_constant_inputs_is_symmetric():
    labels = np.arange(50_000) % 5
    noisy = instance_dependent(labels, np.zeros((50_000, 3)), 0.3, seed=4)
    low, high = binom.interval(1 - 1e-6, 50_000, 0.3)  # truncated to 0..1, the mean is 0.3 to three decimals
    assert low - 50 <= noisy.count <= high + 50
    for true in range(5):
        assert chisquare(np.delete(noisy.realised[true], true)).pvalue > 1e-3


def test_instance_noise_flips_similar_samples_to_the_same_class():
    labels = np.arange(4000) % 4
    direction = np.random.default_rng(0).normal(size=8)
    side = np.where(np.arange(4000) % 8 < 4, 1.0, -1.0)
    noisy = instance_dependent(labels, 100 * side[:, None] * direction, 0.4, seed=1)
    for true in range(4):
        targets = [set(noisy.labels[noisy.truth & (labels == true) & (side == one)]) for one in (1.0, -1.0)]
        assert len(targets[0]) == len(targets[1]) == 1
        assert targets[0] != targets[1]


def test_instance_noise_depends_on_its_seed_only_and_accepts_images():
    labels = np.arange(300) % 3
    images = np.random.default_rng(0).normal(size=(300, 3, 4, 4)).astype(np.float32)
    noisy = instance_dependent(labels, images, 0.2, seed=5)
    assert noisy.hash == instance_dependent(labels, images.reshape(300, -1), 0.2, 3, seed=5).hash
    assert noisy.hash != instance_dependent(labels, images, 0.2, seed=6).hash
    np.testing.assert_array_equal(noisy.truth, noisy.labels != labels)
    np.testing.assert_array_equal(noisy.realised, transition(labels, noisy.labels, 3))
    assert set(noisy.metadata()) == {"count", "rate", "hash", "seed"}


# Long-tailed classes.


@pytest.mark.parametrize(
    ("ratio", "sizes"),
    [  # of CIFAR-10's long-tailed versions in common use, which round down
        (10, [5000, 3871, 2997, 2320, 1796, 1391, 1077, 834, 645, 500]),
        (100, [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]),
    ],
)
def test_a_long_tail_of_cifar10_is_the_one_in_common_use(ratio, sizes):
    labels = np.arange(50_000) % 10
    found = np.bincount(labels[long_tailed(labels, ratio)])
    assert (np.abs(found - sizes) <= 1).all()
    assert found[0] == ratio * found[-1]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=80), st.floats(1, 50), st.integers(0, 50))
def test_a_long_tail_keeps_the_share_of_every_class(labels, ratio, seed):
    given = np.array(labels)
    rows = long_tailed(given, ratio, 6, seed=seed)
    assert (np.diff(rows) > 0).all()
    for number in range(6):
        size = labels.count(number)
        kept = int((given[rows] == number).sum())
        assert abs(kept - max(size * ratio ** (-number / 5), min(size, 1))) <= 0.5 + 1e-9
    np.testing.assert_array_equal(rows, long_tailed(given, ratio, 6, seed=seed))


def test_a_long_tail_is_drawn_uniformly_over_rows():
    labels = np.repeat([0, 1], 40)
    kept = np.sum([np.isin(np.arange(40, 80), long_tailed(labels, 4, seed=seed)) for seed in range(1000)], axis=0)
    assert chisquare(kept).pvalue > 1e-3


# Open-set noise.


def test_open_set_by_hand():
    noisy = open_set([0, 1, 2, 0, 1, 2, 0, 1, 0, 1], 1, 0.2, seed=3)
    assert noisy.rows.tolist() == list(range(10))
    assert np.flatnonzero(noisy.truth).tolist() == [2, 5]
    half = open_set([0, 1, 2, 0, 1, 2, 0, 1, 0, 1], 1, 0.5, seed=3)
    assert (len(half.rows), half.count) == (4, 2), "of the eight others two are left"


@settings(deadline=None, max_examples=80)
@given(st.integers(10, 60), st.integers(10, 60), st.integers(1, 3), st.floats(0.1, 0.9), st.integers(0, 50))
def test_open_set_keeps_as_many_samples_as_its_rate_allows(kept, held, held_out, rate, seed):
    rng = np.random.default_rng(seed)
    classes = 3 + held_out
    labels = rng.permutation(np.concatenate([rng.integers(0, 3, kept), rng.integers(3, classes, held)]))
    noisy = open_set(labels, held_out, rate, classes, seed=seed)
    assert (np.diff(noisy.rows) > 0).all()
    true = labels[noisy.rows]
    np.testing.assert_array_equal(noisy.truth, true >= 3)
    np.testing.assert_array_equal(noisy.labels[~noisy.truth], true[~noisy.truth])
    assert noisy.labels.max() < 3
    assert abs(noisy.count - rate * len(noisy.rows)) <= 1
    assert noisy.count == held or len(true) - noisy.count == kept, "more could have been taken"
    np.testing.assert_array_equal(noisy.realised, transition(true, noisy.labels, classes))
    assert noisy.hash == open_set(labels, held_out, rate, classes, seed=seed).hash


def test_open_set_labels_are_uniform_over_the_other_classes():
    labels = np.repeat(np.arange(6), 4000)
    noisy = open_set(labels, 2, 0.3, seed=1)
    for true in (4, 5):
        assert noisy.realised[true, 4:].sum() == 0
        assert chisquare(noisy.realised[true, :4]).pvalue > 1e-3
    np.testing.assert_array_equal(noisy.realised[:4, :4], np.diag(np.diag(noisy.realised)[:4]))


# Invalid arguments.


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: asymmetric([0, 1], 0.4, {}), "flips are empty"),
        (lambda: asymmetric([0, 1], 0.4, {0: 2}), "flips contain the class 2, outside 0..1"),
        (lambda: asymmetric([0, 1], 0.4, {-1: 0}), "flips contain the class -1"),
        (lambda: asymmetric([0, 1], 0.4, {1: 1}), "flips map class 1 to itself"),
        (lambda: asymmetric([0, 1], 1.4, {0: 1}), "noise rate is 1.4"),
        (lambda: instance_dependent([0, 1], [[1.0], [2.0]], 0.0), "both excluded, not 0.0"),
        (lambda: instance_dependent([0, 1], [[1.0], [2.0]], float("nan")), "noise rate is nan"),
        (lambda: instance_dependent([0, 1], [[1.0]], 0.2), "2 labels but inputs of 1 samples"),
        (lambda: instance_dependent([0, 1], [1.0, 2.0], 0.2), r"inputs must be numbers of shape \(N, ...\)"),
        (lambda: instance_dependent([0, 1], [["a"], ["b"]], 0.2), "inputs must be numbers"),
        (lambda: instance_dependent([0, 1], [[0.0], [np.nan]], 0.2), "inputs of sample 1 are not finite"),
        (lambda: instance_dependent([], np.zeros((0, 2)), 0.2, 3), "labels are empty"),
        (lambda: long_tailed([0, 1], 0.5), "ratio of the largest to the smallest class is 0.5"),
        (lambda: long_tailed([0, 1], float("nan")), "ratio of the largest"),
        (lambda: long_tailed([0, 0], 10), "at least two classes"),
        (lambda: long_tailed([], 10, 3), "labels are empty"),
        (lambda: open_set([0, 1, 2], 2, 0.2), "outside 1..1; at least two of the 3 classes"),
        (lambda: open_set([0, 1, 2], 0, 0.2), "outside 1..1; at least two of the 3 classes"),
        (lambda: open_set([0, 1, 2], 1, 1.0), "both excluded, not 1.0"),
        (lambda: open_set([0, 1, 0, 1], 1, 0.2, 3), "4 samples of the remaining classes and 0 of the removed ones"),
        (lambda: open_set([0, 1, 2], 1, 0.01), "too few for a rate of 0.01"),
        (lambda: open_set([0, 1, 2], 1, 0.2, seed=-1), "seed must be"),
    ],
)
def test_bad_arguments_are_refused(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()
