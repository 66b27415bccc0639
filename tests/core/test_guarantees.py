"""Intervals are compared with an enumeration of all orders of small reviews, and with ppi-python."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ppi_py import ppi_mean_pointestimate
from scipy.stats import binom

from errata.core.betting_bounds import LOWER_BETS, UPPER_BETS, RandomDraws, highest_total, log_wealth, lowest_total
from errata.core.exact_bounds import fewest_wrong, most_wrong
from errata.core.guarantees import (
    assistance_factor,
    check_verdicts,
    count_wrong,
    expected_wrong,
    fair_part,
    random_draws,
)
from errata.core.random_part import review_queue
from errata.errors import InputError


def ranked_errors(samples, rate, seed=0, noise=1.0):
    """p_wrong, descending, and 0 or 1 per sample: errors that p_wrong predicts with some noise."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(samples) < rate
    scores = 3.0 * wrong + noise * rng.normal(size=samples)
    order = np.argsort(-scores)
    return 1 / (1 + np.exp(2 - 2 * scores[order])), wrong[order].astype(np.int64)


@st.composite
def reviews(draw):
    samples = draw(st.integers(3, 40))
    p_wrong, wrong = ranked_errors(samples, draw(st.floats(0, 1)), draw(st.integers(0, 99)))
    count = draw(st.integers(0, samples))
    queue = review_queue(np.arange(samples), draw(st.integers(0, 99)), draw(st.sampled_from([10, 2, 1])))
    rows = queue.rows[:count]
    verdicts = np.where(draw(st.booleans()) & (np.arange(count) % 5 == 2), -1, wrong[rows])
    return p_wrong, rows, verdicts, queue.at_random[:count]


@settings(max_examples=60, deadline=None)
@given(reviews())
def test_intervals_respect_the_facts(review):
    _, _, verdicts, at_random = review
    count = count_wrong(*review)
    assert count.fewest == (verdicts == 1).sum()
    assert count.most == len(review[0]) - (verdicts == 0).sum()
    assert count.fewest <= count.low <= count.expected <= count.high <= count.most
    assert count.fewest <= count.low_any_time <= count.high_any_time <= count.most
    assert count.checks == at_random.sum()


@settings(max_examples=40, deadline=None)
@given(reviews())
def test_an_interval_for_any_time_only_shrinks(review):
    p_wrong, rows, verdicts, at_random = review
    previous = (0, len(p_wrong))
    for seen in range(len(rows) + 1):
        count = count_wrong(p_wrong, rows[:seen], verdicts[:seen], at_random[:seen])
        assert previous[0] <= count.low_any_time
        assert count.high_any_time <= previous[1] or count.low_any_time == count.high_any_time
        previous = (count.low_any_time, count.high_any_time)


def test_with_everything_judged_the_count_is_exact():
    p_wrong, wrong = ranked_errors(30, 0.3)
    queue = review_queue(np.arange(30), 1)
    count = count_wrong(p_wrong, queue.rows, wrong[queue.rows], queue.at_random)
    total = wrong.sum()
    assert (count.low, count.high, count.low_any_time, count.high_any_time) == (total,) * 4
    assert count.expected == total


def test_without_random_checks_only_facts_are_stated():
    count = count_wrong([0.9, 0.5, 0.1, 0.1], [0, 1], [1, 0], [False, False])
    assert (count.low, count.high, count.low_any_time, count.high_any_time) == (1, 3, 1, 3)
    assert count.expected == pytest.approx(1.2)


def test_an_unsure_verdict_widens_both_intervals():
    p_wrong, wrong = ranked_errors(200, 0.1)
    rows, at_random = np.arange(0, 200, 4), np.ones(50, dtype=bool)
    sure = count_wrong(p_wrong, rows, wrong[rows], at_random)
    unsure = count_wrong(p_wrong, rows, np.where(np.arange(50) < 5, -1, wrong[rows]), at_random)
    assert unsure.low <= sure.low < sure.high < unsure.high + 1
    assert unsure.low_any_time <= sure.low_any_time
    assert unsure.high_any_time >= sure.high_any_time


