from functools import partial
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_iris

import errata
from errata import InputError
from errata.core.noise import symmetric
from errata.readers import open_data
from errata.training import search as searching
from errata.training.model_inputs import TableInputs
from errata.training.recipes import Recipe
from errata.training.search import candidate_widths, choose_recipe, clear_difference
from errata.training.trials import SearchJournal

SAMPLES, CLASSES = 60, 3


@pytest.fixture
def data():
    """A table (N, 4) whose first column is the number of the sample, and labels (N,) that depend on the second."""
    rng = np.random.default_rng(0)
    labels = np.arange(SAMPLES) % CLASSES
    inputs = rng.normal(size=(SAMPLES, 4)).astype(np.float32)
    inputs[:, 0] = np.arange(SAMPLES) / SAMPLES
    inputs[:, 1] += 2 * labels
    return TableInputs(inputs), labels


# The networks.


def test_one_base_gives_the_eight_networks_of_ctrl():
    assert candidate_widths(2, 2) == [
        (16, 8), (16, 16), (32, 8), (32, 16), (16, 8, 8), (16, 16, 8), (32, 8, 8), (32, 16, 8),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("features", "classes", "ctrl_smallest", "wanted"),
    [
        (21, 3, (21, 10), (16, 8)),
        (30, 2, (30, 15), (16, 8)),
        (64, 6, (90, 45), (16, 8)),
        (16, 26, (320, 160), (128, 64)),
        (67, 2, (134, 67), (16, 8)),
        (36, 6, (108, 54), (16, 8)),
        (48, 11, (960, 480), (16, 8)),
    ],
)
def test_networks_are_also_smaller_than_those_of_ctrl(features, classes, ctrl_smallest, wanted):
    """Satellite's and Human Activity's best are smaller than CTRL's; Letter's is 128-64."""
    networks = candidate_widths(features, classes)
    assert wanted in networks
    assert wanted < ctrl_smallest


@given(st.integers(1, 4000), st.integers(2, 300))
def test_networks_are_distinct_with_two_or_three_layers_that_do_not_widen(features, classes):
    networks = candidate_widths(features, classes)
    assert len(set(networks)) == len(networks) >= 8
    for network in networks:
        assert len(network) in (2, 3)
        assert list(network) == sorted(network, reverse=True)
        assert min(network) >= max(8, classes / 2)


# The whole search.


def choose(*data, widths, learning_rates=searching.LEARNING_RATES, weight_decays=searching.WEIGHT_DECAYS, **options):
    """`choose_recipe` among few candidates."""
    with mock.patch.multiple(
        searching,
        candidate_widths=lambda *_: widths,
        LEARNING_RATES=learning_rates,
        WEIGHT_DECAYS=weight_decays,
    ):
        return choose_recipe(*data, **options)


SMALL = {"max_epochs": 16, "batch_size": 128, "widths": [(16, 8), (32,)], "learning_rates": (1e-3, 1e-2)}


@pytest.fixture(scope="module")
def digits():
    """Digits with wrong labels."""
    inputs, labels = load_digits(return_X_y=True)
    return TableInputs((inputs / 16).astype(np.float32)), symmetric(labels, 0.2, num_classes=10, seed=0).labels


@pytest.fixture(scope="module")
def searched(digits):
    reported = []
    choice = choose(*digits, 10, **SMALL, device="cpu", progress=reported.append)
    return choice, reported


def test_the_best_of_all_candidates_is_chosen(searched):
    choice, reported = searched
    table = choice.table
    columns = ["widths", "learning_rate", "weight_decay", "epochs", "accuracy", "parameters", "trained", "stopped"]
    assert table.columns.tolist() == columns
    assert len(table) == len(table[["widths", "learning_rate", "weight_decay"]].drop_duplicates()) == 8
    assert table["accuracy"].is_monotonic_decreasing
    assert 0.5 < choice.accuracy == table["accuracy"][0] < 0.9  # a fifth of the validation labels are wrong
    best = table.iloc[0]
    assert choice.recipe == Recipe(
        best["epochs"], 128, best["learning_rate"], best["weight_decay"], seed=0, widths=best["widths"]
    )
    parameters = {(16, 8): 64 * 16 + 16 + 16 * 8 + 8 + 8 * 10 + 10, (32,): 64 * 32 + 32 + 32 * 10 + 10}
    assert [parameters[widths] for widths in table["widths"]] == table["parameters"].tolist()
    assert (table["trained"] == 16).all()
    assert table["stopped"].isna().all()
    assert sum(reported) == pytest.approx(1)


def test_a_candidate_has_the_same_result_alone(digits, searched):
    choice, _ = searched
    best = choice.recipe
    only = {**SMALL, "widths": [best.widths], "learning_rates": (best.learning_rate,)}
    alone = choose(*digits, 10, **only, weight_decays=(best.weight_decay,), device="cpu")
    assert (alone.recipe, alone.accuracy) == (best, choice.accuracy)


