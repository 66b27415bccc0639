import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

import errata
from errata import Dynamics, InputError
from errata.advising import draw
from errata.advising.audits import ENOUGH, Audit
from errata.advising.memorising import Memorising
from errata.advising.tuning import Tuned
from errata.advising.words import about_audit, from_audit, from_signs


@pytest.fixture
def run(curves):
    """Dynamics of 400 samples with names, and which labels are wrong."""
    logits, labels, wrong = curves(0, samples=400)
    names = np.array(["ant", "bee", "cat", "dog", "eel"])
    ids = np.array([f"s{row}" for row in range(400)])
    return Dynamics.from_arrays(logits, names[labels], classes=names, ids=ids), wrong


def decisions(dynamics, wrong, rows):
    return pd.DataFrame(
        {
            "id": dynamics.ids[rows],
            "label": [dynamics.class_name(dynamics.labels[row]) for row in rows],
            "decision": np.where(wrong[rows], "relabel", "keep"),
            "new_label": np.where(wrong[rows], "fox", ""),
        }
    )


def sentences(text):
    return len(re.findall(r"\.(?:\s|$)", text))


def test_the_default_is_advised_in_two_sentences(run):
    dynamics, _ = run
    advice = errata.advise(dynamics)
    estimate = errata.noise_rates(dynamics).iloc[0]["rate"]
    assert advice.budget == round(estimate * 400)
    assert (advice.method, advice.window, advice.tuned, advice.notes) == ("Unmixed-MeanProb-LM", None, None, ())
    assert "Unmixed-MeanProb-LM" in advice.verdict
    assert sentences(advice.verdict) == 2


def test_advice_becomes_json(run):
    dynamics, wrong = run
    audit = decisions(dynamics, wrong, np.random.default_rng(0).permutation(400)[:200])
    advice = errata.advise(dynamics, budget=80, audit=audit)
    kept = json.loads(json.dumps(advice.as_dict()))
    assert kept["budget"] == 80
    assert kept["table"][0]["method"] == "Unmixed-MeanProb-LM"
    assert kept["memorising"]["best_epoch"] == advice.memorising.best_epoch
    assert kept["tuned"]["window"] == list(advice.tuned.window)
    assert kept["tuned"]["gain"] == advice.tuned.gain


def table_of(*rows):
    return pd.DataFrame(rows, columns=["method", "agreement", "stability"]).astype({"stability": "Float64"})


CALM = Memorising(0.8, 0.81, 7, 0.05, 3)


@pytest.mark.parametrize(
    ("table", "signs", "said"),
    [
        (table_of(("A", 0.9, 0.8), ("B", 0.92, 0.7), ("C", 0.5, 0.4)), CALM, ["Trust A", "90%", "80%", "Distrust C"]),
        (table_of(("A", 0.9, None), ("B", 0.85, None)), CALM, ["Trust A", "90%", "Nothing in the signs"]),
        (table_of(("A", 0.8, 0.8), ("B", 0.95, 0.9)), CALM, ["Start with A", "80%", "95% for B", "audit"]),
        (table_of(("A", 0.99, 0.8), ("B", 0.98, 0.7)), CALM, ["Trust A", "matters little"]),
        (table_of(("A", 0.9, 0.8)), None, ["Trust A", "Nothing in the signs"]),
        (
            table_of(("A", 0.9, 0.8), ("B", 0.5, 0.7)),
            Memorising(0.95, 0.95, 9, 0.4, 6),
            ["Trust A", "40%", "distrust methods that look at that epoch alone"],
        ),
        (table_of(("A", 0.9, 0.2), ("B", 0.9, 0.2)), CALM, ["first guess only", "20% are the same in the first"]),
        (
            table_of(("A", 0.9, 0.8), *((name, 0.5, 0.5) for name in "BCDEF")),
            CALM,
            ["Distrust F, E, D and 2 more"],
        ),
    ],
)
def test_the_verdict_says_what_the_signs_show(table, signs, said):
    verdict = from_signs(table, signs, 100)
    for words in said:
        assert words in verdict
    assert sentences(verdict) == 2


