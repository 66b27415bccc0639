import json
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

import errata
from errata.cli.shown import as_probability
from errata.core.rates import NoiseRate
from errata.finding.answer import answer, disagree_widely, expectation, suggested_budget
from errata.finding.error_counts import expected_curve
from errata.finding.found import Found, no_conflicts
from errata.report.payload import payload


def found_with(p_wrong, rate=None):
    samples = len(p_wrong)
    share = float(np.mean(p_wrong)) if rate is None else rate
    labels = np.arange(samples) % 2
    return Found(
        ranking=pd.DataFrame(
            {
                "id": np.arange(samples),
                "label": labels,
                "suggested": np.where(np.arange(samples) < share * samples, 1 - labels, labels),
                "p_wrong": p_wrong,
                "mean_loss": 0.3,
            }
        ),
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


@pytest.mark.parametrize(
    ("low", "high", "expected", "samples", "widely"),
    [
        (0, 1000, 480, 1000, True),  # more than half of the samples
        (200, 750, 400, 1000, True),
        (1, 268, 97, 1797, True),  # a third as many would be within it
        (0, 694, 0, 1500, True),
        (398, 930, 809, 15000, False),
        (1, 5, 2, 150, False),  # few, but close together
        (0, 5, 2, 150, False),
    ],
)
def test_estimates_far_apart_are_said_to_be(low, high, expected, samples, widely):
    assert disagree_widely(low, high, expected, samples) == widely
    estimate = NoiseRate(expected / samples, low / samples, high / samples, None, "")
    (how_many,) = (
        sentence
        for sentence in answer(replace(found_with(np.full(samples, expected / samples)), estimate=estimate))
        if sentence.startswith("About")
    )
    assert ("disagree widely" in how_many) == widely


def test_less_than_one_error_is_not_said_to_leave_a_share_of_them():
    sentences = answer(found_with(np.full(1000, 0.001)))
    assert sentences[1] == "Look at the first 20 all the same: less than one error is expected among them."


def test_out_of_sample_the_number_is_an_upper_end():
    found = found_with(np.full(100, 0.2))
    judged_unseen = replace(found, dynamics=replace(found.dynamics, gathering="out-of-sample"))
    assert any("take it for an upper end" in sentence for sentence in answer(judged_unseen))
    assert not any("upper end" in sentence for sentence in answer(found))


@pytest.fixture
def run(errata_command):
    return partial(errata_command, "find")


def test_a_remark_is_printed_once_and_kept_in_the_notes(run, clouds, tmp_path):
    inputs, noisy = clouds
    frame = pd.DataFrame(inputs, columns=list("abcd")).assign(kind=noisy.labels.astype(str))
    frame.loc[:3, "kind"] = None
    frame.to_csv("bees.csv", index=False)
    code, out, _ = run("bees.csv", "--label", "kind", "--model", "boosting")
    assert code == 0
    assert out.count("4 rows have no label and are left out") == 1
    notes = json.loads((tmp_path / "errata-out" / "summary.json").read_text())["notes"]
    assert any("4 rows have no label and are left out" in note for note in notes)
    assert any(note.startswith("Ranked by") and " rounds" in note for note in notes)
    assert '"unit":"round"' in (tmp_path / "errata-out" / "report.html").read_text()


def test_one_epoch_is_one(curves):
    logits, labels, _ = curves(3, samples=60)
    found = errata.find(errata.Dynamics.from_arrays(logits[-1:], labels))
    assert any(note.endswith("over 1 epoch.") for note in found.summary["notes"])
    assert found.summary["estimate"]["confidence"] is None


@pytest.mark.parametrize(
    ("share", "shown"), [(1.0, "> 0.99"), (0.9996, "> 0.99"), (0.991, "0.991"), (0.25, "0.25"), (0.0, "0.0")]
)
def test_no_probability_reads_as_certain(share, shown):
    assert as_probability(share) == shown


def test_the_page_takes_no_probability_for_certain(curves, tmp_path):
    logits, labels, _ = curves(3, samples=60)
    found = errata.find(errata.Dynamics.from_arrays(logits, labels))
    sure = found.ranking.assign(p_wrong=np.r_[1.0, 0.99999, np.zeros(58)])
    assert payload(replace(found, ranking=sure), tmp_path)["pWrong"][:3] == [0.9999, 0.9999, 0.0]
