"""Pooled predictions: weights against a grid, another optimiser and a fitted model; when there is a pool."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax
from test_held_out_models import clouds, documents

from errata.core import held_out_models, pooling
from errata.core.held_out_models import held_out_predictions, log_loss, pool_weights
from errata.core.pooling import held_out_pool, pool
from errata.core.sample_context import SampleContext
from errata.errors import InputError


def made_up(seed, models=3, samples=60, classes=4, sure=1.5):
    """Log-probabilities (N, K) of some models, of different quality, and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, samples)
    strengths = sure * rng.random(models)
    return [
        log_softmax(strength * np.eye(classes)[labels] + rng.normal(size=(samples, classes)), axis=1)
        for strength in strengths
    ], labels


def loss_by_hand(weights, predictions, labels):
    """The log loss of the pool, one sample at a time."""
    losses = []
    for i, label in enumerate(labels):
        values = [
            math.fsum(w * logs[i, c] for w, logs in zip(weights, predictions, strict=True))
            for c in range(predictions[0].shape[1])
        ]
        losses.append(math.log(math.fsum(math.exp(value) for value in values)) - values[label])
    return math.fsum(losses) / len(losses)


@settings(max_examples=15)
@given(seed=st.integers(0, 1000))
def test_no_weights_on_a_grid_are_better(seed):
    predictions, labels = made_up(seed, models=2, samples=25)
    lowest = loss_by_hand(pool_weights(predictions, labels), predictions, labels)
    for weights in product(np.linspace(0, 3, 13), repeat=2):
        assert loss_by_hand(weights, predictions, labels) >= lowest - 1e-6


@given(seed=st.integers(0, 1000), models=st.integers(1, 4))
def test_another_optimiser_without_gradients_finds_no_lower_loss(seed, models):
    predictions, labels = made_up(seed, models)
    found = pool_weights(predictions, labels)
    assert (found >= 0).all()

    def loss(weights):
        pool = log_softmax(np.tensordot(np.abs(weights), np.stack(predictions), axes=1), axis=1)
        return log_loss(pool, labels)

    other = minimize(loss, np.ones(models), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-10})
    assert loss(found) <= other.fun + 1e-6


@given(seed=st.integers(0, 1000), models=st.integers(1, 4))
def test_at_the_minimum_no_weight_can_be_changed_with_profit(seed, models):
    """The gradient by finite differences: 0 for weights above 0, not negative for weights of 0."""
    predictions, labels = made_up(seed, models)
    found = pool_weights(predictions, labels)
    gradient = approx_fprime(found, lambda weights: loss_by_hand(weights, predictions, labels), 1e-6)
    np.testing.assert_allclose(gradient[found > 1e-6], 0, atol=2e-3)
    assert (gradient[found <= 1e-6] > -2e-3).all()


def test_weights_are_those_of_a_logistic_regression_on_the_logits():
    """With two classes, the pool is a logistic regression without a constant on the differences of the logarithms."""
    from sklearn.linear_model import LogisticRegression

    predictions, labels = made_up(3, models=2, samples=300, classes=2)
    logits = np.stack([logs[:, 1] - logs[:, 0] for logs in predictions], axis=1)
    fitted = LogisticRegression(C=1e9, fit_intercept=False, tol=1e-10).fit(logits, labels)
    assert (fitted.coef_ > 0).all()  # so that the bound does not matter
    np.testing.assert_allclose(pool_weights(predictions, labels), fitted.coef_[0], rtol=1e-2)


def test_a_model_that_knows_nothing_gets_no_weight():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 2000)
    good = log_softmax(2 * np.eye(3)[labels] + rng.normal(size=(2000, 3)), axis=1)
    noise = log_softmax(rng.normal(size=(2000, 3)), axis=1)
    misleading = log_softmax(-2 * np.eye(3)[labels] + rng.normal(size=(2000, 3)), axis=1)
    weights = pool_weights([good, noise], labels)
    assert weights[0] > 0.5
    assert weights[1] < 0.1
    assert pool_weights([misleading], labels)[0] == 0


