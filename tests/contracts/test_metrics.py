"""Properties of every registered metric; a new one is checked without a change here."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from errata.core.metrics import METRICS, budget_curve
from errata.errors import InputError

every_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
samples = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=3, max_size=12).filter(
    lambda pairs: 0 < sum(wrong for _, wrong in pairs) < len(pairs)
)


def columns(pairs):
    return np.array([score for score, _ in pairs], dtype=float), np.array([wrong for _, wrong in pairs])


@every_metric
@given(samples, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter_for_tied_scores(metric, pairs, random):
    shuffled = pairs.copy()
    random.shuffle(shuffled)
    assert metric(*columns(pairs)) == pytest.approx(metric(*columns(shuffled)), abs=1e-12)


@every_metric
@given(samples)
def test_only_the_order_of_scores_matters(metric, pairs):
    scores, truth = columns(pairs)
    assert metric(scores, truth) == pytest.approx(metric(np.exp(scores) * 7 - 2, truth), abs=1e-12)


@every_metric
@given(samples)
def test_unknown_truth_is_left_out(metric, pairs):
    scores, truth = columns(pairs)
    more_scores = np.concatenate([scores, [100.0, -100.0]])
    more_truth = np.concatenate([truth.astype(float), [np.nan, np.nan]])
    assert metric(more_scores, more_truth) == pytest.approx(metric(scores, truth), abs=1e-12)


@every_metric
def test_the_input_is_unchanged_and_the_result_a_plain_number(metric):
    scores, truth = np.array([3.0, 1.0, 2.0, 1.0]), np.array([True, False, False, True])
    before = scores.copy()
    scores.flags.writeable = truth.flags.writeable = False
    assert isinstance(metric(scores, truth), float)
    np.testing.assert_array_equal(scores, before)


@every_metric
@pytest.mark.parametrize(
    ("scores", "truth"),
    [([1.0, np.nan], [True, False]), ([1.0, 2.0], [True]), ([1.0, 2.0], [False, False]), ([], []), ([[1.0]], [True])],
)
def test_bad_input_is_refused(metric, scores, truth):
    with pytest.raises(InputError):
        metric(np.array(scores), np.array(truth, dtype=bool))


@every_metric
def test_is_described(metric):
    assert metric.__doc__


def test_every_metric_at_a_budget_is_a_column_of_the_curve():
    scores, truth = np.array([3.0, 1.0, 2.0, 1.0]), np.array([True, False, False, True])
    curve = budget_curve(scores, truth)
    for name in set(METRICS) & set(curve.columns):
        for inspected in range(1, 5):
            assert curve[name][inspected] == pytest.approx(METRICS[name](scores, truth, inspected))
