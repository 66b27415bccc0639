import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import errata
from errata.errors import InputError
from errata.integrations import XGBoostRecorder

ROUNDS = 12
TWO = {"objective": "binary:logistic", "nthread": 1, "max_depth": 3}
FOUR = {"objective": "multi:softprob", "num_class": 4, "nthread": 1, "max_depth": 3}
STOCHASTIC = {"subsample": 0.6, "colsample_bytree": 0.6, "seed": 3}


def record(parameters, data, recorder=None, rounds=ROUNDS, **train):
    """Train with a recorder; the model and the dynamics."""
    recorder = recorder or XGBoostRecorder(data, quiet=True)
    model = xgb.train(parameters, data, rounds, callbacks=[recorder], **train)
    return model, recorder.finish()


def margins(model, inputs, rounds):
    """The margins after that many rounds, from evaluating all trees."""
    return model.predict(xgb.DMatrix(inputs), output_margin=True, iteration_range=(0, rounds))


# Recorded margins equal predictions.


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        (xgb.DMatrix, {}),
        (xgb.DMatrix, STOCHASTIC),
        (xgb.DMatrix, {"tree_method": "exact"}),
        (xgb.DMatrix, {"objective": "multi:softmax"}),
        (xgb.QuantileDMatrix, {}),
        (xgb.QuantileDMatrix, STOCHASTIC),
    ],
)
def test_recorded_margins_equal_the_predictions(four, kind, changed):
    inputs, labels = four
    model, dynamics = record(FOUR | changed, kind(inputs, labels))
    assert dynamics.logits.shape == (ROUNDS, len(labels), 4)
    for rounds in range(1, ROUNDS + 1):
        np.testing.assert_allclose(dynamics.logits[rounds - 1], margins(model, inputs, rounds), rtol=0, atol=1e-5)


def test_two_classes_are_recorded_as_zero_and_the_margin(two):
    inputs, labels = two
    model, dynamics = record(TWO, xgb.DMatrix(inputs, labels))
    assert (dynamics.logits[:, :, 0] == 0).all()
    for rounds in range(1, ROUNDS + 1):
        expected = margins(model, inputs, rounds)
        np.testing.assert_allclose(dynamics.logits[rounds - 1, :, 1], expected, rtol=0, atol=1e-5)


def test_the_base_margin_is_included(two):
    inputs, labels = two
    start = np.linspace(-1, 1, len(labels), dtype=np.float32)
    model, dynamics = record(TWO | {"base_score": 0.5}, xgb.DMatrix(inputs, labels, base_margin=start))
    expected = start + margins(model, inputs, ROUNDS)
    np.testing.assert_allclose(dynamics.logits[-1, :, 1], expected, rtol=0, atol=1e-5)
    before = xgb.train(TWO, xgb.DMatrix(inputs, labels), 5)
    model, dynamics = record(TWO, xgb.DMatrix(inputs, labels), xgb_model=before)
    assert dynamics.epochs == ROUNDS
    for rounds in (1, ROUNDS):
        expected = margins(model, inputs, 5 + rounds)
        np.testing.assert_allclose(dynamics.logits[rounds - 1, :, 1], expected, rtol=0, atol=1e-5)


def test_held_out_samples_can_be_recorded(four):
    inputs, labels = four
    held_out = xgb.DMatrix(inputs[200:], labels[200:])
    recorder = XGBoostRecorder(held_out, gathering="out-of-sample", quiet=True)
    model, dynamics = record(FOUR, xgb.DMatrix(inputs[:200], labels[:200]), recorder)
    np.testing.assert_array_equal(dynamics.labels, labels[200:])
    for rounds in (1, 5, ROUNDS):
        expected = margins(model, inputs[200:], rounds)
        np.testing.assert_allclose(dynamics.logits[rounds - 1], expected, rtol=0, atol=1e-5)


def test_recording_does_not_change_the_model(four):
    inputs, labels = four
    plain = xgb.train(FOUR | STOCHASTIC, xgb.DMatrix(inputs, labels), ROUNDS)
    model, _ = record(FOUR | STOCHASTIC, xgb.DMatrix(inputs, labels))
    assert model.save_raw("json") == plain.save_raw("json")


