import numpy as np
import pytest

from errata.core.count_statement import ambiguity, count_statement, group_separation, highest_rate
from errata.core.rates import NoiseRate


def estimate(rate, low=None, high=None):
    return NoiseRate(rate, rate / 2 if low is None else low, 2 * rate if high is None else high, None, "")


def groups(separation, share=0.1, samples=2000):
    """Scores of two groups of samples, and p_wrong that tells them apart as well as the scores do."""
    rng = np.random.default_rng(0)
    wrong = np.arange(samples) < share * samples
    scores = rng.normal(size=samples) + separation * wrong
    return scores, 1 / (1 + np.exp(-separation * (scores - separation / 2)))


def test_clear_groups_are_stated_as_a_number():
    statement = count_statement(*groups(8), estimate(0.1), guessing=False, held_out_loss=0.5)
    assert (statement.kind, statement.low, statement.high) == ("number", 0.05, 0.2)


def test_overlapping_groups_are_stated_as_a_range():
    statement = count_statement(*groups(1), estimate(0.1, high=0.3), guessing=False, held_out_loss=None)
    assert (statement.kind, statement.reason, statement.low, statement.high) == ("range", "overlap", 0, 0.3)


def test_the_held_out_loss_limits_the_number():
    statement = count_statement(*groups(8), estimate(0.1), guessing=False, held_out_loss=0.05)
    assert (statement.kind, statement.reason) == ("range", "held-out loss")
    assert statement.high == highest_rate(0.05, 400) < 0.03


def test_nothing_is_stated_if_the_model_guesses():
    assert count_statement(*groups(8), estimate(0.1), guessing=True, held_out_loss=0.7).kind == "nothing"


def test_a_small_estimate_stays_a_number():
    assert count_statement(*groups(1), estimate(0.01), guessing=False, held_out_loss=0.5).kind == "number"


def test_the_separation_is_in_deviations_within_the_groups():
    scores = np.array([10.0, 12.0, 1.0, 3.0])
    assert group_separation(scores, 2) == pytest.approx(9)
    assert group_separation(scores, 0) == group_separation(scores, 4) == 0


def test_ambiguity_is_zero_for_certain_probabilities():
    assert ambiguity(np.array([1.0, 0.0, 0.0])) == 0
    assert ambiguity(np.array([0.5, 0.5])) == 0.5
    assert ambiguity(np.zeros(3)) == 0


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.3])
def test_random_errors_cost_their_entropy(rate):
    entropy = -rate * np.log(rate) - (1 - rate) * np.log(1 - rate)
    assert highest_rate(entropy, 1e12) == pytest.approx(rate, abs=2e-4)
    assert highest_rate(entropy, 200) > rate
    assert highest_rate(5.0, 200) == 0.5