def test_predictions_that_are_always_right_give_finite_weights():
    labels = np.arange(30) % 3
    weights = pool_weights([log_softmax(5.0 * np.eye(3)[labels], axis=1)], labels)
    assert np.isfinite(weights).all()
    assert weights[0] > 0


# The pool of a run.


@pytest.mark.parametrize("data", [clouds, documents])
def test_the_pool_is_the_weighted_geometric_mean_and_better_than_each_model(data):
    inputs, labels = data()
    spaces = SampleContext(inputs=inputs)
    pool = held_out_pool(labels, 3, spaces)
    models = held_out_predictions(inputs, labels, 3, lambda k: spaces.nearest("inputs", k))
    product_of_powers = np.prod(
        [np.exp(logs) ** weight for logs, weight in zip(models, pool_weights(models, labels), strict=True)], axis=0
    )
    np.testing.assert_allclose(
        np.exp(pool), product_of_powers / product_of_powers.sum(axis=1, keepdims=True), rtol=1e-9
    )
    assert log_loss(pool, labels) <= min(log_loss(logs, labels) for logs in models) + 1e-9


def test_predictions_that_a_run_brings_are_used_as_they_are():
    inputs, labels = clouds()
    known = np.log(np.random.default_rng(0).dirichlet(np.ones(3), len(labels)))
    assert held_out_pool(labels, 3, SampleContext(inputs=inputs, held_out=known)) is known
    assert held_out_pool(labels, 3, SampleContext(held_out=known)) is known


def test_without_inputs_there_is_no_pool():
    inputs, labels = clouds()
    assert held_out_pool(labels, 3, SampleContext()) is None
    assert held_out_pool(labels, 3, SampleContext(features=inputs)) is None
    assert not SampleContext(features=inputs).can_hold_out
    assert pool([], labels) is None
    assert held_out_pool(np.zeros(len(inputs), dtype=np.int64), 3, SampleContext(inputs=inputs)) is None


def test_labels_are_predicted_once_for_the_same_labels(monkeypatch):
    inputs, labels = clouds()
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        return [log_softmax(np.eye(3)[labels], axis=1)]

    monkeypatch.setattr(pooling, "held_out_predictions", counted)
    spaces = SampleContext(inputs=inputs)
    first = held_out_pool(labels, 3, spaces)
    assert held_out_pool(labels.copy(), 3, spaces) is first
    assert len(calls) == 1
    held_out_pool((labels + 1) % 3, 3, spaces)
    held_out_pool(labels, 4, spaces)
    assert len(calls) == 3


@pytest.mark.parametrize("data", [clouds, documents])
def test_inputs_that_are_not_finite_are_refused_by_name(data):
    inputs, labels = data()
    inputs[4] = np.nan
    spaces = SampleContext(inputs=inputs, names={"inputs": "run/inputs.npy"})
    with pytest.raises(InputError, match=r"run/inputs\.npy of sample 4 are not finite"):
        held_out_pool(labels, 3, spaces)


def test_too_few_samples_train_nothing(monkeypatch):
    monkeypatch.setattr(held_out_models, "assign_folds", lambda *_: pytest.fail("folds were made"))
    inputs, labels = clouds()
    few = slice(held_out_models.FEWEST_SAMPLES - 1)
    assert held_out_pool(labels[few], 3, SampleContext(inputs=inputs[few])) is None


def test_models_of_several_kinds_of_inputs_are_pooled():
    predictions, labels = made_up(0, models=5)
    together = pool(predictions, labels)
    assert (
        log_loss(together, labels)
        <= min(log_loss(pool(predictions[:2], labels), labels), log_loss(pool(predictions[2:], labels), labels)) + 1e-9
    )
    np.testing.assert_allclose(np.exp(together).sum(axis=1), 1)
