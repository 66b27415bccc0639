import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from errata.core.random_part import design_seed, next_draws, random_order, random_positions, review_queue
from errata.errors import InputError


def split_mix(state):
    """SplitMix64 in Python's whole numbers, as published by Vigna."""
    mask = 2**64 - 1
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & mask
    return state ^ (state >> 31)


@given(st.integers(0, 200), st.integers(0, 2**63 - 1))
def test_the_order_is_that_of_splitmix64(samples, seed):
    keys = [split_mix((split_mix(seed) + (row + 1) * 0x9E3779B97F4A7C15) % 2**64) for row in range(samples)]
    assert random_order(samples, seed).tolist() == sorted(range(samples), key=keys.__getitem__)


def test_every_sample_is_equally_likely_at_every_position():
    orders = np.array([random_order(8, seed) for seed in range(8000)])
    for position in range(8):
        assert chisquare(np.bincount(orders[:, position], minlength=8)).pvalue > 1e-4
    pairs = np.bincount(orders[:, 0] * 8 + orders[:, 1], minlength=64)
    assert chisquare(pairs[pairs > 0]).pvalue > 1e-4
    assert (pairs > 0).sum() == 56


def test_the_seed_follows_from_the_labels():
    labels = np.arange(50) % 3
    assert design_seed(labels) == design_seed(labels.astype(np.int32)) < 2**48
    assert design_seed(labels) != design_seed(np.where(np.arange(50) == 7, 2, labels))


@given(st.integers(1, 80), st.integers(0, 1000), st.sampled_from([1, 4, 10]))
def test_a_queue_holds_every_sample_once_and_its_share_of_random_draws(samples, seed, every):
    ranked = np.random.default_rng(seed).permutation(samples)
    queue = review_queue(ranked, seed, every)
    assert sorted(queue.rows.tolist()) == list(range(samples))
    assert samples // every <= queue.at_random.sum() <= -(-samples // every)
    drawn = queue.rows[queue.at_random].tolist()
    order = random_order(samples, seed).tolist()
    assert sorted(drawn, key=order.index) == drawn
    chosen = queue.rows[~queue.at_random].tolist()
    assert sorted(chosen, key=ranked.tolist().index) == chosen


def test_one_position_in_ten_is_random():
    positions = random_positions(1000, 5)
    assert (positions.reshape(100, 10).sum(axis=1) == 1).all()
    assert np.bincount(np.flatnonzero(random_positions(100_000, 5)) % 10).min() > 900  # at any place in its ten
    assert random_positions(37, 5).tolist() == positions[:37].tolist()  # the same however long the queue is
    assert random_positions(1000, 6).tolist() != positions.tolist()
    with pytest.raises(InputError, match="every"):
        random_positions(5, 1, 0)


def test_the_next_draws_leave_out_what_is_taken():
    order = random_order(20, 3)
    assert next_draws(20, 3, order[[0, 2]], 3).tolist() == order[[1, 3, 4]].tolist()
    assert len(next_draws(20, 3, order[:15], 30)) == 5


def test_a_ranking_with_a_missing_row_is_refused():
    with pytest.raises(InputError, match=r"each of the rows 0\.\.2 once"):
        review_queue([0, 2, 2], 1)