def test_a_random_audit_of_a_good_default_keeps_it(run):
    dynamics, wrong = run
    rows = np.random.default_rng(1).permutation(400)[:250]
    advice = errata.advise(dynamics, budget=80, audit=decisions(dynamics, wrong, rows))
    assert f"Of 250 labels judged, {int(wrong[rows].sum())} were wrong" in advice.notes[0]
    assert not advice.tuned.better
    assert (advice.method, advice.window) == ("Unmixed-MeanProb-LM", None)
    assert advice.verdict.startswith("Keep Unmixed-MeanProb-LM")
    assert sentences(advice.verdict) == 2


def test_an_audit_finds_the_epochs_that_know_the_errors(curves):
    logits, labels, wrong = curves(2, samples=600)
    rng = np.random.default_rng(0)
    spoilt = np.concatenate([logits, rng.normal(size=(36, 600, 5)) * 8]).astype(np.float32)  # noise from then on
    dynamics = Dynamics.from_arrays(spoilt, labels)
    audit = decisions(dynamics, wrong, rng.permutation(600)[:300])
    advice = errata.advise(dynamics, budget=120, audit=audit)
    assert advice.tuned.better
    assert advice.window[1] < 24
    assert advice.method == advice.tuned.method
    assert advice.verdict.startswith(f"Use {advice.method} over epochs {advice.window[0]} to {advice.window[1]}")
    assert sentences(advice.verdict) == 2


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"gain": 0.03, "low": 0.01, "better": True}, ["Use Mean-CE over epochs 2 to 5", "+3.0%", "flatters"]),
        ({"gain": 0.03, "low": -0.01, "better": True}, ["Use Mean-CE over epochs 2 to 5", "-1.0%", "may be chance"]),
        ({"gain": -0.02, "low": -0.03, "better": False}, ["Keep MeanProb-LM", "brings nothing", "-2.0%"]),
    ],
)
def test_how_sure_the_choice_on_an_audit_is_is_said(numbers, said):
    tuned = Tuned("Mean-CE", (2, 5), default_fnr=0.1, best_fnr=0.04, high=0.05, table=pd.DataFrame(), **numbers)
    verdict = from_audit(tuned, "MeanProb-LM")
    for words in said:
        assert words in verdict
    assert sentences(verdict) == 2


def test_an_audit_of_the_top_chooses_nothing_and_says_why(run):
    dynamics, wrong = run
    top = np.argsort(-errata.score(dynamics))[:100]
    advice = errata.advise(dynamics, budget=80, audit=decisions(dynamics, wrong, top))
    assert advice.tuned is None
    (note,) = advice.notes
    assert f"{int(wrong[top].sum())} were wrong" in note
    assert "no random sample" in note
    assert "--draw" in note
    assert advice.method == "Unmixed-MeanProb-LM"


def test_whether_an_audit_is_random_is_told_by_the_places_of_its_samples(run):
    dynamics, wrong = run
    scores = errata.score(dynamics)
    rng = np.random.default_rng(0)
    audits = [Audit(rows, wrong[rows]) for rows in (rng.permutation(400)[:60] for _ in range(200))]
    assert sum(audit.looks_random(scores) for audit in audits) >= 198
    places = scores.argsort().argsort()
    expected = kstest((places[audits[0].rows] + 0.5) / 400, "uniform").pvalue >= 0.001
    assert audits[0].looks_random(scores) == expected
    bottom = np.argsort(scores)[:60]
    assert not Audit(bottom, wrong[bottom]).looks_random(scores)
    assert Audit(np.arange(400), wrong).looks_random(scores)


@pytest.mark.parametrize(("errors", "right", "more"), [(5, 95, "300 more"), (60, 10, "70 more"), (0, 50, None)])
def test_a_small_audit_says_what_is_missing(errors, right, more):
    audit = Audit(np.arange(errors + right), np.arange(errors + right) < errors)
    _, note = about_audit(audit, 0.1, random=True)
    assert f"{errors} wrong and {right} right" in note
    assert f"at least {ENOUGH} of each" in note
    assert ("more should do" in note) == (more is not None)
    assert more is None or more in note
    enough = Audit(np.arange(40), np.arange(40) < 20)
    assert enough.lack() == ""


