"""Recipes are chosen for a setting, stored with its results, and used by `run`."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from short_digits import DIGITS

from errata.bench.results import Results
from errata.bench.running.cell_training import table
from errata.bench.running.cell_training import test_accuracy as accuracy_of_model
from errata.bench.running.recipe_choice import PRINTED_SEEDS, choose_for, choose_printed
from errata.datasets.loading import load_setting
from errata.datasets.registry import setting
from errata.errors import InputError
from errata.training.gather import gather
from errata.training.search import choose_recipe

NETWORKS = [(16,), (4,), (32, 16)]


@pytest.fixture(autouse=True)
def few_networks(monkeypatch):
    monkeypatch.setattr("errata.training.search.candidate_widths", lambda *_: NETWORKS)


def test_the_chosen_recipe_is_used_by_run_and_the_candidates_are_stored(tmp_path, monkeypatch):
    monkeypatch.setattr("errata.bench.running.recipe_choice.MAX_EPOCHS", 6)
    shares = []
    summary = choose_for(DIGITS, tmp_path, None, "cpu", shares.append)
    labelled = load_setting(DIGITS)
    found = choose_recipe(
        table(labelled, "train"), labelled.given, 10, batch_size=setting(DIGITS).recipe.batch_size, max_epochs=6
    )
    assert Results(tmp_path).recipe(setting(DIGITS)) == found.recipe
    assert f"{found.recipe.epochs} epochs: {found.accuracy:.2%} of noisy labels" in summary
    kept = pd.read_csv(Results(tmp_path).recipe_path(DIGITS).with_suffix(".csv"))
    assert kept["widths"].astype(str).tolist() == ["-".join(map(str, one)) for one in found.table["widths"]]
    assert sum(shares) == pytest.approx(1)


def test_networks_are_ordered_by_distance_to_the_printed_accuracy():
    labelled, recipe = load_setting(DIGITS), replace(setting(DIGITS).recipe, epochs=12)
    wanted, shares = 0.8, []
    found = choose_printed(labelled, recipe, wanted, "cpu", shares.append)
    assert sum(shares) == pytest.approx(1)
    assert sorted(found["widths"]) == sorted(NETWORKS)
    np.testing.assert_allclose(found["difference"], found["test_accuracy"] - wanted)
    assert found["difference"].abs().is_monotonic_increasing
    # Over ten epochs a network gets better: their mean lies below what the run itself ends with, and not far.
    data = table(labelled, "train"), labelled.given, 10
    for widths, mean in zip(found["widths"], found["test_accuracy"], strict=True):
        own = replace(recipe, widths=widths)
        early, end = (
            np.mean(
                [
                    accuracy_of_model(labelled, ran, run, "cpu")
                    for run in gather(*data, widths, ran, seeds=PRINTED_SEEDS)
                ]
            )
            for ran in (replace(own, epochs=3), own)
        )
        assert early < mean < end


def test_a_setting_that_is_not_in_the_paper_has_no_printed_training(tmp_path):
    with pytest.raises(InputError, match="the paper prints no training of digits-symmetric-20"):
        choose_for(DIGITS, tmp_path, None, "cpu", lambda _: None, printed=True)
