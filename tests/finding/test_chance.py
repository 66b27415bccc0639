"""A model that has learned nothing is said to have."""

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine

import errata
from errata.core.noise import symmetric
from errata.finding.chance import agreements, frequencies_loss, learned_nothing

SAID = "The model tells the classes apart no better than guessing by how frequent they are"


def coin_flips(samples, classes=2):
    rng = np.random.default_rng(5)
    return rng.normal(size=(samples, 6)), rng.integers(0, classes, samples)


@pytest.fixture
def run(errata_command):
    return partial(errata_command, "find")


def test_coin_flips_are_said_to_be_first_of_all_and_everywhere(run, tmp_path):
    inputs, labels = coin_flips(600)
    pd.DataFrame(inputs, columns=list("abcdef")).assign(y=labels).to_csv("coins.csv", index=False)
    code, out, _ = run("coins.csv", "--label", "y")
    assert code == 0
    assert out.count(SAID) == 1
    assert out.index(SAID) < out.index("most suspicious of")
    summary = json.loads((tmp_path / "errata-out" / "summary.json").read_text())
    assert summary["notes"][0].startswith(SAID)
    assert summary["held_out_loss"] == pytest.approx(np.log(2), abs=0.03)
    assert f'<p id="head">{SAID}' in (tmp_path / "errata-out" / "report.html").read_text()


def test_many_random_classes_are_told_by_boosting_and_in_folds():
    found = errata.find(*coin_flips(800, classes=20), folds=2)
    assert found.summary["notes"][0].startswith(SAID)
    again = errata.find(found.dynamics)
    assert again.summary["held_out_loss"] is None
    assert again.summary["notes"][0].startswith(SAID)
    assert "of the samples their label, and guessing" in again.summary["notes"][0]


@pytest.mark.parametrize("rate", [0.2, 0.4])
@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
def test_real_classes_are_learned_even_with_many_wrong_labels(load, rate):
    inputs, clean = load(return_X_y=True)
    found = errata.find(inputs, symmetric(clean, rate, num_classes=int(clean.max()) + 1, seed=0).labels)
    assert learned_nothing(found) == ""
    assert learned_nothing(errata.find(found.dynamics)) == ""


def test_rare_classes_that_are_never_suggested_may_be_known_all_the_same():
    labels = np.repeat([0, 1], [950, 50])
    logits = np.where(labels == 1, -0.5, -6.0)  # of class 1, against class 0: never preferred, but well told
    found = errata.find(errata.Dynamics.from_arrays(np.stack([0 * logits, logits], axis=1)[None], labels))
    assert agreements(found) == (0.95, 0.95)
    assert learned_nothing(found) == ""


def test_guessing_is_worth_the_entropy_of_the_labels():
    labels = np.repeat([0, 1, 2], [50, 25, 25])
    rng = np.random.default_rng(0)
    found = errata.find(errata.Dynamics.from_arrays(rng.normal(size=(3, 100, 3)), labels))
    assert frequencies_loss(found) == pytest.approx(1.5 * np.log(2))
