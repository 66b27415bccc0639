import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import errata
from errata.core import metrics

NOT_FOR_US = {
    "check_dtype_object": "a table may hold anything: a column of dictionaries is left out with a remark, not refused",
}


@parametrize_with_checks([errata.ErrataDetector(model="mlp")], expected_failed_checks=lambda estimator: NOT_FOR_US)
def test_it_keeps_to_the_conventions_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted(clouds):
    inputs, noisy = clouds
    return errata.ErrataDetector(model="mlp").fit(inputs, noisy.labels)


def test_it_says_of_every_row_what_find_says(fitted, clouds):
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


def test_labels_are_suggested_in_the_type_they_are_given_in(clouds):
    inputs, noisy = clouds
    names = np.array(["ant", "bee", "cat"])[noisy.labels]
    detector = errata.ErrataDetector(model="mlp").fit(pd.DataFrame(inputs, columns=list("abcd")), names)
    assert set(detector.suggested_) <= set(detector.classes_) == {"ant", "bee", "cat"}
    assert detector.feature_names_in_.tolist() == list("abcd")


def test_seeds_are_taken_as_scikit_learn_takes_them(clouds):
    inputs, noisy = clouds
    detector = errata.ErrataDetector(model="mlp", random_state=np.random.RandomState(4))
    one, other = (clone(detector).fit(inputs, noisy.labels).scores_ for _ in range(2))
    np.testing.assert_array_equal(one, other)


def test_rows_without_a_label_are_refused(clouds):
    inputs, noisy = clouds
    labels = [None, *noisy.labels[1:].tolist()]
    with pytest.raises(ValueError, match="rows without a label"):
        errata.ErrataDetector(model="mlp").fit(inputs, labels)


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
def test_labels_of_any_types_are_suggested_in_them(clouds, names, make):
    inputs, noisy = clouds
    detector = errata.ErrataDetector(model="mlp").fit(inputs, make([names[label] for label in noisy.labels]))
    given = {(type(name), name) for name in names}
    assert {(type(name), name) for name in detector.classes_.tolist()} == given
    assert {(type(name), name) for name in detector.suggested_.tolist()} == given
    plain = errata.ErrataDetector(model="mlp").fit(inputs, noisy.labels)
    assert np.mean(plain.flags_ == detector.flags_) > 0.9


def test_missing_labels_are_refused_before_training(clouds, monkeypatch):
    inputs, noisy = clouds
    monkeypatch.setattr("errata.finding.find.train_model", lambda *arguments: pytest.fail("it was trained"))
    with pytest.raises(ValueError, match="rows without a label"):
        errata.ErrataDetector(model="mlp").fit(inputs, ["x", None, *noisy.labels[2:].tolist()])
