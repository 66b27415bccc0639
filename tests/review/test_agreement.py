"""Kappas, compared with scikit-learn, published examples and the bootstrap."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from errata.review.agreement import cohen_kappa, fleiss_kappa


def pairs_of(table):
    """The verdicts of two reviewers with these counts."""
    return [(i, j) for i, row in enumerate(table) for j, count in enumerate(row) for _ in range(count)]


def test_cohen_in_a_published_example():
    """Fleiss, Levin and Paik, Statistical Methods for Rates and Proportions (2003), table 18.1: 0.68."""
    first, second = zip(*pairs_of([[75, 1, 4], [5, 4, 1], [0, 0, 10]]), strict=True)
    kappa = cohen_kappa(first, second)
    assert kappa.value == pytest.approx(0.676, abs=5e-4)
    assert (kappa.high - kappa.low) / 2 / 1.959964 == pytest.approx(0.0877, abs=5e-4)
    assert (kappa.name, kappa.samples, kappa.agreed) == ("Cohen", 100, 89)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=2, max_size=60))
def test_cohen_equals_scikit_learn(pairs):
    first, second = zip(*pairs, strict=True)
    if len({*first, *second}) > 1:
        assert cohen_kappa(first, second).value == pytest.approx(cohen_kappa_score(first, second))
    else:
        assert cohen_kappa(first, second).value == 1


def test_fleiss_in_a_published_example():
    """The worked example of Fleiss' method with 10 subjects, 14 raters and 5 categories: 0.210."""
    table = [
        [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
    ]  # fmt: skip
    ratings = [tuple(code for code, count in enumerate(row) for _ in range(count)) for row in table]
    kappa = fleiss_kappa(ratings)
    assert kappa.value == pytest.approx(0.210, abs=5e-4)
    assert (kappa.name, kappa.samples, kappa.agreed) == ("Fleiss", 10, 1)


@pytest.mark.parametrize("name", ["Cohen", "Fleiss"])
def test_intervals_are_about_as_wide_as_those_of_a_bootstrap(name):
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, 200)
    second = np.where(rng.random(200) < 0.75, first, rng.integers(0, 3, 200))

    def kappa_of(rows):
        one, other = first[rows].tolist(), second[rows].tolist()
        return cohen_kappa(one, other) if name == "Cohen" else fleiss_kappa(list(zip(one, other, strict=True)))

    own = kappa_of(np.arange(200))
    values = [kappa_of(rng.integers(0, 200, 200)).value for _ in range(100 if name == "Fleiss" else 500)]
    assert (own.high - own.low) / 3.92 == pytest.approx(np.std(values), rel=0.25)


def exact_bound(agreed, samples):
    """The share with which so many equal verdicts, or more, have a probability of 2.5 %: by brute force."""

    def at_least(share):
        terms = (math.comb(samples, k) * share**k * (1 - share) ** (samples - k) for k in range(agreed, samples + 1))
        return sum(terms)

    return next(Fraction(number, 4_000) for number in range(4_001) if at_least(Fraction(number, 4_000)) >= 0.025)


@pytest.mark.parametrize(("agreed", "samples"), [(3, 3), (1, 1), (0, 1), (0, 5), (2, 3), (14, 22), (22, 22)])
def test_the_interval_of_the_share_is_exact_and_always_there(agreed, samples):
    second = "a" * agreed + "b" * (samples - agreed)
    pairs = list(zip("a" * samples, second, strict=True))
    low, high = exact_bound(agreed, samples), 1 - exact_bound(samples - agreed, samples)
    for kappa in (cohen_kappa("a" * samples, second), fleiss_kappa(pairs)):
        assert (kappa.agreed, kappa.samples) == (agreed, samples)
        assert kappa.share_low == pytest.approx(float(low), abs=3e-4)
        assert kappa.share_high == pytest.approx(float(high), abs=3e-4)
        assert kappa.share_low <= agreed / samples <= kappa.share_high


def test_equal_verdicts_give_no_interval_of_kappa():
    for kappa in (cohen_kappa("aab", "aab"), fleiss_kappa([("a", "a"), ("b", "b")]), cohen_kappa("a", "b")):
        assert (kappa.low, kappa.high) == (None, None)
    assert cohen_kappa("aaa", "aaa").value == fleiss_kappa([("a", "a")]).value == 1
