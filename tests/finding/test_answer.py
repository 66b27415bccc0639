import json
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

import errata
from errata.cli.find_command import as_probability
from errata.core.rates import NoiseRate
from errata.finding.answer import (
    BECAUSE,
    answer,
    data_notes,
    expectation,
    notes,
    reasons,
    report_data,
    stated_count,
    suggested_budget,
)
from errata.finding.found import Found, no_conflicts
from errata.finding.trust import disagree_widely
from errata.report.page import payload


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
                "score": np.where(np.arange(samples) < share * samples, 5.0, 0.0) + np.arange(samples) / samples,
                "p_wrong": p_wrong,
                "mean_loss": 0.3,
            }
        ),
        dynamics=errata.Dynamics.from_arrays(np.zeros((1, samples, 2)), labels),
        estimate=NoiseRate(share, share / 2, min(1.0, 2 * share), 0.95, "Invented for this test."),
        conflicts=no_conflicts(),
        summary={},
    )


def test_the_answer_has_the_numbers():
    found = found_with(np.repeat([0.9, 0.025], [200, 800]))
    assert answer(found) == [
        "About 200 of 1,000 labels are wrong (20 %, 10–40 %).",
        "Look at the first 200: expect about 180 errors, 90 % of all.",
    ]
    how, assumption = reasons(found)
    assert how == "Invented for this test."
    assert "assume" in assumption
    assert notes(found)[0].endswith("among the first 200 (given → suggested): 0 → 1 (100), 1 → 0 (100).")


def test_where_only_a_range_is_known_no_sentence_has_the_estimated_number():
    found = found_with(np.full(1000, 0.37))
    assert answer(found)[0] == "Between 0 and 740 of 1,000 labels are wrong (0–74 %): " + BECAUSE["overlap"] + "."
    shown = " ".join([*answer(found), *reasons(found), *notes(found)])
    assert "370" not in shown
    assert "upper end of the range" in reasons(found)[0]
    assert "among the first 100 " in notes(found)[0]
    assert found.confusions["count"].sum() == 100


def test_a_model_that_guesses_has_no_lines_about_its_first_samples(curves):
    logits, labels, _ = curves(0, samples=1000)
    guesses = errata.find(errata.Dynamics.from_arrays(0.01 * logits, labels[::-1].copy()))
    assert stated_count(guesses).kind == "nothing"
    reason, epochs = guesses.summary["trust"]
    assert reason.startswith("The model predicts the classes no better than guessing")
    assert epochs.startswith("The ranking uses")
    assert reasons(guesses) == []


def test_conflicts_are_counted():
    found = found_with(np.full(100, 0.5))
    twins = pd.DataFrame({"group": [1, 1, 2, 2, 2], "id": range(5), "label": list("ababa")})
    (note,) = data_notes(replace(found, conflicts=twins))
    assert note.startswith("5 samples in 2 groups have the same inputs")


def test_some_samples_are_worth_a_look_even_if_no_error_is_expected():
    how_many, what_to_do = answer(found_with(np.zeros(50)))
    assert how_many.startswith("About 0 of 50 labels are wrong (0 %")
    assert what_to_do.startswith("Look at the first 20 anyway: expect less than one error")


def test_one_error_is_singular():
    how_many, what_to_do = answer(found_with(np.full(1000, 0.001)))
    assert how_many == "About 1 of 1,000 labels is wrong (0.1 %, 0.1–0.2 %)."
    assert what_to_do.startswith("Look at the first 20 anyway")


@pytest.mark.parametrize(
    ("expected", "samples", "budget"),
    [(0, 10, 10), (3, 500, 20), (20, 500, 20), (97, 500, 95), (140, 500, 150), (387, 1797, 400), (2961, 15000, 3000)],
)
def test_the_budget_is_a_round_number_about_as_large_as_the_errors(expected, samples, budget):
    assert suggested_budget(expected, samples) == budget


def test_expectations_are_read_from_the_curve():
    found = found_with([0.9, 0.5, 0.1, 0.0])
    assert expectation(found, 2) == (pytest.approx(1.4), pytest.approx(1.4 / 1.5))
    assert expectation(found, 99) == (pytest.approx(1.5), pytest.approx(1.0))


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
def test_a_wide_interval_gives_a_warning(low, high, expected, samples, widely):
    estimate = NoiseRate(expected / samples, low / samples, high / samples, None, "")
    assert disagree_widely(estimate, samples) == widely
    found = replace(found_with((np.arange(samples) < expected).astype(float)), estimate=estimate)
    assert any("disagree widely" in line for line in answer(found)) == widely


@pytest.fixture
def run(errata_command):
    return partial(errata_command, "find")


def test_a_single_remark_is_printed_and_all_are_in_the_summary(run, clouds, tmp_path):
    inputs, noisy = clouds
    frame = pd.DataFrame(inputs, columns=list("abcd")).assign(kind=noisy.labels.astype(str))
    frame.loc[:3, "kind"] = None
    frame.to_csv("bees.csv", index=False)
    code, out, _ = run("bees.csv", "--label", "kind", "--model", "boosting")
    assert code == 0
    assert out.count("Note: 4 rows have no label and are left out.") == 1
    assert len(out[: out.index("the 10 most suspicious")].splitlines()) <= 6
    notes = json.loads((tmp_path / "errata-out" / "summary.json").read_text())["notes"]
    assert any("4 rows have no label and are left out" in note for note in notes)
    assert any("Ranked by" in note and " rounds" in note for note in notes)
    assert '"unit":"round"' in (tmp_path / "errata-out" / "report.html").read_text()


def test_one_epoch_is_singular(curves):
    logits, labels, _ = curves(3, samples=60)
    found = errata.find(errata.Dynamics.from_arrays(logits[-1:], labels))
    assert any(note.endswith("over 1 epoch.") for note in found.summary["notes"])
    assert found.summary["estimate"]["confidence"] is None


@pytest.mark.parametrize(
    ("share", "shown"), [(1.0, "> 0.99"), (0.9996, "> 0.99"), (0.991, "0.991"), (0.25, "0.25"), (0.0, "0.0")]
)
def test_no_probability_is_printed_as_certain(share, shown):
    assert as_probability(share) == shown


def test_the_page_shows_no_probability_as_certain(curves, tmp_path):
    logits, labels, _ = curves(3, samples=60)
    found = errata.find(errata.Dynamics.from_arrays(logits, labels))
    sure = found.ranking.assign(p_wrong=np.r_[1.0, 0.99999, np.zeros(58)])
    assert payload(report_data(replace(found, ranking=sure)), tmp_path)["pWrong"][:3] == [0.9999, 0.9999, 0.0]
