from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import load_digits
from torch import nn

from errata import InputError
from errata.core.noise import symmetric
from errata.training.model_inputs import TableInputs
from errata.training.models import mlp
from errata.training.recipes import Recipe
from errata.training.trials import (
    PATIENCE,
    Candidate,
    ValidationSplit,
    accuracy_trials,
    loss_trial,
    lowest_possible_loss,
    rolling_mean,
    stratified_sample,
)

CPU = torch.device("cpu")
SAMPLES, CLASSES = 60, 3


@pytest.fixture
def data():
    """A table (N, 4) whose first column is the number of the sample, and labels (N,) that depend on the second."""
    rng = np.random.default_rng(0)
    labels = np.arange(SAMPLES) % CLASSES
    inputs = rng.normal(size=(SAMPLES, 4)).astype(np.float32)
    inputs[:, 0] = np.arange(SAMPLES) / SAMPLES
    inputs[:, 1] += 2 * labels
    return TableInputs(inputs), labels


# The epoch.


def best_epoch(accuracies):
    return int(np.argmax(rolling_mean(np.asarray(accuracies)))) + 1


def test_the_rolling_mean_by_hand():
    curve = [0.0, 0.5, 1.0, *[0.5] * 7, 1.0, 1.0]
    expected = [0, 0.25, 0.5, 2 / 4, 2.5 / 5, 3 / 6, 3.5 / 7, 4 / 8, 4.5 / 9, 5 / 10, 6 / 10, 6.5 / 10]
    np.testing.assert_allclose(rolling_mean(np.array(curve)), expected, atol=1e-12)
    assert best_epoch(curve) == 12


@given(arrays(float, st.integers(1, 40), elements=st.floats(0, 1)))
def test_the_rolling_mean_equals_that_of_pandas(curve):
    expected = pd.Series(curve).rolling(10, min_periods=1).mean()
    np.testing.assert_allclose(rolling_mean(curve), expected, atol=1e-9)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=40))
def test_the_chosen_epoch_is_the_first_best_in_exact_arithmetic(right):
    """Twenty validation samples: means are compared as fractions of whole numbers."""
    from fractions import Fraction

    means = [Fraction(sum(right[max(0, end - 10) : end]), min(end, 10)) for end in range(1, len(right) + 1)]
    assert best_epoch(np.array(right) / 20) == means.index(max(means)) + 1


def test_a_single_good_epoch_does_not_win():
    curve = np.concatenate([np.linspace(0.2, 0.6, 30), np.full(30, 0.7), np.linspace(0.7, 0.4, 30)])
    curve[5] = 1.0
    assert best_epoch(curve) == 40  # the first whose ten last epochs were all of the best stretch


def test_epochs_of_equal_accuracy_give_the_first():
    assert best_epoch(np.full(50, 0.1)) == 1


# The split.


@given(
    arrays(np.int64, st.integers(2, 80), elements=st.integers(0, 4)),
    st.floats(0.05, 0.95),
    st.integers(0, 2**32),
)
def test_the_split_is_stratified(labels, share, seed):
    if not 1 <= round(share * len(labels)) < len(labels):
        with pytest.raises(InputError, match="leaves none"):
            stratified_sample(labels, share, seed)
        return
    rows = stratified_sample(labels, share, seed)
    assert len(rows) == round(share * len(labels))
    assert (np.diff(rows) > 0).all()
    actual = len(rows) / len(labels)
    for number in range(5):
        assert abs(np.sum(labels[rows] == number) - actual * np.sum(labels == number)) < 1 + 1e-9


def test_the_split_is_fixed_by_the_seed():
    labels = np.arange(100) % 4
    np.testing.assert_array_equal(stratified_sample(labels, 0.2, 5), stratified_sample(labels, 0.2, 5))
    assert (stratified_sample(labels, 0.2, 5) != stratified_sample(labels, 0.2, 6)).any()


# Trials by accuracy.


class Spy(nn.Module):
    """A network that stores the rows of every pass, by training mode."""

    def __init__(self):
        super().__init__()
        self.network = mlp([4, 8, CLASSES])
        self.seen = {True: [], False: []}

    def forward(self, x):
        self.seen[self.training].append((x[:, 0] * SAMPLES).round().long().tolist())
        return self.network(x)


