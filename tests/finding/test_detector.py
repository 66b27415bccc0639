import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import errata
from errata.core import held_out_models, metrics
from errata.finding import model_training

EXPECTED_FAILURES = {
    "check_dtype_object": "a column of dictionaries is left out with a remark, not refused",
}


@pytest.fixture
def quick_models(monkeypatch):
    """Fewer trees, penalties and epochs of the held-out models: no convention depends on their accuracy."""
    for name, value in {"TREES": 5, "PENALTIES": (0.1,), "MAX_EPOCHS": 10}.items():
        monkeypatch.setattr(held_out_models, name, value)
    monkeypatch.setattr(model_training, "held_out_predictions", held_out_models.held_out_predictions)


@pytest.mark.usefixtures("quick_models")
@parametrize_with_checks(
    [
        errata.ErrataDetector(model="mlp"),
        errata.ErrataDetector(model="mlp", estimator=LogisticRegression()),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_the_conventions_of_scikit_learn_are_met(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted(clouds):
    inputs, noisy = clouds
    return errata.ErrataDetector(model="mlp").fit(inputs, noisy.labels)


def test_the_attributes_equal_the_results_of_find(fitted, clouds):
    inputs, noisy = clouds
    found = errata.find(inputs, noisy.labels, model="mlp")
    by_row = found.ranking.sort_values("id")
    np.testing.assert_array_equal(fitted.scores_, by_row["score"])
    np.testing.assert_array_equal(fitted.p_wrong_, by_row["p_wrong"])
    np.testing.assert_array_equal(fitted.suggested_, by_row["suggested"])
    pd.testing.assert_frame_equal(fitted.ranking_, found.ranking)
    assert fitted.flags_.sum() == found.expected
    assert fitted.scores_[fitted.flags_].min() >= fitted.scores_[~fitted.flags_].max()
    assert metrics.fnr(fitted.scores_, noisy.truth) <= 0.25


def test_suggested_labels_are_class_names(clouds):
    inputs, noisy = clouds
    names = np.array(["ant", "bee", "cat"])[noisy.labels]
    detector = errata.ErrataDetector(model="mlp").fit(pd.DataFrame(inputs, columns=list("abcd")), names)
    assert set(detector.suggested_) <= set(detector.classes_) == {"ant", "bee", "cat"}
    assert detector.feature_names_in_.tolist() == list("abcd")


@pytest.mark.parametrize("index", [lambda rows: rows[::-1], lambda rows: rows // 2])
def test_results_are_in_the_order_of_the_rows_for_any_index(fitted, clouds, index):
    inputs, noisy = clouds
    table = pd.DataFrame(inputs, index=index(np.arange(len(inputs))))
    detector = errata.ErrataDetector(model="mlp").fit(table, noisy.labels)
    np.testing.assert_allclose(detector.scores_, fitted.scores_, rtol=0.05)


def test_random_state_follows_scikit_learn(clouds):
    inputs, noisy = clouds
    detector = errata.ErrataDetector(model="mlp", random_state=np.random.RandomState(4))
    one, other = (clone(detector).fit(inputs, noisy.labels).scores_ for _ in range(2))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("names", "make"),
    [
        ([0, "zero", 1.5], lambda labels: labels),
        ([0, "zero", 1.5], lambda labels: np.array(labels, dtype=object)),
        ([0, "0", True], lambda labels: labels),
        ([3, 4, 5], lambda labels: pd.array(labels, dtype="Int64")),
        ([3, 4, 5], lambda labels: pd.Series(labels, dtype="Int64")),
        (["ant", "bee", "cat"], pd.Categorical),
    ],
)
def test_suggested_labels_have_the_types_of_the_given_ones(clouds, names, make):
    inputs, noisy = clouds
    detector = errata.ErrataDetector(model="mlp").fit(inputs, make([names[label] for label in noisy.labels]))
    typed_names = {(type(name), name) for name in names}
    assert {(type(name), name) for name in detector.classes_.tolist()} == typed_names
    assert {(type(name), name) for name in detector.suggested_.tolist()} == typed_names
    plain = errata.ErrataDetector(model="mlp").fit(inputs, noisy.labels)
    assert np.mean(plain.flags_ == detector.flags_) > 0.9


def test_missing_labels_are_refused_before_training(clouds, monkeypatch):
    inputs, noisy = clouds
    monkeypatch.setattr("errata.finding.find.train_model", lambda *arguments: pytest.fail("it was trained"))
    for first in ([None, 1], ["x", None]):
        with pytest.raises(ValueError, match="rows without a label"):
            errata.ErrataDetector(model="mlp").fit(inputs, [*first, *noisy.labels[2:].tolist()])


@pytest.mark.parametrize("treatment", ["drop", "down-weight"])
def test_an_estimator_is_trained_without_the_errors_found(clouds, treatment):
    inputs, noisy = clouds
    detector = errata.ErrataDetector(model="mlp", estimator=LogisticRegression(), treatment=treatment)
    detector.fit(inputs, noisy.labels)
    kept = ~detector.flags_
    weight = kept.astype(float) if treatment == "drop" else 1 - detector.p_wrong_
    np.testing.assert_array_equal(detector.sample_weight_, weight)
    expected = LogisticRegression().fit(inputs, noisy.labels, sample_weight=weight)
    np.testing.assert_allclose(detector.predict_proba(inputs), expected.predict_proba(inputs), atol=1e-3)
    assert detector.score(inputs, noisy.labels) == expected.score(inputs, noisy.labels)


def test_the_samples_left_are_those_that_were_not_flagged(clouds):
    inputs, noisy = clouds
    table = pd.DataFrame(inputs, columns=list("abcd"))
    detector = errata.ErrataDetector(model="mlp")
    kept_inputs, kept_labels = detector.fit_resample(table, noisy.labels)
    pd.testing.assert_frame_equal(kept_inputs, table[~detector.flags_])
    np.testing.assert_array_equal(kept_labels, noisy.labels[~detector.flags_])
    assert noisy.truth[~detector.flags_].mean() < noisy.truth.mean() / 2


def test_cross_validation_grid_search_and_pipelines(clouds):
    inputs, noisy = clouds
    detector = errata.ErrataDetector(model="mlp", estimator=KNeighborsClassifier(1))
    cleaned, plain = (
        cross_val_score(model, inputs, noisy.labels, cv=2).mean() for model in (detector, KNeighborsClassifier(1))
    )
    assert cleaned > plain + 0.02  # a single neighbour repeats its wrong label
    pipeline = make_pipeline(StandardScaler(), detector)
    grid = {"erratadetector__treatment": ["drop"], "erratadetector__estimator__n_neighbors": [1, 5]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(inputs, noisy.labels)
    assert search.best_score_ >= cleaned - 0.05
    after = errata.ErrataDetector(model="mlp", estimator=make_pipeline(StandardScaler(), LogisticRegression()))
    assert cross_val_score(after, inputs, noisy.labels, cv=2).mean() > 0.5


def test_without_an_estimator_there_is_no_prediction(fitted, clouds):
    inputs, noisy = clouds
    assert not hasattr(fitted, "predict")
    assert not hasattr(fitted, "score")
    with pytest.raises(ValueError, match="takes no sample_weight: use treatment='drop'"):
        errata.ErrataDetector(estimator=KNeighborsClassifier(), treatment="down-weight").fit(inputs, noisy.labels)
    with pytest.raises(ValueError, match="treatment must be 'drop' or 'down-weight', not 'keep'"):
        errata.ErrataDetector(treatment="keep").fit(inputs, noisy.labels)


def test_ignored_columns_are_not_used(clouds):
    inputs, noisy = clouds
    table = pd.DataFrame(inputs, columns=list("abcd")).assign(leak=noisy.labels)
    detector = errata.ErrataDetector(model="mlp", ignore=["leak"]).fit(table, noisy.labels)
    assert detector.found_.dynamics.inputs.shape[1] == 4


def test_a_masked_label_is_refused_with_its_place():
    X, y = load_iris(return_X_y=True)
    masked = np.ma.array(y, mask=np.arange(len(y)) == 7)
    detector = errata.ErrataDetector(model="mlp")
    for fit in (detector.fit, detector.fit_resample):
        with pytest.raises(errata.InputError, match=r"y: the value at \[7\] is masked"):
            fit(X, masked)
