"""Recipes are chosen for a setting, stored with its results, and used by `run`."""

import pandas as pd
import pytest
from short_digits import DIGITS

from errata.bench.results import Results
from errata.bench.running.cell_training import table
from errata.bench.running.recipe_choice import choose_for
from errata.datasets.loading import load_setting
from errata.datasets.registry import setting
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