def test_the_share_of_wrong_labels_has_wilsons_interval():
    audit = Audit(np.arange(50), np.arange(50) < 10)
    z, share, n = 1.959963984540054, 0.2, 50
    centre, half = share + z**2 / (2 * n), z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    expected = [share, (centre - half) / (1 + z**2 / n), (centre + half) / (1 + z**2 / n)]
    np.testing.assert_allclose(audit.share, expected)


def test_decisions_are_read_as_right_wrong_and_unknown(run, tmp_path):
    dynamics, _ = run
    labels = [dynamics.class_name(dynamics.labels[row]) for row in range(4)]
    table = pd.DataFrame(
        {
            "id": ["s3", "s0", "s2", "s1"],
            "label": [labels[3], labels[0], labels[2], labels[1]],
            "decision": ["keep", "accept", "skip", "relabel"],
            "new_label": ["", "fox", "", "hen"],
        }
    )
    table.to_csv(tmp_path / "decisions.csv", index=False)
    for source in (table, tmp_path / "decisions.csv", str(tmp_path / "decisions.csv")):
        audit = Audit.of(source, dynamics)
        assert dict(zip(audit.rows.tolist(), audit.wrong.tolist(), strict=True)) == {3: False, 0: True, 1: True}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": "nobody"}, "no sample with id 'nobody'"),
        ({"label": "yak"}, "judged with the label 'yak'"),
        ({"decision": "skip"}, "every decision is skip"),
        ({"decision": "maybe"}, "maybe"),
    ],
)
def test_an_audit_of_something_else_is_refused(run, change, said):
    dynamics, wrong = run
    table = decisions(dynamics, wrong, np.array([5])).assign(**change)
    with pytest.raises(InputError, match=said):
        errata.advise(dynamics, budget=80, audit=table)


def test_what_is_drawn_is_random_in_random_order_and_undecided(run):
    dynamics, _ = run
    drawn = draw(dynamics, 100, seed=3)
    assert list(drawn.columns) == ["id", "label", "decision", "new_label"]
    assert drawn["id"].is_unique
    assert set(drawn["decision"]) == {"skip"}
    ranking = errata.rank(dynamics).set_index("id")
    assert drawn["label"].tolist() == ranking["label"][drawn["id"]].tolist()
    suggested = ranking["suggested"][drawn["id"]].tolist()
    instead = ["" if said == given else said for said, given in zip(suggested, drawn["label"], strict=True)]
    assert drawn["new_label"].tolist() == instead
    pd.testing.assert_frame_equal(draw(dynamics, 100, seed=3), drawn)
    assert draw(dynamics, 100, seed=4)["id"].tolist() != drawn["id"].tolist()
    # Neither the sample nor the part of it that is judged first leans towards the suspicious.
    for part in (drawn, drawn.head(50)):
        assert kstest((ranking["rank"][part["id"]] - 0.5) / 400, "uniform").pvalue > 0.01
    with pytest.raises(InputError, match="401 samples cannot be drawn: there are 400"):
        draw(dynamics, 401)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"budget": 0}, "budget is 0"),
        ({"budget": 401}, "outside 0..400"),
        ({"methods": "Mean-LM"}, "list of names"),
        ({"methods": ["Meen-LM"], "budget": 9}, "did you mean"),
    ],
)
def test_what_cannot_be_compared_is_refused(run, wanted, said):
    with pytest.raises(InputError, match=said):
        errata.advise(run[0], **wanted)


def test_a_path_is_not_dynamics():
    with pytest.raises(InputError, match=r"Dynamics\.open"):
        errata.advise("runs/mine")


def test_where_nothing_is_estimated_to_be_wrong_a_budget_is_asked_for():
    labels = np.arange(90) % 3
    dynamics = Dynamics.from_arrays(np.tile(np.eye(3)[labels] * 20.0 - 7, (4, 1, 1)), labels)
    with pytest.raises(InputError, match="give a budget"):
        errata.advise(dynamics)
