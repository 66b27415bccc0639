"""`--as-published`: each reading of the paper against an independent statement of it, and that `run` uses all."""

import json
from dataclasses import replace

import numpy as np
import pytest
from short_digits import DIGITS, EPOCHS, RecordedProgress
from sklearn.preprocessing import MinMaxScaler
from torch import nn

import errata
from errata.bench.plan import plan, suite
from errata.bench.results import Results
from errata.bench.running import as_published
from errata.bench.running.benchmark_run import BenchmarkRun
from errata.bench.running.campaign import RunOptions
from errata.core.methods import paper_methods, parse
from errata.datasets.loading import load_setting
from errata.datasets.registry import setting
from errata.errors import InputError
from errata.training.gather import gather
from errata.training.jobs import TrainingOptions
from errata.training.model_inputs import TableInputs
from errata.training.models import cnn9

FEATURES = {"cardiotocography": 21, "credit_fraud": 30, "human_activity": 63, "letter": 16, "mushroom": 67}
FEATURES |= {"satellite": 36, "sensorless_drive": 48}
BASES = {"cardiotocography": 0.5, "credit_fraud": 0.5, "human_activity": 1.5, "letter": 10, "mushroom": 1}
BASES |= {"satellite": 1.5, "sensorless_drive": 10}  # CTRL's factors of the number of features


def test_every_network_is_a_candidate_of_ctrl():
    for name in suite("tabular"):
        dataset = setting(name).dataset
        base = BASES[dataset] * FEATURES[dataset]
        first, second, *third = as_published.published_recipe(setting(name)).widths
        assert first in (int(2 * base), int(4 * base))
        assert second in (int(base), int(2 * base))
        assert third in ([], [int(base)])


def test_the_rest_of_a_recipe_is_as_printed():
    """tests/contracts compares the recipes of the settings with the paper's table."""
    for name in suite("paper"):
        published, printed = as_published.published_recipe(setting(name)), setting(name).recipe
        assert replace(published, widths=printed.widths) == printed


def test_a_setting_that_is_not_in_the_paper_is_refused(tmp_path, errata_command):
    with pytest.raises(InputError, match="digits-symmetric-20 is not in the paper"):
        as_published.published_recipe(setting(DIGITS))
    code, _, errors = errata_command("bench", "run", "--as-published", "--setting", DIGITS, "--out", str(tmp_path))
    assert code != 0
    assert "is not in the paper" in errors


def test_columns_are_scaled_as_by_scikit_learn():
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(50, 4)), 2 * rng.normal(size=(20, 4))
    train[:, 2] = test[:, 2] = 7.0
    scaler = MinMaxScaler(clip=True).fit(train)
    for table in (train, test):
        found = as_published.min_max_scaled(TableInputs(table), TableInputs(train)).values.numpy()
        np.testing.assert_allclose(found, scaler.transform(table), atol=1e-12)


@pytest.mark.parametrize("name", suite("paper"))
def test_alpha_is_the_printed_one(name):
    dataset = setting(name).dataset
    printed = {"cifar10": 1.0, "cifar10n": 1.0, "cifar100": 0.25, "clothing1m": 0.5, "food101n": 0.5}
    for method in paper_methods():
        found = as_published.published_method(method, dataset)
        if not method.name.startswith("CTRL"):
            assert found == method
            continue
        alpha = 0.0 if method.name == "CTRL-LM" else printed.get(dataset, 0.0)
        assert found == parse(f"CTRL(alpha={alpha})-{method.name.removeprefix('CTRL-')}")


def test_images_are_evaluated_with_dropout():
    drops = [
        [type(layer) is nn.Dropout2d for layer in model if isinstance(layer, nn.Dropout2d)]
        for model in (as_published.published_network(setting("cifar10n-worse"), 10)(), cnn9(10))
    ]
    assert drops == [[False, False], [True, True]]
    assert not any(
        isinstance(layer, nn.Dropout2d)
        for layer in as_published.published_network(setting("food101n"), 101)().modules()
    )


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Digits, in-sample, trained and scored as if they were in the paper, with the alpha of CIFAR-10."""
    folder = tmp_path_factory.mktemp("published")
    recipe = replace(setting(DIGITS).recipe, epochs=EPOCHS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("errata.bench.running.benchmark_run.published_recipe", lambda _: recipe)
        patch.setitem(as_published.ALPHA, "digits", 1.0)
        options = RunOptions("cpu", keep_dynamics=True, as_published=True)
        outcome = BenchmarkRun(folder, options, RecordedProgress()).run(plan([DIGITS], ["in-sample"], 1))
    assert not outcome.failed
    return Results(folder), recipe


def test_a_run_uses_the_scaled_table_balanced_classes_and_alpha(published):
    results, recipe = published
    (cell,) = results.cells()
    kept = errata.Dynamics.open(results.work(f"{DIGITS}-in-sample") / "seed0" / "dynamics")
    labelled = load_setting(DIGITS)
    scaled = MinMaxScaler().fit_transform(labelled.data.train_inputs.astype(np.float64)).astype(np.float32)
    (expected,) = gather(
        TableInputs(scaled),
        labelled.given,
        10,
        recipe.widths,
        recipe,
        options=TrainingOptions(class_weights="balanced"),
        device="cpu",
    )
    np.testing.assert_allclose(kept.logits, expected.dynamics.logits, rtol=1e-3, atol=1e-4)
    scores = results.scores(cell)
    wrong = int(scores["truth"].sum())
    np.testing.assert_array_equal(scores["CTRL-CE"], errata.score(kept, "CTRL(alpha=1)-CE", budget=wrong))
    np.testing.assert_array_equal(scores["MeanProb-LM"], errata.score(kept, "MeanProb-LM"))
    in_sample = [method.name for method in paper_methods() if method.gathering == "in-sample"]
    assert list(scores.columns.drop(["id", "given", "truth"])) == in_sample
    assert json.loads(results.numbers()["parameters"][0])["as_published"] is True


def test_results_as_published_have_a_folder_of_their_own(monkeypatch, errata_command):
    used = []

    class Stopped(BenchmarkRun):
        def run(self, cells):
            used.append((self.results.folder.as_posix(), self.options.as_published))
            return super().run([])

    monkeypatch.setattr("errata.bench.running.benchmark_run.BenchmarkRun", Stopped)
    for options in ([], ["--as-published"], ["--as-published", "--out", "other"]):
        assert errata_command("bench", "run", "--setting", "letter-symmetric-20", *options)[0] == 0
    assert used == [("results", False), ("results/as-published", True), ("other", True)]
