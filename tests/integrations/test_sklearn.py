import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.special import log_softmax
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import errata
from errata.errors import InputError
from errata.integrations import SklearnRecorder, SklearnStageRecorder

EPOCHS, STAGES = 4, 8
TREES = np.array(["elm", "ash", "oak", "fir"])


def staged(kind, **options):
    count = "max_iter" if kind is HistGradientBoostingClassifier else "n_estimators"
    return kind(**{count: STAGES}, max_depth=2, random_state=0, **options)


# A loop of partial_fit.


@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
def test_margins_are_recorded_after_every_epoch(four, loss):
    inputs, labels = four
    names = [f"tree {row}" for row in range(len(labels))]
    recorder = SklearnRecorder(inputs, labels=TREES[labels], ids=names, dtype="float64", quiet=True)
    model, weights = SGDClassifier(loss=loss, random_state=0), []
    for _ in range(EPOCHS):
        model.partial_fit(inputs, TREES[labels], classes=np.unique(TREES))
        recorder.record(model)
        weights.append((model.coef_.copy(), model.intercept_.copy()))
    dynamics = recorder.finish(inputs=inputs)
    for epoch, (coefficients, intercepts) in enumerate(weights):
        np.testing.assert_allclose(dynamics.logits[epoch], inputs @ coefficients.T + intercepts, atol=1e-9)
    assert dynamics.classes == ("ash", "elm", "fir", "oak")
    assert dynamics.settings["trainer"] == f"scikit-learn {sklearn.__version__}"
    table = errata.rank(dynamics)
    assert set(table["label"]) == set(TREES)
    assert table["id"].iloc[0].startswith("tree ")


def test_one_margin_of_two_classes(two, tmp_path):
    inputs, labels = two
    recorder = SklearnRecorder(inputs, tmp_path / "run", labels=labels, dtype="float64", quiet=True)
    model = SGDClassifier(random_state=0).partial_fit(inputs, labels, classes=[0, 1])
    recorder.record(model)
    dynamics = recorder.finish()
    dynamics.verify()
    assert (dynamics.logits[0, :, 0] == 0).all()
    np.testing.assert_allclose(dynamics.logits[0, :, 1], inputs @ model.coef_[0] + model.intercept_[0], atol=1e-9)


@pytest.mark.parametrize("how", ["partial_fit", "warm_start"])
def test_a_network_is_recorded_by_its_log_probabilities(four, how):
    inputs, labels = four
    recorder = SklearnRecorder(inputs, labels=labels, dtype="float64", quiet=True)
    model = MLPClassifier((8,), random_state=0, warm_start=how == "warm_start", max_iter=1)
    for _ in range(EPOCHS):
        if how == "warm_start":
            with pytest.warns(sklearn.exceptions.ConvergenceWarning):
                model.fit(inputs, labels)
        else:
            model.partial_fit(inputs, labels, classes=range(4))
        recorder.record(model)
    hidden = np.maximum(inputs @ model.coefs_[0] + model.intercepts_[0], 0)
    logits = hidden @ model.coefs_[1] + model.intercepts_[1]
    dynamics = recorder.finish()
    assert dynamics.epochs == EPOCHS
    np.testing.assert_allclose(dynamics.logits[-1], log_softmax(logits, axis=1), atol=1e-9)


def test_a_pipeline_and_a_frame(four):
    inputs, labels = four
    frame = pd.DataFrame(inputs, columns=list("abcdef"))
    recorder = SklearnRecorder(frame, labels=pd.Series(labels), quiet=True)
    model = make_pipeline(StandardScaler(), MLPClassifier((8,), max_iter=20, random_state=0))
    with pytest.warns(sklearn.exceptions.ConvergenceWarning):
        recorder.record(model.fit(frame, labels))
    np.testing.assert_allclose(np.exp(recorder.finish().logits[0]), model.predict_proba(frame), rtol=1e-5, atol=1e-7)


def test_a_probability_rounded_to_zero_gives_a_finite_logit(four):
    inputs, labels = four
    recorder = SklearnRecorder(1e4 * inputs, labels=labels, quiet=True)
    model = GaussianNB().fit(inputs, labels)
    assert (model.predict_proba(1e4 * inputs) == 0).any()
    recorder.record(model)
    assert np.isfinite(recorder.finish().logits).all()


# The stages of a boosted model.


@pytest.mark.parametrize("kind", [GradientBoostingClassifier, HistGradientBoostingClassifier])
@pytest.mark.parametrize("classes", ["two", "four"])
def test_stages_equal_models_with_fewer_trees(kind, classes, request):
    inputs, labels = request.getfixturevalue(classes)
    recorder = SklearnStageRecorder(labels=TREES[labels], dtype="float64", quiet=True)
    model = staged(kind).fit(inputs, TREES[labels])
    recorder.record(model, inputs)
    dynamics = recorder.finish(inputs=inputs)
    assert dynamics.classes == tuple(model.classes_)
    assert dynamics.epochs == STAGES
    for stages in (1, 5, STAGES):
        fewer = staged(kind).set_params(**{"max_iter" if "Hist" in kind.__name__ else "n_estimators": stages})
        chances = np.log(fewer.fit(inputs, TREES[labels]).predict_proba(inputs))
        np.testing.assert_allclose(log_softmax(dynamics.logits[stages - 1], axis=1), chances, rtol=0, atol=1e-9)
    np.testing.assert_allclose(dynamics.swa_logits, dynamics.logits.mean(axis=0), rtol=0, atol=1e-12)


def test_every_third_stage_only(four, tmp_path):
    inputs, labels = four
    model = staged(HistGradientBoostingClassifier).fit(inputs, labels)
    found = []
    for every in (1, 3):
        recorder = SklearnStageRecorder(tmp_path / str(every), labels=labels, every=every, quiet=True)
        recorder.record(model, inputs)
        found.append(recorder.finish())
    np.testing.assert_array_equal(found[1].logits, found[0].logits[2::3])
    assert found[1].settings["every"] == 3


# Errors.


def test_what_cannot_be_recorded_is_refused(four):
    inputs, labels = four
    forest = RandomForestClassifier(2, random_state=0).fit(inputs, labels)
    with pytest.raises(InputError, match="RandomForestClassifier has no stages"):
        SklearnStageRecorder(labels=labels).record(forest, inputs)
    recorder = SklearnRecorder(inputs, labels=labels)
    with pytest.raises(InputError, match="call record\\(model\\) after every partial_fit"):
        recorder.finish()
    with pytest.raises(NotFittedError):
        recorder.record(SGDClassifier())
    with pytest.raises(InputError, match="HistGradientBoostingRegressor is not a classifier"):
        recorder.record(HistGradientBoostingRegressor(max_iter=1).fit(inputs, labels))
    with pytest.raises(InputError, match="there are 299 labels for 300 inputs"):
        SklearnRecorder(inputs, labels=labels[:-1]).record(forest)
    with pytest.raises(InputError, match="which is not in classes"):
        SklearnRecorder(inputs, labels=labels + 1).record(LinearSVC().fit(inputs, labels))
    stages = SklearnStageRecorder(labels=labels, quiet=True)
    model = staged(HistGradientBoostingClassifier).fit(inputs, labels)
    stages.record(model, inputs)
    with pytest.raises(InputError, match="make a new one"):
        stages.record(model, inputs)
