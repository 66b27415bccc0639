import numpy as np
import pytest
from buscarpy import calculate_h0
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom

from errata.core.certifying import certify_recall, checks_for_prefix, safe_prefix
from errata.errors import InputError


def review(samples, chosen_wrong, chosen, checks_wrong, checks):
    """p_wrong, rows, wrong and at_random: first suspicious samples, then random checks."""
    wrong = np.r_[np.arange(chosen) < chosen_wrong, np.arange(checks) < checks_wrong].astype(int)
    return np.full(samples, 0.1), np.arange(chosen + checks), wrong, np.arange(chosen + checks) >= chosen


def test_the_bound_for_one_look_is_hypergeometric():
    certificate = certify_recall(*review(1000, 95, 120, 1, 200), any_time=False)
    left = certificate.left
    assert hypergeom.cdf(1, 880, left + 1, 200) > 0.05
    assert hypergeom.cdf(1, 880, left + 2, 200) <= 0.05
    assert certificate.recall_at_least == 96 / (96 + left)
    assert not certificate.certified


@pytest.mark.parametrize("any_time", [True, False])
def test_as_many_right_checks_as_needed_certify(any_time):
    before = certify_recall(*review(2000, 190, 250, 1, 50), any_time=any_time)
    assert not before.certified
    assert before.more_checks > 100
    arrays = review(2000, 190, 250, 1, 50 + before.more_checks)
    after = certify_recall(*arrays, any_time=any_time)
    assert after.certified
    assert after.more_checks == 0
    one_less = certify_recall(*review(2000, 190, 250, 1, 49 + before.more_checks), any_time=any_time)
    assert not one_less.certified


def test_statements_for_any_time_need_more_checks():
    arrays = review(2000, 190, 250, 0, 0)
    once, often = (certify_recall(*arrays, any_time=any_time).more_checks for any_time in (False, True))
    assert once < often < 1.5 * once


def test_the_checks_needed_agree_with_buscarpy():
    """buscarpy tests the recall after random screening; both are the same hypergeometric tail of remaining errors."""
    samples, chosen, found = 1500, 150, 100
    needed = certify_recall(*review(samples, found, chosen, 0, 0), any_time=False).more_checks
    labels = np.r_[np.ones(found), np.zeros(chosen - found), np.zeros(needed)]
    p_value = calculate_h0(labels, samples, recall_target=0.95)
    assert p_value <= 0.05 + 0.01
    fewer = np.r_[np.ones(found), np.zeros(chosen - found), np.zeros(needed // 2)]
    assert calculate_h0(fewer, samples, recall_target=0.95) > 0.05


def test_everything_reviewed_is_certified_without_random_checks():
    p_wrong, rows, wrong, _ = review(50, 20, 50, 0, 0)
    assert certify_recall(p_wrong, rows, wrong, np.zeros(50, dtype=bool)).certified


def test_without_an_error_found_there_must_be_none():
    certificate = certify_recall(*review(500, 0, 50, 0, 100), any_time=False)
    assert not certificate.certified
    assert certificate.recall_at_least == 0
    assert certificate.more_checks == 328
    assert hypergeom.cdf(0, 450, 1, 428) <= 0.05 < hypergeom.cdf(0, 450, 1, 427)
    after = certify_recall(*review(500, 0, 50, 0, 428), any_time=False)
    assert (after.certified, after.left, after.recall_at_least) == (True, 0, 1)


def test_too_many_unsure_verdicts_cannot_be_certified():
    p_wrong, rows, wrong, at_random = review(500, 20, 60, 0, 100)
    wrong[40:50] = -1
    certificate = certify_recall(p_wrong, rows, wrong, at_random)
    assert certificate.more_checks is None
    assert certificate.unsure == 10


@pytest.mark.parametrize("any_time", [True, False])
def test_false_certificates_are_rare(any_time):
    """300 reviews in which a tenth of the errors is not found: certified in at most 5 %, within chance."""
    samples, chosen = 600, 100
    wrong = np.zeros(samples, dtype=int)
    wrong[:90] = wrong[chosen : chosen + 10] = 1
    falsely = 0
    for seed in range(300):
        drawn = chosen + np.random.default_rng(seed).permutation(samples - chosen)
        for checks in range(150, 450, 30) if any_time else (300,):
            rows = np.r_[np.arange(chosen), drawn[:checks]]
            arrays = np.full(samples, 0.1), rows, wrong[rows], np.arange(len(rows)) >= chosen
            certificate = certify_recall(*arrays, any_time=any_time)
            if certificate.certified and wrong[rows].sum() < 0.95 * wrong.sum():
                falsely += 1
                break
    assert falsely <= binom.ppf(0.995, 300, 0.05)


def test_a_recall_of_zero_is_refused():
    with pytest.raises(InputError, match="recall is 0, not between"):
        certify_recall(*review(10, 1, 2, 0, 1), recall=0)


def prefix_of(samples, checked, wrong, **options):
    marks = np.zeros((2, samples), dtype=bool)
    marks[0, checked] = True
    marks[1, wrong] = True
    return safe_prefix(np.ones(samples, dtype=bool), np.zeros(samples, dtype=bool), *marks, **options)


def test_right_suggestions_make_a_safe_prefix():
    safe = prefix_of(1000, range(0, 1000, 5), [])
    assert (safe.length, safe.checks, safe.wrong_changes, safe.changed) == (996, 200, 0, 796)


def test_a_prefix_ends_where_suggestions_go_wrong():
    safe = prefix_of(1000, range(0, 1000, 2), range(600, 1000, 3))
    assert 600 <= safe.length < 700
    assert safe.changed == safe.length - safe.checks


def test_too_few_checks_make_no_prefix_safe():
    assert prefix_of(1000, range(0, 1000, 50), []).length == 0
    assert prefix_of(1000, [], []).length == 0


def test_samples_with_a_verdict_or_without_a_change_are_not_counted():
    changes, known = np.arange(1000) % 2 == 0, np.arange(1000) < 200
    checked = np.arange(1000) % 4 == 0
    safe = safe_prefix(changes, known, checked, np.zeros(1000, dtype=bool))
    assert safe.checks > 150
    assert safe.changed == (changes & ~known & ~checked)[: safe.length].sum()


def test_the_checks_for_a_prefix_suffice():
    needed = checks_for_prefix(400, 0.05)
    assert prefix_of(400, np.linspace(0, 399, needed).astype(int), []).length == 400
    assert prefix_of(400, np.linspace(0, 399, needed - 1).astype(int), []).length == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 20), st.floats(0.05, 0.15))
def test_a_prefix_only_grows_with_the_limit(seed, limit):
    rng = np.random.default_rng(seed)
    checked, wrong = np.sort(rng.permutation(600)[:250]), np.flatnonzero(rng.random(600) < 0.04)
    assert prefix_of(600, checked, wrong, limit=limit).length <= prefix_of(600, checked, wrong, limit=2 * limit).length


def test_unsafe_prefixes_are_rare():
    """400 rankings whose suggestions get worse: the share of wrong changes is above the limit in at most 5 %."""
    rng, unsafe = np.random.default_rng(0), 0
    for _ in range(400):
        wrong = rng.random(800) < np.linspace(0.01, 0.12, 800)
        checked = np.sort(rng.permutation(800)[:250])
        safe = prefix_of(800, checked, np.flatnonzero(wrong))
        left = np.ones(800, dtype=bool)
        left[checked] = False
        unsafe += bool(safe.length) and wrong[: safe.length][left[: safe.length]].mean() > 0.05
    assert unsafe <= binom.ppf(0.995, 400, 0.05)
