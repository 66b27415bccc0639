from fractions import Fraction
from itertools import permutations
from math import ceil, inf, nan

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from errata.core import metrics
from errata.core.metrics import (
    METRICS,
    auprc,
    auroc,
    budget_curve,
    fnr,
    ideal_fnr,
    lift,
    precision,
    random_fnr,
    recall,
    residual_noise,
)
from errata.errors import InputError

few_values = st.integers(-3, 3).map(float) | st.sampled_from([inf, -inf])


@st.composite
def scored(draw, max_size=30, values=few_values, both=False):
    truth = draw(st.lists(st.booleans(), min_size=1 + both, max_size=max_size).filter(any))
    if both:
        truth[0], truth[-1] = True, False
    scores = draw(st.lists(values, min_size=len(truth), max_size=len(truth)))
    return np.array(scores), np.array(truth)


def found_in_order(truth, order, inspected):
    return sum(bool(truth[i]) for i in order[:inspected])


def mean_found_over_all_tie_orders(scores, truth, inspected):
    """The mean over all permutations of the rows; each orders ties differently."""
    shuffles = list(permutations(range(len(scores))))
    total = sum(found_in_order(truth, sorted(shuffle, key=lambda i: -scores[i]), inspected) for shuffle in shuffles)
    return Fraction(total, len(shuffles))


@settings(deadline=None, max_examples=40)
@given(scored(max_size=6))
def test_expectation_is_the_mean_over_every_order_of_the_ties(case):
    scores, truth = case
    samples, errors = len(truth), int(truth.sum())
    curve = budget_curve(scores, truth)
    for inspected in range(samples + 1):
        found = mean_found_over_all_tie_orders(scores, truth, inspected)
        expected = {
            "fnr": 1 - found / errors,
            "residual_noise": (errors - found) / samples,
            "recall": found / errors,
        }
        if inspected:
            expected["precision"] = found / inspected
            expected["lift"] = (found / inspected) / Fraction(errors, samples)
        for name, value in expected.items():
            assert METRICS[name](scores, truth, inspected) == pytest.approx(float(value), abs=1e-12)
            assert curve[name][inspected] == pytest.approx(float(value), abs=1e-12)


def test_a_worked_example_with_ties():
    scores = [3.0, 2.0, 2.0, 2.0, 1.0]
    truth = [False, True, True, False, True]
    # Two inspected: the first, and one of the three tied, of which two are errors.
    assert fnr(scores, truth, 2) == pytest.approx((3 - 2 / 3) / 3)
    assert residual_noise(scores, truth, 2) == pytest.approx((3 - 2 / 3) / 5)
    assert recall(scores, truth, 2) == pytest.approx((2 / 3) / 3)
    assert precision(scores, truth, 2) == pytest.approx((2 / 3) / 2)
    assert lift(scores, truth, 2) == pytest.approx((2 / 3) / 2 / (3 / 5))


@settings(deadline=None, max_examples=80)
@given(scored(both=True), st.randoms(use_true_random=False), st.floats(0.0, 1.0))
def test_the_order_of_rows_changes_no_metric(case, random, budget):
    scores, truth = case
    order = random.sample(range(len(scores)), len(scores))
    for name, metric in METRICS.items():
        assert metric(scores[order], truth[order]) == pytest.approx(metric(scores, truth), abs=1e-12), name
    assert fnr(scores[order], truth[order], budget) == pytest.approx(fnr(scores, truth, budget), abs=1e-12)
    pd.testing.assert_frame_equal(budget_curve(scores[order], truth[order]), budget_curve(scores, truth))


@settings(deadline=None, max_examples=80)
@given(scored(both=True, values=st.integers(-40, 40).map(float)))
def test_a_strictly_increasing_transform_changes_no_metric(case):
    scores, truth = case
    for transform in (np.exp, lambda s: s**3, lambda s: 5 * s - 7, lambda s: np.where(s == scores.max(), inf, s)):
        for name, metric in METRICS.items():
            assert metric(transform(scores), truth) == metric(scores, truth), name


@settings(deadline=None, max_examples=80)
@given(scored())
def test_fnr_never_rises_with_the_budget(case):
    curve = budget_curve(*case)
    assert (np.diff(curve.fnr) <= 1e-12).all()
    assert curve.fnr.iloc[0] == 1
    assert curve.fnr.iloc[-1] == 0


@settings(deadline=None, max_examples=80)
@given(scored())
def test_every_row_of_the_curve_is_the_metric_at_that_budget(case):
    scores, truth = case
    curve = budget_curve(scores, truth)
    assert list(curve.columns[:2]) == ["inspected", "budget"]
    names = curve.columns[2:]
    assert set(names) >= {"fnr", "residual_noise", "precision", "recall", "lift"}
    assert curve.inspected.tolist() == list(range(len(truth) + 1))
    for inspected in range(1, len(truth) + 1):
        assert curve.budget[inspected] == inspected / len(truth)
        for name in names:
            assert curve[name][inspected] == METRICS[name](scores, truth, inspected)
            assert curve[name][inspected] == METRICS[name](scores, truth, float(curve.budget[inspected]))
    assert curve.loc[0, ["precision", "lift"]].isna().all()


