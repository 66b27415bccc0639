import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from errata.core.random_part import review_queue
from errata.core.recalibration import SHIFT_DEVIATION, SLOPE_DEVIATION, _fit, expect_among_next, recalibrate


def overestimated(samples=4000, seed=0):
    """p_wrong that is far too high, and errors drawn from the true probabilities."""
    rng = np.random.default_rng(seed)
    odds = np.sort(rng.normal(-1, 2, samples))[::-1]
    return expit(odds), (rng.random(samples) < expit(1.3 * odds - 3)).astype(int)


def test_without_verdicts_nothing_changes():
    p_wrong, _ = overestimated(100)
    nothing = np.array([], dtype=int)
    assert recalibrate(p_wrong, nothing, nothing, nothing.astype(bool)) == pytest.approx(p_wrong)


def test_the_fit_is_that_of_scikit_learn_without_a_prior(monkeypatch):
    p_wrong, wrong = overestimated()
    for name in ("SHIFT_DEVIATION", "SLOPE_DEVIATION"):
        monkeypatch.setattr(f"errata.core.recalibration.{name}", 1e6)
    odds = logit(p_wrong)
    peer = LogisticRegression(C=np.inf, tol=1e-10).fit(odds[:, None], wrong)
    assert _fit(odds, wrong.astype(float)) == pytest.approx((peer.intercept_[0], peer.coef_[0, 0]), abs=1e-4)
    assert SHIFT_DEVIATION > SLOPE_DEVIATION


def test_verdicts_correct_an_overestimate():
    p_wrong, wrong = overestimated()
    queue = review_queue(np.arange(4000), 3)
    rows = queue.rows[:300]
    corrected = recalibrate(p_wrong, rows, wrong[rows], queue.at_random[:300])
    assert (corrected[rows] == wrong[rows]).all()
    assert abs(corrected.sum() - wrong.sum()) < 0.15 * abs(p_wrong.sum() - wrong.sum())
    left = np.setdiff1d(np.arange(4000), rows)
    expected, truth = expect_among_next(corrected, np.arange(4000), rows, 200), wrong[left[:200]].sum()
    before = p_wrong[left[:200]].sum()
    assert abs(expected - truth) < 0.5 * abs(before - truth)


def test_an_unsure_verdict_changes_no_probability():
    p_wrong, _ = overestimated(50)
    assert recalibrate(p_wrong, [3], [-1], [True]) == pytest.approx(p_wrong)


def test_the_next_samples_are_those_without_a_verdict():
    assert expect_among_next([0.9, 0.5, 0.4, 0.1], [0, 1, 2, 3], [0, 2], 2) == pytest.approx(0.6)
    assert expect_among_next([0.9, 0.5], [1, 0], [], 9) == pytest.approx(1.4)