def test_a_search_is_deterministic_and_does_not_modify_its_input(digits, searched):
    choice, _ = searched
    table, labels = digits
    before = table.values.clone(), labels.copy()
    torch.rand(7)
    again = choose(table, labels, 10, **SMALL, device="cpu")
    pd.testing.assert_frame_equal(again.table, choice.table)
    assert again.recipe == choice.recipe
    assert torch.equal(table.values, before[0])
    np.testing.assert_array_equal(labels, before[1])


def test_a_killed_search_resumes_with_the_same_result(digits, tmp_path, monkeypatch):
    journal, arguments, ran = tmp_path / "search.json", {"widths": [(8,), (6,), (4,)], "max_epochs": 8}, []

    def choose_again(inputs, labels, **more):
        shares = []
        rates = {"learning_rates": (1e-2,), "weight_decays": (0.0, 1e-3)}
        choice = choose(inputs, labels, 10, **arguments, **rates, progress=shares.append, **more)
        assert sum(shares) == pytest.approx(1)
        return choice

    whole = choose_again(*digits)
    trials = searching.accuracy_trials

    def stop_after_two(split, table, network, *rest):
        if len(ran) == 2:
            raise KeyboardInterrupt
        ran.append(network)
        return trials(split, table, network, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(searching, "accuracy_trials", stop_after_two)
        with pytest.raises(KeyboardInterrupt):
            choose_again(*digits, journal=journal)
    assert journal.exists()
    resumed_with = []

    def note(split, table, network, *rest):
        resumed_with.append(network)
        return trials(split, table, network, *rest)

    monkeypatch.setattr(searching, "accuracy_trials", note)
    resumed = choose_again(*digits, journal=journal)
    pd.testing.assert_frame_equal(resumed.table, whole.table)
    assert resumed.recipe == whole.recipe
    assert ran == [(8,), (6,)]
    assert resumed_with[0] == (4,)
    assert not journal.exists()


def test_the_journal_of_another_search_is_ignored(digits, tmp_path):
    inputs, labels = digits
    journal = tmp_path / "search.json"
    SearchJournal(journal, "another").results([], 1, lambda _: None, lambda _: [])
    arguments = {"widths": [(4,)], "max_epochs": 3, "learning_rates": (1e-2,), "weight_decays": (0.0,)}
    choice = choose(inputs, labels, 10, **arguments, journal=journal)
    assert choice.recipe == choose(inputs, labels, 10, **arguments).recipe


def test_among_equal_candidates_the_smallest_wins():
    """Two separated groups: every network reaches an accuracy of 1."""
    inputs = np.repeat([[-5.0], [5.0]], 50, axis=0).astype(np.float32)
    choice = choose(
        TableInputs(inputs),
        np.repeat([0, 1], 50),
        2,
        max_epochs=40,
        batch_size=8,
        widths=[(40, 40), (30,), (64,)],
        learning_rates=(0.05,),
        device="cpu",
    )
    assert choice.accuracy == 1
    assert choice.recipe.widths == (30,)
    assert choice.recipe.weight_decay == 0  # the first of its kind


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_diverged_candidate_is_listed_with_its_reason_and_not_chosen(data):
    rates = {"max_epochs": 5, "batch_size": 8, "widths": [(8,)], "device": "cpu"}
    choice = choose(*data, CLASSES, **rates, learning_rates=(1e30, 1e-2), weight_decays=(0.0,))
    assert choice.recipe.learning_rate == 1e-2
    last = choice.table.iloc[-1]
    assert last["learning_rate"] == 1e30
    assert last["stopped"].startswith("8 at learning rate 1e+30 and weight decay 0 diverged")
    assert np.isnan(last["accuracy"])
    with pytest.raises(InputError, match="every candidate diverged"):
        choose(*data, CLASSES, **rates, learning_rates=(1e30,))


def test_bad_input_is_refused_before_training(data):
    table, labels = data
    for given_labels, options, message in (
        (labels[:5], {}, "there are 5 labels for 60 samples"),
        (labels + 1, {}, r"label of sample 2 is 3, outside 0\.\.2"),
        (labels, {"max_epochs": 0}, "epochs of a recipe must be a whole number, 1 or above"),
        (labels, {"seed": -1}, "seed of a recipe must be a whole number"),
        (labels, {"device": "abacus"}, "no device named 'abacus'"),
    ):
        with pytest.raises(InputError, match=message):
            choose_recipe(table, given_labels, CLASSES, **options)


# The choice of a model.


@pytest.mark.parametrize(("samples", "share"), [(150, 0.02), (10_000, 0.02), (40_000, 0.01)])
def test_with_more_samples_a_smaller_difference_is_clear(samples, share):
    assert clear_difference(samples) == pytest.approx(share)


def test_trials_use_a_part_of_very_many_samples():
    assert clear_difference(1_000_000) == clear_difference(50_000) == pytest.approx(0.02 / 5**0.5)


# The command.

MANY, BOTH = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
PICTURES = np.random.default_rng(0).integers(0, 255, (20, 16, 16, 3))


@pytest.fixture
def run(errata_command):
    return partial(errata_command, "choose")


@pytest.mark.parametrize("named", [False, True])
def test_the_command_writes_the_recipe_of_the_library(run, tmp_path, monkeypatch, named):
    monkeypatch.setattr("errata.training.search.candidate_widths", lambda *_: [(16, 8), (8,)])
    iris = load_iris()
    inputs = iris.data - iris.data.mean(axis=0)
    noisy = symmetric(iris.target, 0.2, num_classes=3, seed=0).labels
    np.savez(tmp_path / "iris.npz", inputs=inputs, labels=np.array(["a", "b", "c"])[noisy] if named else noisy)
    options = "--max-epochs", 12, "--batch-size", 32, "--seed", 4, "--device", "cpu"
    code, printed, errors = run("iris.npz", "--out", "best.json", *options)
    assert (code, errors) == (0, "")
    standardised = open_data((inputs, noisy)).prepare().matrix  # the inputs that `errata find` trains on
    expected = choose_recipe(TableInputs(standardised), noisy, 3, max_epochs=12, batch_size=32, seed=4)
    assert Recipe.load(tmp_path / "best.json") == expected.recipe
    first = next(line for line in printed.splitlines() if "%" in line)
    assert "-".join(map(str, expected.recipe.widths)) in first
    assert f"{expected.accuracy:.2%}" in first
    assert printed.count("%") == len(expected.table)


@pytest.mark.parametrize(
    ("arrays_given", "options", "message"),
    [
        ({"inputs": MANY}, (), "has no labels named 'y' or 'labels' or 'target'"),
        ({"labels": BOTH}, (), "has neither inputs"),
        ({"inputs": MANY, "labels": np.zeros(20)}, (), "has one class"),
        ({"inputs": MANY, "labels": [0, 1, 0.5, *range(17)]}, (), "It looks like a measured quantity, not a label"),
        ({"inputs": np.ones((0, 2)), "labels": np.ones(0)}, (), "Inputs must be numbers"),
        ({"inputs": MANY[:, 0], "labels": BOTH}, (), "Inputs must be numbers"),
        ({"inputs": np.where(MANY[3] == MANY, np.nan, MANY), "labels": BOTH}, (), "Row 3 of the inputs has a value"),
        ({"inputs": MANY[:4], "labels": BOTH[:4]}, (), "there are 4 samples"),
        ({"inputs": PICTURES, "labels": BOTH}, (), "mlp does not take images"),
        ({"logits": MANY, "labels": BOTH}, (), "data.npz holds recorded logits"),
        ({"inputs": MANY, "labels": BOTH}, ("--device", "abacus"), "no device named 'abacus'"),
        ({"inputs": MANY, "labels": BOTH}, ("--seed", 2**64), "seed must be a whole number"),
        ({"inputs": MANY, "labels": BOTH}, ("--batch-size", 2**64), "batch_size of a recipe must be a whole number"),
        ({"inputs": MANY, "labels": BOTH}, ("--out", "r.txt"), "r.txt must end in .json"),
        ({"inputs": MANY, "labels": BOTH}, ("--out", "no/r.json"), "the folder no does not exist"),
    ],
)
def test_the_command_refuses_in_one_line_and_writes_nothing(run, tmp_path, arrays_given, options, message):
    np.savez(tmp_path / "data.npz", **arrays_given)
    code, printed, errors = run("data.npz", *options)
    assert (code, printed) == (2, "")
    assert message in errors
    assert errors.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["data.npz"]


def test_the_recipe_of_a_table_is_used_by_find(run, tmp_path, monkeypatch):
    monkeypatch.setattr("errata.training.search.candidate_widths", lambda *_: [(8,)])
    inputs = np.random.default_rng(0).normal(size=(60, 3))
    columns = {"a": inputs[:, 0], "b": inputs[:, 1], "key": inputs[:, 2], "kind": np.where(inputs[:, 0] > 0, "x", "y")}
    pd.DataFrame(columns).to_csv(tmp_path / "table.csv", index=False)
    options = ("--label", "kind", "--ignore", "key", "--max-epochs", 6, "--batch-size", 16, "--device", "cpu")
    code, _, errors = run("table.csv", *options)
    assert (code, errors) == (0, "")
    recipe = Recipe.load(tmp_path / "recipe.json")
    found = errata.find("table.csv", "kind", ignore="key", recipe="recipe.json", folds=2)
    assert recipe.widths == (8,)
    assert found.dynamics.epochs == recipe.epochs
    assert found.summary["model"].startswith("an MLP of 8 hidden units")
    assert found.dynamics.inputs.shape == (60, 2)
    assert "recipe.json" in found.summary["model_choice"]
    with pytest.raises(InputError, match="`recipe=` is for an MLP"):
        errata.find("table.csv", "kind", recipe="recipe.json", model="boosting")
