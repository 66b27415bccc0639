"""Exact bounds are compared with an enumeration of all samples, and with scipy's hypergeometric distribution."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from errata.core.exact_bounds import (
    Sampled,
    at_most,
    checks_needed,
    fewest_wrong,
    fewest_wrong_of_two,
    most_wrong,
    most_wrong_of_two,
)

sampled = st.integers(1, 60).flatmap(
    lambda size: st.integers(0, size).flatmap(
        lambda checked: st.builds(Sampled, st.just(size), st.just(checked), st.integers(0, checked))
    )
)


@pytest.mark.parametrize("size", [1, 2, 5, 7])
def test_the_probability_is_that_of_all_samples(size):
    for checked in range(size + 1):
        draws = list(combinations(range(size), checked))
        for number in range(size + 1):
            counts = np.array([sum(row < number for row in draw) for draw in draws])
            for wrong in range(checked + 1):
                assert at_most(size, checked, wrong, number) == pytest.approx((counts <= wrong).mean())


@pytest.mark.parametrize("risk", [0.025, 0.1])
@pytest.mark.parametrize(("size", "checked"), [(12, 5), (40, 13), (300, 30)])
def test_bounds_keep_their_promise_for_every_true_number(size, checked, risk):
    wrong = np.arange(checked + 1)
    high, low = most_wrong(size, checked, wrong, risk), fewest_wrong(size, checked, wrong, risk)
    for number in range(size + 1):
        weights = hypergeom.pmf(wrong, size, number, checked)
        assert weights[high < number].sum() <= risk + 1e-12
        assert weights[low > number].sum() <= risk + 1e-12


@given(sampled, st.floats(0.001, 0.4))
def test_bounds_respect_the_facts_and_each_other(part, risk):
    low, high = int(fewest_wrong(*part, risk)), int(most_wrong(*part, risk))
    assert part.wrong <= low <= high <= part.size - part.checked + part.wrong
    assert at_most(part.size, part.checked, part.wrong, high) > risk or high == part.wrong
    if high < part.size - part.checked + part.wrong:
        assert at_most(part.size, part.checked, part.wrong, high + 1) <= risk


@given(sampled, st.integers(0, 10))
def test_the_checks_needed_are_the_fewest_that_suffice(part, allowed):
    needed = checks_needed(*part, allowed, 0.05)

    def left(more):
        return int(most_wrong(part.size, part.checked + more, part.wrong, 0.05)) - part.wrong

    assert left(needed) <= allowed
    assert needed == 0 or left(needed - 1) > allowed


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 25), st.integers(1, 25), st.data())
def test_two_sets_keep_their_promise_for_every_pair_of_numbers(first, second, data):
    checked = data.draw(st.integers(0, first)), data.draw(st.integers(0, second))
    truth = data.draw(st.integers(0, first)), data.draw(st.integers(0, second))
    missed_above = missed_below = 0.0
    for one in range(checked[0] + 1):
        for other in range(checked[1] + 1):
            weight = hypergeom.pmf(one, first, truth[0], checked[0]) * hypergeom.pmf(
                other, second, truth[1], checked[1]
            )
            parts = Sampled(first, checked[0], one), Sampled(second, checked[1], other)
            if weight > 0:
                missed_above += weight * (most_wrong_of_two(*parts, 0.1) < sum(truth))
                missed_below += weight * (fewest_wrong_of_two(*parts, 0.1) > sum(truth))
    assert missed_above <= 0.1 + 1e-9
    assert missed_below <= 0.1 + 1e-9


def test_two_sets_are_narrower_than_one_if_they_differ():
    suspicious, others = Sampled(1000, 30, 29), Sampled(4000, 120, 1)
    together = Sampled(5000, 150, 30)
    width = most_wrong_of_two(suspicious, others, 0.025) - fewest_wrong_of_two(suspicious, others, 0.025)
    assert width < 0.6 * int(most_wrong(*together, 0.025) - fewest_wrong(*together, 0.025))


def test_the_grid_of_numbers_in_large_sets_is_on_the_safe_side():
    first, second = Sampled(5000, 40, 20), Sampled(9000, 60, 3)
    product = np.exp(-11.143286781877796 / 2)  # of two p-values: the quantile 0.975 of chi-squared with 4 degrees
    numbers = np.arange(20, 4981)
    p_value = at_most(*first, numbers)
    plausible = p_value > product
    exact = (numbers[plausible] + most_wrong(*second, product / p_value[plausible])).max()
    assert exact <= most_wrong_of_two(first, second, 0.025) <= exact + 5000 / 400 + 1