def test_training_and_validation_rows_are_disjoint_and_only_validation_rows_are_evaluated(data):
    spies = []

    def build():
        spies.append(Spy())
        return spies[-1]

    table, labels = data
    reported = []
    recipe = Recipe(epochs=15, batch_size=16, learning_rate=0.01, seed=3)
    split = ValidationSplit.draw(labels, CLASSES, 0.25, seed=3)
    (trial,) = accuracy_trials(split, table, build, [recipe], 15, CPU, reported.append)
    (spy,) = spies
    trained_on = {row for rows in spy.seen[True] for row in rows}
    judged = spy.seen[False]
    held_out = stratified_sample(labels, 0.25, 3).tolist()
    assert len(judged) == 15
    assert all(rows == held_out for rows in judged)
    assert trained_on == set(range(SAMPLES)) - set(held_out)
    assert sum(reported) == 15
    assert trial.recipe == replace(recipe, epochs=trial.recipe.epochs)


def test_the_epoch_of_a_module_is_chosen_by_accuracy_on_given_labels(data):
    """Oracle: a plain training loop, evaluated after every epoch on the given labels of the split."""
    table, labels = data
    noisy = symmetric(labels, 0.3, num_classes=CLASSES, seed=1).labels
    recipe = Recipe(epochs=40, batch_size=16, learning_rate=0.02, seed=2)
    split = ValidationSplit.draw(noisy, CLASSES, 0.2, seed=2)
    (trial,) = accuracy_trials(split, table, lambda: mlp([4, 8, CLASSES]), [recipe], 40, CPU, lambda _: None)
    held_out = stratified_sample(noisy, 0.2, 2)
    rows = torch.from_numpy(np.setdiff1d(np.arange(SAMPLES), held_out))
    given_labels = torch.from_numpy(noisy)
    torch.manual_seed(2)
    model = mlp([4, 8, CLASSES])
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    order = torch.Generator().manual_seed(2)
    accuracies = []
    for _ in range(40):
        for batch in torch.split(rows[torch.randperm(len(rows), generator=order)], 16):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(table.values[batch]), given_labels[batch]).backward()
            optimizer.step()
        predicted = model(table.values[held_out]).argmax(dim=1)
        accuracies.append((predicted == given_labels[held_out]).double().mean().item())
    expected = pd.Series(accuracies).rolling(10, min_periods=1).mean().round(12)
    assert trial.recipe.epochs == expected.idxmax() + 1
    assert trial.accuracy == pytest.approx(expected.max())


# Trials by log loss.


def test_the_lowest_possible_loss_is_below_that_of_a_run_that_slows_down():
    rng = np.random.default_rng(0)
    for pace, floor in ((0.05, 1.0), (0.3, 0.2)):
        losses = floor + np.exp(-pace * np.arange(100))
        for epochs in range(1, 100):
            assert lowest_possible_loss(losses[:epochs].tolist(), 100) <= losses.min()
    assert lowest_possible_loss((1 + np.exp(-0.2 * np.arange(60))).tolist(), 100) > 0.99  # the bound is tight
    assert lowest_possible_loss(rng.random(12).tolist(), 100) == -np.inf  # too few epochs


def test_a_network_that_cannot_win_is_given_up():
    inputs, labels = load_digits(return_X_y=True)
    recipe = Recipe(100, 16, 2e-4, 1e-3, widths=(128, 64))  # learns slowly
    candidate = Candidate("mlp", TableInputs((inputs[:500] / 16).astype(np.float32)), None, recipe)
    split = ValidationSplit.draw(labels[:500], 10, 0.2, seed=0)
    epochs, few = [], []
    _, loss = loss_trial(candidate, split, CPU, epochs.append)
    assert loss_trial(candidate, split, CPU, epochs.append, to_beat=1.01 * loss)[1] == loss
    loss_trial(candidate, split, CPU, few.append, to_beat=loss / 2)
    assert 2 * PATIENCE < len(few) < len(epochs) / 2
