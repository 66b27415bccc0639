import lightgbm as lgb
import numpy as np
import pytest
from scipy.special import expit, log_softmax

import errata
from errata.errors import InputError, StoreError
from errata.integrations.lightgbm import HIGHEST, LOWEST, LightGBMRecorder

ROUNDS = 12
TWO = {"objective": "binary", "verbose": -1, "num_threads": 1, "num_leaves": 7}
FOUR = {"objective": "multiclass", "num_class": 4, "verbose": -1, "num_threads": 1, "num_leaves": 7}
STOCHASTIC = {"bagging_fraction": 0.6, "bagging_freq": 1, "feature_fraction": 0.6, "seed": 3}


def record(parameters, data, recorder=None, rounds=ROUNDS, **train):
    """Train with a recorder; the model and the dynamics."""
    recorder = recorder or LightGBMRecorder(quiet=True, dtype="float64")
    callbacks = [recorder, *train.pop("callbacks", ())]
    model = lgb.train(parameters, data, rounds, callbacks=callbacks, **train)
    return model, recorder.finish()


def raw(model, inputs, rounds):
    """The margins after that many rounds, from evaluating all trees."""
    return model.predict(inputs, raw_score=True, num_iteration=rounds)


# Recorded margins equal predictions.


@pytest.mark.parametrize("changed", [{}, STOCHASTIC, {"boosting": "goss"}], ids=["plain", "stochastic", "goss"])
def test_recorded_margins_equal_the_predictions(four, changed):
    inputs, labels = four
    model, dynamics = record(FOUR | changed, lgb.Dataset(inputs, labels))
    assert dynamics.logits.shape == (ROUNDS, len(labels), 4)
    for rounds in range(1, ROUNDS + 1):
        expected = log_softmax(raw(model, inputs, rounds), axis=1)
        np.testing.assert_allclose(dynamics.logits[rounds - 1], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("changed", [{}, STOCHASTIC, {"is_unbalance": True}, {"sigmoid": 1.7}])
def test_two_classes_are_recorded_as_zero_and_the_log_odds(two, changed):
    inputs, labels = two
    model, dynamics = record(TWO | changed, lgb.Dataset(inputs, labels))
    assert (dynamics.logits[:, :, 0] == 0).all()
    for rounds in range(1, ROUNDS + 1):
        expected = changed.get("sigmoid", 1.0) * raw(model, inputs, rounds)
        np.testing.assert_allclose(dynamics.logits[rounds - 1, :, 1], expected, rtol=0, atol=1e-10)


def test_one_against_all_is_recorded_as_one_margin_per_class(four):
    inputs, labels = four
    model, dynamics = record(FOUR | {"objective": "ovr"}, lgb.Dataset(inputs, labels))
    np.testing.assert_allclose(dynamics.logits[-1], raw(model, inputs, ROUNDS), rtol=0, atol=1e-10)
    np.testing.assert_allclose(dynamics.logits[4], raw(model, inputs, 5), rtol=0, atol=1e-10)


def test_a_custom_objective_is_recorded_by_its_raw_scores(two):
    inputs, labels = two

    def logistic(scores, data):
        chance = expit(scores)
        return chance - data.get_label(), chance * (1 - chance)

    model, dynamics = record(TWO | {"objective": logistic}, lgb.Dataset(inputs, labels))
    for rounds in (1, 5, ROUNDS):
        np.testing.assert_allclose(dynamics.logits[rounds - 1, :, 1], raw(model, inputs, rounds), rtol=0, atol=1e-12)


def test_the_initial_score_is_included(two):
    inputs, labels = two
    start = np.linspace(-1, 1, len(labels))
    model, dynamics = record(TWO, lgb.Dataset(inputs, labels, init_score=start))
    np.testing.assert_allclose(dynamics.logits[-1, :, 1], start + raw(model, inputs, ROUNDS), rtol=0, atol=1e-10)
    before = lgb.train(TWO, lgb.Dataset(inputs, labels), 5)
    model, dynamics = record(TWO, lgb.Dataset(inputs, labels, free_raw_data=False), init_model=before)
    assert dynamics.epochs == ROUNDS
    for rounds in (1, ROUNDS):
        expected = raw(model, inputs, 5 + rounds)
        np.testing.assert_allclose(dynamics.logits[rounds - 1, :, 1], expected, rtol=0, atol=1e-10)


def test_margins_beyond_double_precision_are_clipped_with_a_warning(two):
    inputs, labels = two
    start = np.where(np.arange(len(labels)) % 2, 1000.0, -1000.0)
    with pytest.warns(UserWarning, match="probability of 0 or 1"):
        _, dynamics = record(TWO, lgb.Dataset(inputs, labels, init_score=start), rounds=1)
    np.testing.assert_array_equal(dynamics.logits[0, :, 1], np.where(start > 0, HIGHEST, LOWEST))
    assert pytest.approx(53 * np.log(2)) == HIGHEST  # of 1 - 2^-53
    assert pytest.approx(-1074 * np.log(2)) == LOWEST


def test_a_validation_set_can_be_recorded(four):
    inputs, labels = four
    train = lgb.Dataset(inputs[:200], labels[:200])
    held_out = lgb.Dataset(inputs[200:], labels[200:], reference=train)
    recorder = LightGBMRecorder(data=held_out, gathering="out-of-sample", quiet=True, dtype="float64")
    model, dynamics = record(FOUR, train, recorder, valid_sets=[train, held_out])
    assert dynamics.gathering == "out-of-sample"
    np.testing.assert_array_equal(dynamics.labels, labels[200:])
    for rounds in (1, 5, ROUNDS):
        expected = log_softmax(raw(model, inputs[200:], rounds), axis=1)
        np.testing.assert_allclose(dynamics.logits[rounds - 1], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("every", [1, 4])
def test_swa_logits_are_the_mean_margins(four, every):
    inputs, labels = four
    recorder = LightGBMRecorder(every=every, quiet=True)
    model, dynamics = record(FOUR, lgb.Dataset(inputs, labels), recorder)
    leaves = [tree["num_leaves"] for tree in model.dump_model()["tree_info"]]
    for number, count in enumerate(leaves):
        grown = number // 4 + 1  # in this round: models of it and later ones have the tree
        share = sum(rounds >= grown for rounds in range(every, ROUNDS + 1, every)) / (ROUNDS // every)
        for leaf in range(count):
            model.set_leaf_output(number, leaf, share * model.get_leaf_output(number, leaf))
    averaged = log_softmax(model.predict(inputs, raw_score=True), axis=1)
    np.testing.assert_allclose(log_softmax(dynamics.swa_logits, axis=1), averaged, rtol=0, atol=1e-6)


def test_nothing_is_predicted_again_and_the_model_is_the_same(four, monkeypatch):
    inputs, labels = four
    plain = lgb.train(FOUR | STOCHASTIC, lgb.Dataset(inputs, labels), ROUNDS)
    with monkeypatch.context() as patched:
        patched.setattr(lgb.Booster, "predict", lambda *_: pytest.fail("trees were walked again"))
        model, _ = record(FOUR | STOCHASTIC, lgb.Dataset(inputs, labels))
    assert model.model_to_string() == plain.model_to_string()


# Use in a script.


def test_rounds_up_to_early_stopping_are_recorded(four):
    inputs, labels = four
    train = lgb.Dataset(inputs[:200], labels[:200])
    valid = lgb.Dataset(inputs[200:], labels[200:], reference=train)
    parameters = FOUR | {"learning_rate": 0.5}
    model, dynamics = record(
        parameters, train, rounds=200, valid_sets=[valid], callbacks=[lgb.early_stopping(3, verbose=False)]
    )
    assert dynamics.epochs == model.best_iteration + 3 < 200
    best = model.best_iteration  # LightGBM forgets the trees after it
    expected = log_softmax(raw(model, inputs[:200], best), axis=1)
    np.testing.assert_allclose(dynamics.logits[best - 1], expected, rtol=0, atol=1e-10)


def test_every_third_round_only(four):
    inputs, labels = four
    _, every_round = record(FOUR, lgb.Dataset(inputs, labels))
    _, some = record(FOUR, lgb.Dataset(inputs, labels), LightGBMRecorder(every=3, quiet=True, dtype="float64"))
    np.testing.assert_array_equal(some.logits, every_round.logits[2::3])
    assert some.settings["every"] == 3
    assert some.settings["trainer"] == f"lightgbm {lgb.__version__}"


def test_the_scikit_learn_interface_with_string_labels(four):
    inputs, numbers = four
    names = np.array(["elm", "ash", "oak", "fir"])[numbers]
    recorder = LightGBMRecorder(labels=names, ids=[f"tree {row}" for row in range(len(names))], quiet=True)
    model = lgb.LGBMClassifier(n_estimators=ROUNDS, num_leaves=7, verbose=-1, n_jobs=1)
    model.fit(inputs, names, callbacks=[recorder])
    dynamics = recorder.finish()
    assert dynamics.classes == tuple(model.classes_) == ("ash", "elm", "fir", "oak")
    chance = model.predict_proba(inputs)
    np.testing.assert_allclose(np.exp(dynamics.logits[-1]), chance, rtol=1e-5, atol=1e-7)
    table = errata.rank(dynamics)
    assert set(table["label"]) == set(names)
    assert table["id"].iloc[0].startswith("tree ")


def test_labels_need_not_start_at_zero(two):
    inputs, numbers = two
    recorder = LightGBMRecorder(labels=3 * numbers + 2, quiet=True)
    lgb.LGBMClassifier(n_estimators=2, verbose=-1, n_jobs=1).fit(inputs, 3 * numbers + 2, callbacks=[recorder])
    dynamics = recorder.finish()
    assert dynamics.classes == (2, 5)
    np.testing.assert_array_equal(dynamics.labels, numbers)
    signed = 2 * numbers - 1
    _, dynamics = record(TWO, lgb.Dataset(inputs, signed))
    np.testing.assert_array_equal(dynamics.labels, numbers)
    recorder = LightGBMRecorder(labels=np.where(numbers, "yes", "no"), quiet=True)
    _, dynamics = record(TWO, lgb.Dataset(inputs, signed), recorder)
    assert dynamics.classes == ("no", "yes")


def test_a_class_without_samples_has_a_column(four):
    inputs, labels = four
    kept = labels != 1
    names = np.array(list("abcd"))[labels[kept]]
    recorder = LightGBMRecorder(labels=names, classes=list("abcd"), quiet=True)
    _, dynamics = record(FOUR, lgb.Dataset(inputs[kept], labels[kept]), recorder)
    assert dynamics.num_classes == 4
    np.testing.assert_array_equal(dynamics.labels, labels[kept])
    with pytest.raises(InputError, match="pass all with classes="):
        record(FOUR, lgb.Dataset(inputs[kept], labels[kept]), LightGBMRecorder(labels=names, quiet=True))


def test_a_folder_and_running_sums(four, tmp_path):
    inputs, labels = four
    _, dynamics = record(FOUR, lgb.Dataset(inputs, labels), LightGBMRecorder(tmp_path / "run", quiet=True))
    assert dynamics.path == tmp_path / "run"
    dynamics.verify()
    assert errata.Dynamics.open(tmp_path / "run").epochs == ROUNDS
    _, sums = record(FOUR, lgb.Dataset(inputs, labels), LightGBMRecorder(keep="stream", quiet=True))
    assert sums.logits is None
    np.testing.assert_allclose(errata.score(sums, "MeanProb-LM"), errata.score(dynamics, "MeanProb-LM"), rtol=1e-4)
    with pytest.raises(StoreError, match="already holds 12 epochs"):
        LightGBMRecorder(tmp_path / "run")
    again = LightGBMRecorder(tmp_path / "run", overwrite=True, quiet=True)
    _, replaced = record({**FOUR, "num_iterations": 5}, lgb.Dataset(inputs, labels), again)
    assert errata.Dynamics.open(tmp_path / "run").epochs == replaced.epochs == 5


def test_inputs_are_stored_for_methods_that_use_neighbours(four):
    inputs, labels = four
    recorder = LightGBMRecorder(quiet=True)
    lgb.train(FOUR, lgb.Dataset(inputs, labels), 2, callbacks=[recorder])
    np.testing.assert_array_equal(recorder.finish(inputs=inputs).inputs, inputs)


# Errors.


def test_labels_in_another_order_are_refused(four):
    inputs, labels = four
    with pytest.raises(InputError, match="in the order of the training samples"):
        record(FOUR, lgb.Dataset(inputs, labels), LightGBMRecorder(labels=labels[::-1], quiet=True))
    with pytest.raises(InputError, match="there are 299 labels, but the trainer has 300 samples"):
        record(FOUR, lgb.Dataset(inputs, labels), LightGBMRecorder(labels=labels[:-1], quiet=True))


def test_a_training_that_cannot_be_recorded_is_refused(four):
    inputs, labels = four
    data = lgb.Dataset(inputs, labels, free_raw_data=False)
    with pytest.raises(InputError, match=r"one lightgbm\.train per fold"):
        lgb.cv(FOUR, data, 2, nfold=2, callbacks=[LightGBMRecorder(quiet=True)])
    with pytest.raises(InputError, match="'regression' is not one of classification"):
        record(FOUR | {"objective": "l2", "num_class": 1}, lgb.Dataset(inputs, labels))
    with pytest.raises(InputError, match="neither the training set nor in valid_sets"):
        record(FOUR, data, LightGBMRecorder(data=lgb.Dataset(inputs, labels), quiet=True))


def test_a_recorder_records_one_training_of_at_least_one_round(four):
    inputs, labels = four
    recorder = LightGBMRecorder(quiet=True)
    with pytest.raises(InputError, match=r"pass the recorder to the trainer in callbacks"):
        recorder.finish()
    record(FOUR, lgb.Dataset(inputs, labels), recorder, rounds=1)
    with pytest.raises(InputError, match="make a new one"):
        record(FOUR, lgb.Dataset(inputs, labels), recorder, rounds=1)
    for every in (0, 1.5, -1):
        with pytest.raises(InputError, match="every must be"):
            LightGBMRecorder(every=every)
