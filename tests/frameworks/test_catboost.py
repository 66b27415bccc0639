import numpy as np
import pandas as pd
import pytest
from catboost import CatBoostClassifier, CatBoostRegressor, Pool, __version__

import errata
from errata.errors import InputError
from errata.integrations import CatBoostRecorder

ROUNDS = 9


def classifier(**options):
    usual = {"iterations": ROUNDS, "depth": 3, "verbose": False, "thread_count": 1, "allow_writing_files": False}
    return CatBoostClassifier(**(usual | options))


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("loss", ["MultiClass", "MultiClassOneVsAll"])
def test_recorded_margins_equal_the_predictions(digits, loss, every):
    inputs, labels, names = digits
    pool = Pool(inputs, labels)
    model = classifier(loss_function=loss).fit(pool)
    recorder = CatBoostRecorder(ids=names, every=every, dtype="float64", quiet=True)
    recorder.record(model, pool)
    dynamics = recorder.finish(inputs=inputs)
    rounds = range(every, ROUNDS + 1, every)
    expected = [model.predict(inputs, "RawFormulaVal", ntree_end=end) for end in rounds]
    np.testing.assert_allclose(dynamics.logits, expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(dynamics.swa_logits, np.mean(expected, axis=0), rtol=0, atol=1e-9)
    np.testing.assert_array_equal(dynamics.labels, labels)
    assert dynamics.settings == {"trainer": f"catboost {__version__}", "every": every}


def test_two_classes_are_recorded_as_zero_and_the_margin(digits):
    inputs, labels, _ = digits
    odd = np.where(labels % 2, "odd", "even")
    model = classifier().fit(inputs, odd)
    recorder = CatBoostRecorder(labels=odd, quiet=True)
    recorder.record(model, inputs)
    dynamics = recorder.finish()
    assert dynamics.classes == ("even", "odd")
    assert (dynamics.logits[:, :, 0] == 0).all()
    for rounds in (1, ROUNDS):
        expected = model.predict(inputs, "RawFormulaVal", ntree_end=rounds)
        np.testing.assert_allclose(dynamics.logits[rounds - 1, :, 1], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", [np.int64, str, bool])
def test_labels_of_any_type_and_a_frame_with_categories(digits, kind, tmp_path):
    inputs, labels, _ = digits
    given = (labels % 2).astype(bool) if kind is bool else (labels * 3 + 5).astype(kind)
    frame = pd.DataFrame(inputs[:, 18:24]).assign(kind=np.where(inputs[:, 20] > 0.5, "dark", "light"))
    model = classifier(cat_features=["kind"]).fit(frame, given)
    recorder = CatBoostRecorder(tmp_path / "run", labels=given, quiet=True)
    recorder.record(model, frame)
    dynamics = recorder.finish()
    dynamics.verify()
    named = np.array(dynamics.classes)[dynamics.labels]
    np.testing.assert_array_equal(named.astype(str), given.astype(str))
    assert len(errata.rank(dynamics)) == len(given)


def test_rounds_after_the_best_are_not_recorded(digits):
    inputs, labels, _ = digits
    model = classifier(iterations=60, learning_rate=0.9, early_stopping_rounds=3)
    model.fit(inputs[:150], labels[:150], eval_set=(inputs[150:], labels[150:]))
    recorder = CatBoostRecorder(labels=labels[:150], quiet=True)
    recorder.record(model, inputs[:150])
    assert recorder.finish().epochs == model.tree_count_ < 60


def test_what_cannot_be_recorded_is_refused(digits):
    inputs, labels, _ = digits
    model = classifier().fit(inputs, labels)
    with pytest.raises(InputError, match="pass a Pool that has labels, or pass labels="):
        CatBoostRecorder().record(model, inputs)
    with pytest.raises(InputError, match="pass a Pool that has labels, or pass labels="):
        CatBoostRecorder().record(model, Pool(inputs))
    with pytest.raises(InputError, match="not fitted"):
        CatBoostRecorder(labels=labels).record(classifier(), inputs)
    regressor = CatBoostRegressor(iterations=2, verbose=False, allow_writing_files=False).fit(inputs, labels)
    with pytest.raises(InputError, match="is not a classifier"):
        CatBoostRecorder(labels=labels).record(regressor, inputs)
    with pytest.raises(InputError, match="which is not in classes"):
        CatBoostRecorder(labels=labels + 1, quiet=True).record(model, inputs)
    recorder = CatBoostRecorder(labels=labels, quiet=True)
    with pytest.raises(InputError, match="no round was recorded"):
        recorder.finish()
    recorder.record(model, inputs)
    with pytest.raises(InputError, match="make a new one"):
        recorder.record(model, inputs)