@settings(deadline=None, max_examples=80)
@given(scored(both=True))
def test_metrics_agree_with_each_other(case):
    scores, truth = case
    rate = truth.mean()
    for inspected in range(1, len(truth) + 1):
        missed = fnr(scores, truth, inspected)
        assert recall(scores, truth, inspected) == pytest.approx(1 - missed)
        assert residual_noise(scores, truth, inspected) == pytest.approx(missed * rate)
        assert lift(scores, truth, inspected) == pytest.approx(precision(scores, truth, inspected) / rate)
    assert fnr(scores, truth) == pytest.approx(1 - precision(scores, truth)), "as many inspected as there are errors"


@settings(deadline=None, max_examples=50)
@given(st.lists(st.booleans(), min_size=1, max_size=40).filter(any))
def test_ideal_and_random_detectors_have_their_closed_forms(truth):
    truth = np.array(truth)
    ideal, clueless = budget_curve(truth.astype(float), truth), budget_curve(np.zeros(len(truth)), truth)
    np.testing.assert_allclose(ideal.fnr, ideal_fnr(ideal.budget.to_numpy(), truth.mean()), atol=1e-12)
    np.testing.assert_allclose(clueless.fnr, random_fnr(clueless.budget.to_numpy()), atol=1e-12)
    assert fnr(truth, truth) == 0
    assert fnr(np.zeros(len(truth)), truth) == pytest.approx(1 - truth.mean())


def test_closed_forms_take_scalars_and_arrays():
    assert ideal_fnr(0.1, 0.2) == 0.5
    assert ideal_fnr(0.2, 0.2) == 0
    assert ideal_fnr(1, 0.2) == 0
    np.testing.assert_allclose(ideal_fnr([0.0, 0.1, 0.4], 0.2), [1, 0.5, 0])
    np.testing.assert_allclose(ideal_fnr(0.1, np.array([0.1, 0.2])), [0, 0.5])
    assert random_fnr(0.25) == 0.75
    assert isinstance(random_fnr(0.25), float)
    assert isinstance(ideal_fnr(0.25, 0.5), float)
    np.testing.assert_allclose(random_fnr([0, 1]), [1, 0])


@settings(deadline=None, max_examples=80)
@given(scored(both=True))
def test_areas_agree_with_pair_counting_and_scikit_learn(case):
    scores, truth = case
    pairs = [
        Fraction(1) if wrong > right else Fraction(int(wrong == right), 2)
        for wrong in scores[truth]
        for right in scores[~truth]
    ]
    assert auroc(scores, truth) == pytest.approx(float(sum(pairs) / len(pairs)), abs=1e-12)
    steps, seen_before = Fraction(0), 0
    for threshold in sorted(set(scores), reverse=True):
        inspected = scores >= threshold
        found = int((inspected & truth).sum())
        steps += Fraction(found - seen_before, int(truth.sum())) * Fraction(found, int(inspected.sum()))
        seen_before = found
    assert auprc(scores, truth) == pytest.approx(float(steps), abs=1e-12)
    if np.isfinite(scores).all():
        assert auroc(scores, truth) == pytest.approx(roc_auc_score(truth, scores))
        assert auprc(scores, truth) == pytest.approx(average_precision_score(truth, scores))


def test_the_budget_defaults_to_the_number_of_errors():
    scores, truth = np.arange(10.0), np.array([0, 0, 0, 1, 0, 0, 0, 1, 1, 0], bool)
    assert fnr(scores, truth) == fnr(scores, truth, 3) == pytest.approx(1 / 3)


@settings(deadline=None)
@given(st.integers(1, 100_000), st.data())
def test_a_fraction_of_a_whole_number_is_exactly_that_number(samples, data):
    inspected = data.draw(st.integers(0, samples))
    assert metrics.budget_count(inspected / samples, samples) == inspected


@settings(deadline=None)
@given(st.integers(1, 10_000), st.integers(0, 1000))
def test_a_fraction_of_three_decimals_is_rounded_up_exactly(samples, thousandths):
    assert metrics.budget_count(thousandths / 1000, samples) == ceil(Fraction(thousandths, 1000) * samples)


