import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import errata
from errata.core import metrics

EXPECTED_FAILURES = {
    "check_dtype_object": "a column of dictionaries is left out with a remark, not refused",
}


@parametrize_with_checks(
    [errata.ErrataDetector(model="mlp")], expected_failed_checks=lambda estimator: EXPECTED_FAILURES
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