@pytest.mark.parametrize("truth", [(0, 0, 0, 0, 0, 0), (1, 0, 0, 0, 0, 0), (1, 0, 1, 0, 0, 1), (1,) * 6])
def test_any_time_coverage_over_all_orders(truth):
    """Every order of the draws is equally likely: the share of those that ever exclude the truth is the risk."""
    p_wrong, wrong = np.array([0.9, 0.8, 0.3, 0.2, 0.1, 0.05]), np.array(truth)
    missed_above = missed_below = 0
    orders = list(permutations(range(6)))
    for order in orders:
        rows = np.array(order)
        draws = random_draws(check_verdicts(p_wrong, rows, wrong[rows], np.ones(6, dtype=bool)))
        missed_above += log_wealth(draws, wrong.sum(), upper=True).max() >= -np.log(0.2)
        missed_below += log_wealth(draws, wrong.sum(), upper=False).max() >= -np.log(0.2)
    assert missed_above <= 0.2 * len(orders)
    assert missed_below <= 0.2 * len(orders)


@pytest.mark.parametrize("upper", [True, False])
def test_a_bet_is_fair_if_the_total_is_true(upper):
    """The mean wealth over all orders is 1 after every draw, also with targeted verdicts between the draws."""
    p_wrong, wrong = np.array([0.9, 0.8, 0.3, 0.2, 0.1]), np.array([1, 1, 0, 1, 0])
    wealth = []
    for order in permutations(range(5)):
        rows = list(order)[:2]
        rows.insert(1, next(row for row in range(5) if row not in rows[:1]))  # the next by rank
        if rows[1] == rows[2]:  # it was chosen before it could be drawn: the next of the order is drawn
            rows[2] = next(row for row in order if row not in rows[:2])
        review = check_verdicts(p_wrong, rows, wrong[rows], [True, False, True])
        wealth.append(np.exp(log_wealth(random_draws(review), 3, upper=upper)))
    assert np.mean(wealth, axis=0) == pytest.approx([1, 1])


def test_the_money_of_all_bets_is_one():
    assert sum(bet.weight for bet in UPPER_BETS) == pytest.approx(1)
    assert sum(bet.weight for bet in LOWER_BETS) == pytest.approx(1)


def test_wealth_is_the_product_of_bets_in_a_plain_loop():
    rng = np.random.default_rng(3)
    p_wrong, wrong = ranked_errors(50, 0.2)
    rows = rng.permutation(50)[:20]
    draws = random_draws(check_verdicts(p_wrong, rows, wrong[rows], np.ones(20, dtype=bool)))
    for upper, bets in ((True, UPPER_BETS), (False, LOWER_BETS)):
        total = 0.0
        for assistance, size, weight in bets:
            money, left, known = weight, list(range(50)), 0
            for row in rows.tolist():
                mean = (14 - known - assistance * p_wrong[left].sum()) / len(left)
                outcome = wrong[row] - assistance * p_wrong[row]
                if upper:
                    money *= 1 - size * (outcome - mean) / (1 - assistance * p_wrong.min() - mean)
                else:
                    money *= 1 + size * (outcome - mean) / (mean + assistance * p_wrong.max())
                left.remove(row)
                known += wrong[row]
            total += money
        assert log_wealth(draws, 14, upper=upper)[-1] == pytest.approx(np.log(total))


@given(st.integers(0, 99), st.booleans())
def test_wealth_is_monotone_in_the_total(seed, upper):
    p_wrong, wrong = ranked_errors(40, 0.3, seed)
    rows = np.random.default_rng(seed).permutation(40)[:15]
    draws = random_draws(check_verdicts(p_wrong, rows, wrong[rows], np.ones(15, dtype=bool)))
    low, high = int(wrong[rows].sum()), 40 - int((1 - wrong[rows]).sum())
    wealth = np.array([log_wealth(draws, total, upper=upper) for total in range(low, high + 1)])
    assert (np.diff(wealth, axis=0) * (1 if upper else -1) >= -1e-9).all()


def test_bisection_finds_what_a_search_of_all_totals_finds():
    p_wrong, wrong = ranked_errors(60, 0.2, 5)
    rows = np.random.default_rng(1).permutation(60)[:25]
    draws: RandomDraws = random_draws(check_verdicts(p_wrong, rows, wrong[rows], np.ones(25, dtype=bool)))
    totals = range(int(wrong[rows].sum()), 60 - int((1 - wrong[rows]).sum()) + 1)
    kept = [t for t in totals if max(log_wealth(draws, t, upper=True)) < np.log(20)]
    assert highest_total(draws, totals[0], totals[-1], 0.05) == kept[-1]
    kept = [t for t in totals if max(log_wealth(draws, t, upper=False)) < np.log(20)]
    assert lowest_total(draws, totals[0], totals[-1], 0.05) == kept[0]


