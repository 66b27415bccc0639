import json
from dataclasses import asdict, replace

import lightgbm as lgb
import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from errata import InputError
from errata.core.held_out_models import assign_folds
from errata.dynamics.store import Dynamics
from errata.errors import StoreError
from errata.training.boosting import PATIENCE, boosted_classes
from errata.training.gather import gather
from errata.training.model_inputs import TableInputs
from errata.training.recipes import BoostingRecipe, Recipe
from errata.training.search import VALIDATION, choose_rounds
from errata.training.trials import stratified_sample

SAMPLES, CLASSES = 240, 3
RECIPE = BoostingRecipe(epochs=6, learning_rate=0.2, leaves=7, l2=1.0, row_share=0.8, column_share=0.5, seed=9)


@pytest.fixture(scope="module")
def data():
    """A table (N, 5), with a constant column, and labels (N,), some of them wrong."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, SAMPLES)
    values = rng.normal(3.0, 2.0, size=(SAMPLES, 5)).astype(np.float32)
    values[np.arange(SAMPLES), labels] += 4.0
    values[:, 4] = 7.0
    return TableInputs(values), np.where(rng.random(SAMPLES) < 0.1, (labels + 1) % CLASSES, labels)


@pytest.fixture(scope="module")
def pairs(data):
    """Two classes only."""
    table, labels = data
    return table, np.minimum(labels, 1)


def spelled_out(recipe, classes=CLASSES):
    """The recipe as LightGBM parameters with their full names."""
    task = {"objective": "multiclass", "num_class": classes} if classes > 2 else {"objective": "binary"}
    return task | {
        "eta": recipe.learning_rate,
        "max_leaves": recipe.leaves,
        "reg_lambda": recipe.l2,
        "subsample": recipe.row_share,
        "subsample_freq": 1,
        "colsample_bytree": recipe.column_share,
        "random_seed": recipe.seed,
        "verbosity": -1,
        "deterministic": True,
        "force_col_wise": True,
    }


# Dynamics.


def test_in_sample_dynamics_are_those_of_one_model_on_all_samples(data):
    table, labels = data
    first, second = gather(table, labels, CLASSES, None, RECIPE, seeds=(4, np.int64(5)))
    assert (first.seed, second.seed, first.weights, first.stopped) == (4, 5, (), None)
    for gathered in (first, second):
        dynamics = gathered.dynamics
        inputs = table.values.numpy()
        parameters = spelled_out(RECIPE.with_seed(gathered.seed))
        model = lgb.train(parameters, lgb.Dataset(inputs, labels), RECIPE.epochs)
        for rounds in range(1, RECIPE.epochs + 1):
            expected = log_softmax(model.predict(inputs, raw_score=True, num_iteration=rounds), axis=1)
            np.testing.assert_allclose(dynamics.logits[rounds - 1], expected, rtol=0, atol=1e-5)
        assert dynamics.gathering == "in-sample"
        np.testing.assert_array_equal(dynamics.labels, labels)
    assert not np.array_equal(first.dynamics.logits, second.dynamics.logits)


def test_out_of_sample_dynamics_come_from_models_not_trained_on_the_sample(data):
    table, labels = data
    (gathered,) = gather(table, labels, CLASSES, None, RECIPE, folds=3, seeds=(4,))
    dynamics = gathered.dynamics
    fold = assign_folds(labels, 3)
    np.testing.assert_array_equal(dynamics.fold, fold)
    assert dynamics.gathering == "out-of-sample"
    inputs = table.values.numpy()
    for k in range(3):
        train, held_out = fold != k, fold == k
        parameters = spelled_out(RECIPE.with_seed(4))
        model = lgb.train(parameters, lgb.Dataset(inputs[train], labels[train]), RECIPE.epochs)
        for rounds in (1, RECIPE.epochs):
            expected = log_softmax(model.predict(inputs[held_out], raw_score=True, num_iteration=rounds), axis=1)
            np.testing.assert_allclose(dynamics.logits[rounds - 1, held_out], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("folds", [None, 4])
def test_inputs_are_stored_as_scaled_columns(data, folds):
    table, labels = data
    (gathered,) = gather(table, labels, CLASSES, None, RECIPE, folds=folds)
    expected = StandardScaler().fit_transform(table.values.numpy().astype(np.float64))
    np.testing.assert_allclose(gathered.dynamics.inputs, expected, rtol=0, atol=1e-4)
    assert gathered.dynamics.features is None


def test_two_classes_are_recorded_as_zero_and_the_margin(pairs):
    table, labels = pairs
    (gathered,) = gather(table, labels, 2, None, RECIPE)
    inputs = table.values.numpy()
    model = lgb.train(spelled_out(RECIPE.with_seed(0), 2), lgb.Dataset(inputs, labels), RECIPE.epochs)
    assert (gathered.dynamics.logits[:, :, 0] == 0).all()
    expected = model.predict(inputs, raw_score=True)
    np.testing.assert_allclose(gathered.dynamics.logits[-1, :, 1], expected, rtol=0, atol=1e-5)


def test_a_class_missing_from_a_fold_still_has_a_column():
    rng = np.random.default_rng(1)
    table = TableInputs(rng.normal(size=(80, 3)).astype(np.float32))
    labels = np.array([2] + [0, 1] * 39 + [0])
    (gathered,) = gather(table, labels, 3, None, RECIPE, folds=2)
    assert gathered.dynamics.logits.shape == (RECIPE.epochs, 80, 3)


# In a folder.


def test_a_finished_seed_is_reused_from_the_folder(data, tmp_path, monkeypatch):
    table, labels = data
    reported = []
    (first,) = gather(table, labels, CLASSES, None, RECIPE, folder=tmp_path, progress=reported.append)
    assert sum(reported) == RECIPE.epochs
    assert first.dynamics.path == tmp_path / "seed0" / "dynamics"
    train, trained = lgb.train, []
    monkeypatch.setattr(lgb, "train", lambda *rest, **more: (trained.append(1), train(*rest, **more))[1])
    reported.clear()
    again = gather(table, labels, CLASSES, None, RECIPE, seeds=(0, 1), folder=tmp_path, progress=reported.append)
    assert trained == [1]
    assert sum(reported) == 2 * RECIPE.epochs
    np.testing.assert_array_equal(again[0].dynamics.logits, first.dynamics.logits)
    (alone,) = gather(table, labels, CLASSES, None, RECIPE, seeds=(1,))
    np.testing.assert_array_equal(again[1].dynamics.logits, alone.dynamics.logits)


def test_folds_are_merged_once(data, tmp_path):
    table, labels = data
    (first,) = gather(table, labels, CLASSES, None, RECIPE, folds=4, folder=tmp_path)
    assert first.dynamics.path == tmp_path / "seed0-folds"
    (again,) = gather(table, labels, CLASSES, None, RECIPE, folds=4, folder=tmp_path)
    np.testing.assert_array_equal(again.dynamics.logits, first.dynamics.logits)
    assert again.dynamics.settings == asdict(RECIPE.with_seed(0))


@pytest.mark.parametrize("folds", [None, 4])
def test_a_killed_training_restarts_and_leaves_no_partial_files(data, tmp_path, folds):
    table, labels = data
    rounds = []

    def kill(_):
        rounds.append(1)
        if len(rounds) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gather(table, labels, CLASSES, None, RECIPE, folds=folds, folder=tmp_path, progress=kill)
    assert not list(tmp_path.glob("*/dynamics"))
    (gathered,) = gather(table, labels, CLASSES, None, RECIPE, folds=folds, folder=tmp_path)
    (straight,) = gather(table, labels, CLASSES, None, RECIPE, folds=folds)
    np.testing.assert_array_equal(gathered.dynamics.logits, straight.dynamics.logits)
    assert not list(tmp_path.rglob("*.unfinished"))


@pytest.mark.parametrize("changed", [{"leaves": 5}, {"epochs": 7}, {"l2": 0.0}])
def test_a_run_with_another_recipe_is_refused(data, tmp_path, changed):
    table, labels = data
    gather(table, labels, CLASSES, None, RECIPE, folder=tmp_path)
    with pytest.raises(StoreError, match=f"different {next(iter(changed))}"):
        gather(table, labels, CLASSES, None, replace(RECIPE, **changed), folder=tmp_path)
    with pytest.raises(StoreError, match="different label_hash"):
        gather(table, labels[::-1], CLASSES, None, RECIPE, folder=tmp_path)


def test_the_stored_model_predicts_as_the_last_round(data, pairs, tmp_path):
    for classes, (table, labels) in ((CLASSES, data), (2, pairs)):
        (gathered,) = gather(table, labels, classes, None, RECIPE, folder=tmp_path / str(classes))
        last = np.asarray(gathered.dynamics.logits[-1]).argmax(axis=1)
        np.testing.assert_array_equal(boosted_classes(gathered.dynamics, table), last)
        reopened = Dynamics.open(tmp_path / str(classes) / "seed0" / "dynamics")
        np.testing.assert_array_equal(boosted_classes(reopened, table), last)
    (in_memory,) = gather(*data, CLASSES, None, RECIPE)
    with pytest.raises(InputError, match="stored in a folder"):
        boosted_classes(in_memory.dynamics, data[0])


# The number of rounds.


@pytest.mark.parametrize("classes", [CLASSES, 2])
def test_the_chosen_rounds_have_the_lowest_validation_log_loss(data, pairs, classes):
    table, labels = data if classes == CLASSES else pairs
    recipe = BoostingRecipe(
        epochs=PATIENCE, learning_rate=0.3, leaves=7, seed=3
    )  # so few that patience never ends them
    chosen = choose_rounds(table, labels, classes, recipe)
    inputs = table.values.numpy()
    held_out = stratified_sample(labels, VALIDATION, 3)
    rest = np.setdiff1d(np.arange(SAMPLES), held_out)
    model = lgb.train(spelled_out(recipe, classes), lgb.Dataset(inputs[rest], labels[rest]), recipe.epochs)
    losses = [
        log_loss(labels[held_out], model.predict(inputs[held_out], num_iteration=rounds), labels=range(classes))
        for rounds in range(1, recipe.epochs + 1)
    ]
    assert chosen == replace(recipe, epochs=int(np.argmin(losses)) + 1)
    assert 1 < chosen.epochs < recipe.epochs


def test_the_search_stops_early(data):
    reported = []
    chosen = choose_rounds(*data, CLASSES, BoostingRecipe(epochs=1000, learning_rate=0.5), progress=reported.append)
    assert sum(reported) == chosen.epochs + PATIENCE < 1000
    assert choose_rounds(*data, CLASSES).learning_rate == BoostingRecipe(1).learning_rate


# Recipes and errors.


def test_a_recipe_is_read_back_unchanged(tmp_path):
    RECIPE.save(tmp_path / "recipe.json")
    assert BoostingRecipe.load(tmp_path / "recipe.json") == RECIPE
    assert json.loads((tmp_path / "recipe.json").read_text()) == asdict(RECIPE)
    Recipe(3, 4, 0.1).save(tmp_path / "network.json")
    with pytest.raises(StoreError, match=r"network\.json is not a recipe"):
        BoostingRecipe.load(tmp_path / "network.json")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epochs": 0}, "epochs of a recipe must be a whole number, 1 or above"),
        ({"leaves": 1}, "leaves of a recipe must be a whole number, 2 or above"),
        ({"learning_rate": 0.0}, "learning_rate > 0"),
        ({"l2": -1.0}, "l2 >= 0"),
        ({"row_share": 0.0}, "row_share"),
        ({"column_share": 1.1}, "column_share"),
        ({"row_share": float("nan")}, "row_share"),
    ],
)
def test_invalid_recipes_are_refused(changed, message):
    with pytest.raises(InputError, match=message):
        replace(RECIPE, **changed)


def test_labels_that_do_not_match_are_refused(data):
    table, labels = data
    for folds in (None, 4):
        with pytest.raises(InputError, match="there are 239 labels for 240 samples"):
            gather(table, labels[:-1], CLASSES, None, RECIPE, folds=folds)
        with pytest.raises(InputError, match="at least two classes"):
            gather(table, labels, 1, None, RECIPE, folds=folds)
    with pytest.raises(InputError, match=r"outside 0\.\.1"):
        choose_rounds(table, labels, 2, RECIPE)