# Use in a script.


def test_rounds_up_to_early_stopping_are_recorded(four):
    inputs, labels = four
    train, valid = xgb.DMatrix(inputs[:200], labels[:200]), xgb.DMatrix(inputs[200:], labels[200:])
    model, dynamics = record(
        FOUR | {"eta": 0.8}, train, rounds=200, evals=[(valid, "valid")], early_stopping_rounds=3, verbose_eval=False
    )
    assert dynamics.epochs == model.best_iteration + 1 + 3 < 200
    np.testing.assert_allclose(dynamics.logits[-1], margins(model, inputs[:200], dynamics.epochs), rtol=0, atol=1e-5)


def test_every_third_round_only(four):
    inputs, labels = four
    data = xgb.DMatrix(inputs, labels)
    _, every_round = record(FOUR, data)
    _, some = record(FOUR, data, XGBoostRecorder(data, every=3, quiet=True))
    np.testing.assert_allclose(some.logits, every_round.logits[2::3], rtol=0, atol=1e-6)
    assert some.settings == {"trainer": f"xgboost {xgb.__version__}", "every": 3}


def test_the_scikit_learn_interface_with_a_frame_and_string_labels(four):
    inputs, labels = four
    frame = pd.DataFrame(inputs, columns=list("abcdef")).assign(kind=pd.Categorical(np.arange(len(labels)) % 3))
    names = pd.Series(np.array(["ash", "elm", "fir", "oak"])[labels])
    recorder = XGBoostRecorder(frame, labels=names, ids=[f"tree {row}" for row in range(len(names))], quiet=True)
    model = xgb.XGBClassifier(n_estimators=ROUNDS, max_depth=3, n_jobs=1, enable_categorical=True, callbacks=[recorder])
    model.fit(frame, labels)
    dynamics = recorder.finish()
    assert dynamics.classes == ("ash", "elm", "fir", "oak")
    for rounds in (1, 5, ROUNDS):
        expected = model.predict(frame, output_margin=True, iteration_range=(0, rounds))
        np.testing.assert_allclose(dynamics.logits[rounds - 1], expected, rtol=0, atol=1e-5)
    table = errata.rank(dynamics)
    assert set(table["label"]) == {"ash", "elm", "fir", "oak"}
    assert table["id"].iloc[0].startswith("tree ")


def test_a_run_is_written_to_a_folder(four, tmp_path):
    inputs, labels = four
    data = xgb.DMatrix(inputs, labels)
    _, dynamics = record(FOUR, data, XGBoostRecorder(data, tmp_path / "run", quiet=True))
    dynamics.verify()
    assert errata.Dynamics.open(tmp_path / "run").epochs == ROUNDS


# Errors.


def test_what_cannot_be_recorded_is_refused(four):
    inputs, labels = four
    data = xgb.DMatrix(inputs, labels)
    with pytest.raises(InputError, match=r"one xgboost\.train per fold"):
        xgb.cv(FOUR, data, 2, nfold=2, callbacks=[XGBoostRecorder(data, quiet=True)])
    with pytest.raises(InputError, match="pass the given ones as labels="):
        XGBoostRecorder(inputs)
    with pytest.raises(InputError, match="in the order of the training samples"):
        record(FOUR, data, XGBoostRecorder(data, labels=labels[::-1], quiet=True))
    with pytest.raises(InputError, match="labels have 4 different values, but the model has 2 classes"):
        record({"objective": "reg:squarederror", "nthread": 1}, data)


def test_a_recorder_records_one_training_of_at_least_one_round(four):
    inputs, labels = four
    data = xgb.DMatrix(inputs, labels)
    recorder = XGBoostRecorder(data, quiet=True)
    with pytest.raises(InputError, match="pass the recorder to the trainer in callbacks"):
        recorder.finish()
    record(FOUR, data, recorder, rounds=1)
    with pytest.raises(InputError, match="make a new one"):
        record(FOUR, data, recorder, rounds=1)