def test_a_random_sample_alone_gives_the_exact_bounds():
    p_wrong, rows = np.full(300, 0.1), np.arange(0, 300, 10)
    wrong = (np.arange(30) % 6 == 0).astype(int)
    count = count_wrong(p_wrong, rows, wrong, np.ones(30, dtype=bool))
    assert (count.low, count.high) == (fewest_wrong(300, 30, 5, 0.025), most_wrong(300, 30, 5, 0.025))


def test_samples_above_the_reviewed_rank_are_not_a_fair_sample():
    p_wrong = np.linspace(0.9, 0.1, 9)
    review = check_verdicts(p_wrong, [0, 4, 1, 2, 7], [1, 0, 1, 0, 0], [False, True, False, False, True])
    assert np.flatnonzero(fair_part(review)).tolist() == [3, 4, 5, 6, 7, 8]
    later = check_verdicts(p_wrong, [0, 2, 4, 7], [1, 0, 0, 0], [False, False, True, True])
    assert np.flatnonzero(~fair_part(later)).tolist() == [0, 2]  # judged before the first draw, at any rank


@pytest.mark.parametrize(("rate", "noise"), [(0.0, 1), (0.03, 1), (0.2, 1), (0.2, 5), (1.0, 1)])
def test_intervals_of_simulated_reviews_keep_their_promise(rate, noise):
    """200 reviews: fewer than 181 covered would have a probability of 0.5 % if 95 % were true."""
    p_wrong, wrong = ranked_errors(500, rate, seed=8, noise=noise)
    covered = np.zeros(2, dtype=int)
    for seed in range(200):
        queue = review_queue(np.arange(500), seed, 3)
        rows, at_random = queue.rows[:80], queue.at_random[:80]
        count = count_wrong(p_wrong, rows, wrong[rows], at_random)
        covered += [
            count.low <= wrong.sum() <= count.high,
            count.low_any_time <= wrong.sum() <= count.high_any_time,
        ]
    assert (covered >= binom.ppf(0.005, 200, 0.95)).all()


def test_the_estimate_is_that_of_ppi_python():
    p_wrong, wrong = ranked_errors(2000, 0.15, seed=2)
    rows = np.random.default_rng(0).permutation(2000)[:300]
    factor = assistance_factor(wrong[rows].astype(float), p_wrong[rows], 2000)
    peer = ppi_mean_pointestimate(wrong[rows].astype(float), p_wrong[rows], p_wrong, lam=factor)
    by_hand = factor * p_wrong.mean() + (wrong[rows] - factor * p_wrong[rows]).mean()
    assert by_hand == pytest.approx(float(peer[0]))
    review = check_verdicts(p_wrong, rows, wrong[rows], np.ones(300, dtype=bool))
    trust = 300 / 320
    shrunk = ppi_mean_pointestimate(wrong[rows].astype(float), p_wrong[rows], p_wrong, lam=1 - trust + trust * factor)
    assert expected_wrong(review) == pytest.approx(2000 * float(shrunk[0]))


def test_the_factor_makes_the_variance_smallest():
    rng = np.random.default_rng(4)
    predicted = rng.random(400)
    checked = (rng.random(400) < 0.5 * predicted).astype(float)
    factors = np.linspace(0, 1, 1001)
    variances = [
        np.var(checked - c * predicted, ddof=1) / 400 + c**2 * np.var(predicted, ddof=1) / 4000 for c in factors
    ]
    assert assistance_factor(checked, predicted, 4000) == pytest.approx(factors[np.argmin(variances)], abs=2e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5, 2], [0], [1], [True]), "one probability per sample"),
        (([0.5, 0.1], [0], [1, 0], [True]), "one value per verdict"),
        (([0.5, 0.1], [2], [1], [True]), "numbers of samples, from 0 to 1"),
        (([0.5, 0.1], [0, 0], [1, 1], [True, True]), "two verdicts"),
        (([0.5, 0.1], [0], [3], [True]), r"0 \(right\), 1 \(wrong\) or -1"),
    ],
)
def test_impossible_verdicts_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        count_wrong(*arguments)


def test_a_confidence_of_one_is_refused():
    with pytest.raises(InputError, match="confidence is 1, not between"):
        count_wrong([0.5], [0], [1], [True], confidence=1)
