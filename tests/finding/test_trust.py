"""Warnings for models that learned nothing, and the section "How far to trust this"."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine

import errata
from errata.core.noise import symmetric
from errata.core.rates import NoiseRate
from errata.dynamics.ranking import analyse, ranking_table
from errata.finding.trust import guessing_reason, label_agreement, trust_lines
from errata.wording import percent

WARNING = "How many labels are wrong is not known: the model predicts no better than guessing."


def coin_flips(samples, classes=2):
    rng = np.random.default_rng(5)
    return rng.normal(size=(samples, 6)), rng.integers(0, classes, samples)


def reason_of(found):
    return guessing_reason(found.dynamics.labels, found.ranking, found.summary["held_out_loss"])


@pytest.fixture
def run(errata_command):
    return partial(errata_command, "find")


def test_random_labels_give_a_warning_in_all_outputs(run, tmp_path):
    inputs, labels = coin_flips(600)
    pd.DataFrame(inputs, columns=list("abcdef")).assign(y=labels).to_csv("coins.csv", index=False)
    code, out, _ = run("coins.csv", "--label", "y")
    assert code == 0
    assert out.count(WARNING) == 1
    before_list = out[: out.index("the 10 most suspicious of")]
    assert WARNING in before_list
    assert len(before_list.splitlines()) <= 6
    summary = json.loads((tmp_path / "errata-out" / "summary.json").read_text())
    assert summary["notes"][0].startswith(WARNING)
    assert "its log loss on held-out samples is 0.6" in summary["trust"][0]
    assert summary["held_out_loss"] == pytest.approx(np.log(2), abs=0.03)
    assert f'<p id="head">{WARNING}' in (tmp_path / "errata-out" / "report.html").read_text()


def test_many_random_classes_give_a_warning_with_and_without_a_held_out_loss():
    found = errata.find(*coin_flips(800, classes=20), folds=2)
    assert found.summary["notes"][0].startswith(WARNING)
    again = errata.find(found.dynamics)
    assert again.summary["held_out_loss"] is None
    assert again.summary["notes"][0].startswith(WARNING)
    assert "of the labels; guessing gives" in again.summary["trust"][0]


@pytest.mark.parametrize("rate", [0.2, 0.4])
@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
def test_real_classes_are_learned_even_with_many_wrong_labels(load, rate):
    inputs, clean = load(return_X_y=True)
    found = errata.find(inputs, symmetric(clean, rate, num_classes=int(clean.max()) + 1, seed=0).labels)
    assert reason_of(found) == ""
    assert reason_of(errata.find(found.dynamics)) == ""


def test_a_rare_class_that_is_never_suggested_can_still_be_learned():
    labels = np.repeat([0, 1], [950, 50])
    logits = np.where(labels == 1, -0.5, -6.0)  # of class 1, relative to class 0: never preferred, but separated
    found = errata.find(errata.Dynamics.from_arrays(np.stack([0 * logits, logits], axis=1)[None], labels))
    assert label_agreement(found.ranking) == (0.95, 0.95)
    assert reason_of(found) == ""


NARROW = NoiseRate(0.1, 0.08, 0.12, None, "")


def lines_for(dynamics, rate=NARROW):
    analysis = analyse(dynamics, compare=True)
    ranking = ranking_table(analysis)
    return trust_lines(analysis, ranking, rate, 0 if rate is None else round(rate.rate * len(ranking)))


def test_the_lines_name_epochs_memorised_labels_and_agreement(curves):
    logits, labels, _ = curves(0, samples=1000)
    dynamics = errata.Dynamics.from_arrays(logits, labels)
    epochs, memorised, agreement = lines_for(dynamics)
    assert epochs == "The ranking uses all 12 epochs."
    first = ranking_table(analyse(dynamics, compare=True)).head(100)
    rows = first["id"].to_numpy()
    share = (logits[-1][rows].argmax(axis=1) == labels[rows]).mean()
    assert f"predicts the given label of {percent(share)} of the first 100 samples" in memorised
    assert agreement.startswith(f"On average, {percent(first['agree'].mean())} of the methods compared flag each")


def test_wide_intervals_few_samples_and_held_out_predictions_are_named(curves):
    logits, labels, _ = curves(0, samples=400)
    dynamics = errata.Dynamics.from_arrays(logits, labels)
    text = " ".join(lines_for(dynamics, NoiseRate(0.1, 0.01, 0.6, None, "")))
    assert "The estimates disagree widely" in text
    assert "With only 400 samples" in text
    assert "upper bound" not in text
    held_out = " ".join(lines_for(replace(dynamics, gathering="out-of-sample")))
    assert "the number of errors is an upper bound" in held_out
    assert "memorised" not in held_out


def test_without_an_estimate_only_the_epochs_are_named(curves):
    logits, labels, _ = curves(0)
    assert lines_for(errata.Dynamics.from_arrays(logits, labels), None) == ["The ranking uses all 12 epochs."]


def test_the_command_rank_prints_the_lines(errata_command, curves, tmp_path):
    logits, labels, _ = curves(0)
    np.savez(tmp_path / "run.npz", logits=logits, labels=labels)
    code, out, _ = errata_command("rank", "run.npz")
    assert code == 0
    lines = errata.find(tmp_path / "run.npz").summary["trust"]
    assert "how far to trust this:\n- " + "\n- ".join(lines) in out
