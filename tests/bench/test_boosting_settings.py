"""Settings with boosting run through the benchmark like settings with networks."""

import json

import lightgbm as lgb
import numpy as np
import pytest
from short_digits import DIGITS, RecordedProgress

from errata.bench.evaluation.run_tables import training_table
from errata.bench.plan import GATHERINGS, group_cells, plan, suite
from errata.bench.results import Results
from errata.bench.results_page import _recipe_text
from errata.bench.running.benchmark_run import BenchmarkRun
from errata.bench.running.campaign import RunOptions
from errata.bench.running.cell_training import reason_to_skip, table
from errata.core.methods import paper_methods
from errata.datasets.loading import load_setting
from errata.datasets.registry import setting, settings
from errata.training.recipes import BoostingRecipe
from errata.training.search import choose_rounds

TREES = f"{DIGITS}-boosting"
RECIPE = BoostingRecipe(epochs=5, learning_rate=0.3)


@pytest.fixture(scope="module")
def boosted(tmp_path_factory):
    """Digits boosted for a few rounds, both gatherings; the results and the number of rounds."""
    results = Results(tmp_path_factory.mktemp("boosted"))
    results.recipe_path(TREES).parent.mkdir(parents=True)
    RECIPE.save(results.recipe_path(TREES))
    progress = RecordedProgress()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        outcome = BenchmarkRun(results.folder, RunOptions(device="cpu"), progress).run(plan([TREES], GATHERINGS, 1))
    assert not outcome.failed, outcome.failed
    return results, progress.epochs


def test_every_table_of_the_suite_is_boosted_with_the_labels_that_its_network_has():
    names = suite("boosting")
    assert {name.removesuffix("-boosting") for name in names} >= {*suite("tabular"), DIGITS, "digits-pairflip-20"}
    for name in names:
        trees, network = settings()[name], settings()[name.removesuffix("-boosting")]
        assert (trees.dataset, trees.noise, trees.network) == (network.dataset, network.noise, "boosting")
        assert isinstance(trees.recipe, BoostingRecipe)
        assert not trees.in_paper
    assert not set(names) & {*suite("paper"), *suite("quick"), *suite("noise")}


def test_trees_are_trained_and_scored_by_every_method_of_the_paper(boosted):
    results, rounds = boosted
    assert rounds == RECIPE.epochs * (1 + 4)
    numbers = results.numbers()
    assert set(numbers["method"]) >= {method.name for method in paper_methods()}
    assert set(numbers["device"]) == {"cpu"}
    fnr = numbers[numbers["metric"] == "fnr"].set_index("method")["value"]
    assert fnr[["MeanProb-LM", "Last-LM (OOS)"]].max() < 0.5  # a random ranking has 0.8


def test_the_test_accuracy_is_that_of_the_same_trees(boosted):
    numbers = boosted[0].numbers()
    (accuracy,) = numbers.loc[numbers["metric"] == "test_accuracy", "value"]
    parameters = {
        "objective": "multiclass",
        "num_class": 10,
        "learning_rate": 0.3,
        "lambda_l2": 5,
        "bagging_fraction": 0.7,
        "bagging_freq": 1,
        "feature_fraction": 0.7,
        "seed": 0,
        "deterministic": True,
        "force_col_wise": True,
        "verbose": -1,
    }
    labelled = load_setting(TREES)
    model = lgb.train(parameters, lgb.Dataset(labelled.data.train_inputs, labelled.given), RECIPE.epochs)
    classes = model.predict(labelled.data.test_inputs).argmax(axis=1)
    assert accuracy == np.mean(classes == labelled.data.test_labels)


def test_tables_and_reports_say_how_trees_were_trained(boosted):
    results, _ = boosted
    (row,) = [row for row in training_table(results).rows if row[0].text == TREES]
    assert [entry.text for entry in row[1:]] == ["ours", "boosting", "", "", "", "0.3", "", "", "5", ""]
    text = _recipe_text(json.loads(results.numbers()["parameters"][0]))
    assert "5 rounds of trees of 31 leaves from 70% of the rows and 70% of the columns" in text


def test_no_gpu_is_asked_for_however_long_it_takes(tmp_path):
    (group,) = group_cells(plan([TREES], ["in-sample"], 1))
    assert reason_to_skip(group, RECIPE, load_setting(TREES), "cpu auto", tmp_path) is None
    assert "GPU" not in str(reason_to_skip(group, BoostingRecipe(10**9), load_setting(TREES), "cpu auto", tmp_path))


def test_rounds_are_chosen_by_the_command_and_then_used(tmp_path, errata_command):
    code, out, _ = errata_command("bench", "choose", "--setting", TREES, "--out", tmp_path)
    assert code == 0
    chosen = Results(tmp_path).recipe(setting(TREES))
    labelled = load_setting(TREES)
    assert chosen == choose_rounds(table(labelled, "train"), labelled.given, 10)
    assert f"{TREES}: {chosen.epochs} rounds" in out
