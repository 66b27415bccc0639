from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import errata
from errata.core.rates import NoiseRate
from errata.finding.answer import answer, expectation, suggested_budget
from errata.finding.found import Found, no_conflicts
from errata.finding.ranking import expected_curve


def found_with(p_wrong, rate=None):
    samples = len(p_wrong)
    share = float(np.mean(p_wrong)) if rate is None else rate
    labels = np.arange(samples) % 2
    return Found(
        ranking=pd.DataFrame({"id": np.arange(samples), "label": labels, "suggested": 1 - labels, "p_wrong": p_wrong}),
        dynamics=errata.Dynamics.from_arrays(np.zeros((1, samples, 2)), labels),
        estimate=NoiseRate(share, share / 2, min(1.0, 2 * share), 0.95, "Made up for this test."),
        conflicts=no_conflicts(),
        confusions=pd.DataFrame({"label": ["cat", "dog"], "suggested": ["dog", "cat"], "count": [1200, 3]}),
        curve=expected_curve(np.asarray(p_wrong)),
        summary={},
    )


def test_the_answer_has_the_numbers_in_it():
    found = found_with(np.repeat([0.7, 0.1, 0.0], [200, 600, 200]))
    how_many, where_to_stop, confused, assumed = answer(found)
    assert how_many.startswith("About 200 labels are wrong of 1,000 (20.0%), probably between 100 and 400.")
    assert how_many.endswith("Made up for this test.")
    assert where_to_stop == "Look at the first 200: expect about 140 errors; after that about 30% of the errors remain."
    assert "cat → dog (1,200), dog → cat (3)" in confused
    assert "assume" in assumed


def test_conflicts_are_counted_where_there_are_any():
    found = found_with(np.full(100, 0.5))
    twins = pd.DataFrame({"group": [1, 1, 2, 2, 2], "id": range(5), "label": list("ababa")})
    sentences = answer(replace(found, conflicts=twins))
    assert any(sentence.startswith("5 samples in 2 groups have the same inputs") for sentence in sentences)


def test_where_nothing_is_expected_some_are_worth_a_look_all_the_same():
    sentences = answer(replace(found_with(np.zeros(50)), confusions=pd.DataFrame()))
    assert sentences[0].startswith("About 0 labels are wrong of 50")
    assert sentences[1] == "Look at the first 20 all the same: no estimate is sure of none."


@pytest.mark.parametrize(
    ("expected", "samples", "budget"),
    [(0, 10, 10), (3, 500, 20), (20, 500, 20), (97, 500, 95), (140, 500, 150), (387, 1797, 400), (2961, 15000, 3000)],
)
def test_the_budget_is_a_round_number_about_as_large_as_the_errors(expected, samples, budget):
    assert suggested_budget(expected, samples) == budget


def test_expectations_are_those_of_the_curve():
    found = found_with([0.9, 0.5, 0.1, 0.0])
    assert expectation(found, 2) == (pytest.approx(1.4), pytest.approx(0.1 / 1.5))
    assert expectation(found, 99) == (pytest.approx(1.5), pytest.approx(0.0))