@pytest.mark.parametrize(
    ("budget", "inspected"),
    [(0.1, 3), (np.float32(0.1), 3), (np.float64(0.7), 21), (0.101, 4), (1.0, 30), (0.0, 0), (1, 1), (np.int8(30), 30)],
)
def test_a_float_is_a_fraction_and_an_int_a_count(budget, inspected):
    truth = np.arange(30) < 15
    assert recall(np.zeros(30), truth, budget) == pytest.approx(inspected / 30)


@pytest.mark.parametrize(
    ("budget", "sentence"),
    [
        (True, "must be a count"),
        (np.True_, "must be a count"),
        ("3", "must be a count"),
        (-1, "outside 0..3"),
        (4, "outside 0..3"),
        (np.int64(4), "outside 0..3"),
        (-0.1, "outside 0..1"),
        (2.0, "a number of samples is an int"),
        (nan, "outside 0..1"),
    ],
)
def test_an_invalid_budget_is_refused(budget, sentence):
    with pytest.raises(InputError, match=sentence):
        fnr([3.0, 2.0, 1.0], [True, False, False], budget)


UNKNOWN_TRUTHS = {
    "float with NaN": np.array([1.0, 0.0, nan, 1.0, nan]),
    "object with None": np.array([True, False, None, True, None], object),
    "list with None": [True, False, None, True, None],
    "object with NA": np.array([True, False, pd.NA, True, nan], object),
    "nullable boolean": pd.array([True, False, None, True, None], dtype="boolean"),
    "series": pd.Series([True, False, None, True, None], dtype="boolean", index=[9, 8, 7, 6, 5]),
    "nullable integer": pd.array([1, 0, None, 1, None], dtype="Int64"),
}


@pytest.mark.parametrize("truth", UNKNOWN_TRUTHS.values(), ids=UNKNOWN_TRUTHS.keys())
def test_unknown_truth_is_left_out(truth):
    scores, known = np.array([1.0, 3.0, 5.0, 3.0, 4.0]), [0, 1, 3]
    subset = scores[known], np.array([True, False, True])
    for metric in METRICS.values():
        assert metric(scores, truth) == metric(*subset)
    for budget in (0, 1, 2, 3, 0.0, 0.5, 1.0):
        assert fnr(scores, truth, budget) == fnr(*subset, budget)
    pd.testing.assert_frame_equal(budget_curve(scores, truth), budget_curve(*subset))
    with pytest.raises(InputError, match=r"outside 0\.\.3"):
        fnr(scores, truth, 4)


@pytest.mark.parametrize(
    ("scores", "truth", "sentence"),
    [
        ([1.0, 2.0], [True], "2 scores but truth of 1 samples"),
        ([1.0, 2.0], [None, None], "unknown for every sample"),
        ([1.0, 2.0], [False, None], "no error"),
        ([1.0, nan], [True, False], "score of sample 1 is NaN"),
        ([1.0, 2.0], [True, 2], "truth of sample 1 is 2"),
        ([1.0, 2.0], [0.5, 1.0], "truth of sample 0 is 0.5"),
        ([1.0, 2.0], ["True", None], "truth of sample 0 is 'True'"),
        ([1.0, 2.0], [[True], [False]], "shape"),
        ([[1.0, 2.0]], [True, False], "shape"),
        ([], [], "empty"),
    ],
)
def test_bad_scores_and_truth_are_refused_by_every_metric(scores, truth, sentence):
    for metric in (*METRICS.values(), budget_curve):
        with pytest.raises(InputError, match=sentence):
            metric(scores, truth)


def test_undefined_metrics_are_refused():
    with pytest.raises(InputError, match="precision is undefined"):
        precision([1.0, 2.0], [True, False], 0)
    with pytest.raises(InputError, match="lift is undefined"):
        lift([1.0, 2.0], [True, False], 0.0)
    with pytest.raises(InputError, match="every label is an error"):
        auroc([1.0, 2.0], [True, True])


def test_inputs_are_not_written_to():
    scores, truth = np.array([1.0, 2.0, 2.0]), np.array([True, False, True])
    scores.flags.writeable = truth.flags.writeable = False
    for metric in METRICS.values():
        metric(scores, truth)
    budget_curve(scores, truth)


def test_a_new_metric_is_one_function(monkeypatch):
    monkeypatch.setattr(metrics, "METRICS", dict(METRICS))
    monkeypatch.setattr(metrics, "_AT_BUDGET", dict(metrics._AT_BUDGET))

    @metrics.budget_metric
    def misses(inspection):
        """How many errors are missed."""
        return inspection.errors - inspection.found

    assert misses([2.0, 1.0], [False, True], 1) == metrics.METRICS["misses"]([2.0, 1.0], [False, True], 1) == 1
    assert budget_curve([2.0, 1.0], [False, True]).misses.tolist() == [1, 1, 0]
    assert "How many errors are missed." in misses.__doc__
    with pytest.raises(InputError, match="already a metric named misses"):
        metrics.budget_metric(misses)
