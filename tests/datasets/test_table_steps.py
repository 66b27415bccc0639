"""Preparation steps, compared with other implementations, and without statistics of the test split."""

import numpy as np
import pytest
from scipy import stats
from scipy.stats import mstats

from errata.datasets.table_datasets import (
    clip_fences,
    clip_quantiles,
    principal_components,
    run_steps,
    standardise,
    stratified_split,
)


@pytest.fixture
def tables():
    rng = np.random.default_rng(3)
    mixed = rng.normal(size=(6, 6)) * [9, 5, 2, 1, 0.5, 0.1]
    return rng.standard_t(3, size=(211, 6)) @ mixed, rng.standard_t(3, size=(67, 6)) @ mixed


def quantiles(column, low, high):
    return mstats.mquantiles(column, [low / 100, high / 100], alphap=1, betap=1)


def test_columns_are_clipped_at_training_quantiles(tables):
    train, test = tables
    clipped, clipped_test = run_steps(train, test, [clip_quantiles(2, 98, others={4: (2, 95)})])
    for column in range(6):
        low, high = quantiles(train[:, column], 2, 95 if column == 4 else 98)
        np.testing.assert_allclose(clipped[:, column], np.minimum(np.maximum(train[:, column], low), high))
        np.testing.assert_allclose(clipped_test[:, column], np.minimum(np.maximum(test[:, column], low), high))


def test_fences_are_one_and_a_half_ranges_beyond_the_quartiles(tables):
    train, test = tables
    _, clipped = run_steps(train, test, [clip_fences(others={0: (1, 99)})])
    low, high = quantiles(train[:, 0], 1, 99)
    np.testing.assert_allclose(clipped[:, 0], np.minimum(np.maximum(test[:, 0], low), high))
    for column in range(1, 6):
        reach = 1.5 * stats.iqr(train[:, column])
        low, high = quantiles(train[:, column], 25, 75)
        inside = (test[:, column] >= low - reach) & (test[:, column] <= high + reach)
        np.testing.assert_array_equal(clipped[inside, column], test[inside, column])
        beyond = np.where(test[~inside, column] > high, high + reach, low - reach)
        np.testing.assert_allclose(clipped[~inside, column], beyond)


def test_columns_are_standardised_and_a_constant_column_becomes_0(tables):
    train, test = (np.column_stack([table, np.full(len(table), 0.1)]) for table in tables)
    scaled, scaled_test = run_steps(train, test, [standardise])
    np.testing.assert_allclose(scaled[:, :-1], stats.zscore(train[:, :-1]))
    np.testing.assert_allclose(scaled_test[:, 2], (test[:, 2] - train[:, 2].mean()) / train[:, 2].std())
    np.testing.assert_allclose(scaled_test[:, -1], 0, atol=1e-15)


def test_as_few_components_as_needed_are_used(tables):
    train, test = tables
    _, projected = run_steps(train, test, [principal_components(0.9)])
    variances, directions = np.linalg.eigh(np.cov(train.T))
    shares = np.cumsum(variances[::-1]) / variances.sum()
    count = int(np.searchsorted(shares, 0.9)) + 1
    assert projected.shape == (67, count)
    expected = (test - train.mean(axis=0)) @ directions[:, ::-1][:, :count]
    np.testing.assert_allclose(np.abs(projected), np.abs(expected), atol=1e-9)


@pytest.mark.parametrize(
    "step",
    [clip_quantiles(1, 99), clip_fences(), standardise, principal_components(0.9)],
    ids=["quantiles", "fences", "scale", "components"],
)
def test_no_step_uses_the_test_split(tables, step):
    train, test = tables
    disturbed = test.copy()
    disturbed[::2] = 1e6
    before, after = run_steps(train, test, [step]), run_steps(train, disturbed, [step])
    np.testing.assert_array_equal(before[0], after[0])
    np.testing.assert_array_equal(before[1][1::2], after[1][1::2])


def test_a_step_is_fitted_on_the_output_of_the_step_before(tables):
    train, test = tables
    both, _ = run_steps(train, test, [clip_quantiles(10, 90), standardise])
    np.testing.assert_allclose(both.std(axis=0), 1)


def test_tables_are_not_changed_in_place(tables):
    train, test = tables
    copies = train.copy(), test.copy()
    run_steps(train, test, [clip_quantiles(10, 90), standardise])
    np.testing.assert_array_equal(train, copies[0])
    np.testing.assert_array_equal(test, copies[1])


def test_a_split_has_the_requested_size_and_is_stratified():
    labels = np.repeat([0, 1, 2], [1655, 295, 176])
    train, test = stratified_split(labels, 1700)
    assert (len(train), len(test)) == (1700, 426)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(2126))
    share = np.bincount(labels) * 1700 / 2126
    assert np.abs(np.bincount(labels[train]) - share).max() < 1
    np.testing.assert_array_equal(train, stratified_split(labels, 1700)[0])
