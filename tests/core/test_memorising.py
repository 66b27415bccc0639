"""The rule for memorised labels: its statistics against loops, and the default that follows from it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from errata.core.memorising import feature_counts, fit_counts, fitted_line, from_counts, late_fit_share, reversed_share
from errata.core.smoothing import KNN
from errata.dynamics.ranking import rank
from errata.dynamics.recorder import Recorder
from errata.dynamics.scoring import find_method
from errata.dynamics.store import Dynamics


def late_run(share, samples=600, seed=0):
    """A run that first predicts the true classes, and in its last quarter a share of the labels; 20 % are wrong.

    Returns logits (E, N, K), labels, which of them are wrong, and features that are near the last predicted class.
    """
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 3, samples)
    given_labels = np.where(rng.random(samples) < 0.2, (true + 1) % 3, true)
    predicted = np.where(rng.random(samples) < share, given_labels, true)
    logits = np.repeat(4.0 * np.eye(3)[None, true], 8, axis=0)
    logits[-2:] = 6.0 * np.eye(3)[predicted]
    features = np.eye(3)[predicted] + 0.05 * rng.normal(size=(samples, 3))
    return logits.astype(np.float32), given_labels, given_labels != true, features


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_late_fit_is_the_share_of_rejected_labels_that_late_epochs_predict(share):
    logits, labels, wrong, _ = late_run(share)
    last = logits[-1].argmax(axis=1)
    by_hand = sum(last[i] == labels[i] for i in np.flatnonzero(wrong)) / wrong.sum()
    assert late_fit_share(fit_counts(logits[0].argmax(axis=1), last, labels)) == pytest.approx(by_hand)
    assert late_fit_share(fit_counts(last, logits[0].argmax(axis=1), labels)) <= 0
    assert late_fit_share(fit_counts(labels, last, labels)) == 0


def recorded(logits, labels, features, keep="all", rows=None):
    """Dynamics of a run; `rows` gives the samples that are recorded at an epoch, all if it is None."""
    partial = "error" if rows is None else "allow"
    recorder = Recorder(labels=labels, num_classes=3, keep=keep, partial=partial, quiet=True)
    for number, epoch in enumerate(logits):
        ids = np.arange(len(labels)) if rows is None else rows(number)
        recorder.update(ids, epoch[ids])
        recorder.end_epoch()
    return recorder.finish(features=features)


@pytest.mark.parametrize("keep", ["all", "stream"])
@pytest.mark.parametrize(("share", "used"), [(0.0, True), (0.12, True), (0.3, False), (1.0, False)])
def test_features_of_a_model_that_memorised_are_not_used(share, used, keep):
    logits, labels, wrong, _ = late_run(share)
    by_class = np.eye(3)[np.where(wrong, (labels - 1) % 3, labels)] + 0.05 * np.random.default_rng(1).normal(
        size=(len(labels), 3)
    )
    name = find_method(recorded(logits, labels, by_class, keep), None).name
    assert name.startswith("Unmixed-kNN") == used
    assert used or name == ("Unmixed-EarlyProb-LM" if keep == "all" else "Unmixed-MeanProb-LM")


def test_a_single_last_epoch_that_fits_all_labels_is_not_a_late_fit():
    logits, labels, wrong, _ = late_run(0.0)
    logits = np.repeat(logits, 2, axis=0)
    logits[-1] = 6.0 * np.eye(3)[labels]
    by_class = np.eye(3)[np.where(wrong, (labels - 1) % 3, labels)]
    assert late_fit_share(fit_counts(logits[0].argmax(axis=1), logits[-1].argmax(axis=1), labels)) == 1
    assert find_method(recorded(logits, labels, by_class), None).name == "Unmixed-kNN-RampProb-LM"


@pytest.mark.parametrize("missing", ["none", "some in the last quarter", "half of them all of it"])
def test_missing_epochs_do_not_hide_a_late_fit(missing):
    logits, labels, wrong, _ = late_run(1.0)
    by_class = np.eye(3)[np.where(wrong, (labels - 1) % 3, labels)]
    every = np.arange(len(labels))
    rows = {
        "none": lambda epoch: every,
        "some in the last quarter": lambda epoch: every[every % 10 != epoch],
        "half of them all of it": lambda epoch: every[:: 2 if epoch > 5 else 1],
    }[missing]
    assert find_method(recorded(logits, labels, by_class, rows=rows), None).name == "Unmixed-EarlyProb-LM"
    logits[-2:] = logits[:2]
    assert find_method(recorded(logits, labels, by_class, rows=rows), None).name == "Unmixed-kNN-RampProb-LM"


@given(epochs=st.integers(2, 9), seed=st.integers(0, 100))
def test_the_fitted_line_is_the_least_squares_line(epochs, seed):
    p = softmax(3 * np.random.default_rng(seed).normal(size=(epochs, 7, 4)), axis=2)
    weights = np.arange(1.0, epochs + 1)
    mean, ramp = p.mean(axis=0), np.tensordot(weights / weights.sum(), p, axes=1)
    slope, start = np.polyfit(weights, p.reshape(epochs, -1), 1)
    for epoch in weights:
        fitted = (start + slope * epoch).reshape(7, 4)
        found = fitted_line(np.log(mean), np.log(ramp), (epoch - 1) / (epochs - 1))
        np.testing.assert_allclose(found, np.maximum(fitted, 0), atol=1e-9)


def reversals(before, late, labels):
    return reversed_share(feature_counts(before, labels, late, labels)[2:])


@given(seed=st.integers(0, 1000), scale=st.floats(0.1, 100))
def test_reversals_are_the_share_of_ruled_out_labels_that_are_predicted_late(seed, scale):
    rng = np.random.default_rng(seed)
    before = softmax(3 * rng.normal(size=(60, 4)), axis=1)
    labels, late = rng.integers(0, 4, (2, 60))
    ruled_out = [i for i in range(60) if any(before[i, other] > 8 * before[i, labels[i]] for other in range(4))]
    by_hand = np.mean([late[i] == labels[i] for i in ruled_out])
    assert reversals(scale * before, late, labels) == pytest.approx(by_hand)
    assert reversals(scale * before, labels, labels) == 1
    few = ruled_out[:9]
    assert reversals(before[few], labels[few], labels[few]) == 0


@pytest.mark.parametrize(("share", "name"), [(0.0, "Unmixed-kNN-RampProb-LM"), (1.0, "Unmixed-EarlyProb-LM")])
def test_the_default_ranks_without_features_that_have_memorised(share, name):
    logits, labels, wrong, features = late_run(share)
    dynamics = Dynamics.from_arrays(logits, labels, features=features)
    assert find_method(dynamics, None).name == name
    assert set(rank(dynamics)["id"][: wrong.sum()]) == set(np.flatnonzero(wrong))
    assert KNN().choose(dynamics.context).a == 0.5


def test_features_are_used_if_no_label_was_rejected_or_there_is_one_epoch():
    logits, labels, _, features = late_run(0.0)
    sure = 5.0 * np.eye(3)[labels]
    for epochs in (np.stack([sure, sure]), logits[-1]):
        assert find_method(Dynamics.from_arrays(epochs, labels, features=features), None).name.startswith("Unmixed-kNN")


@pytest.mark.parametrize("keep", ["all", "stream"])
def test_a_label_is_ruled_out_if_another_class_is_eight_times_as_likely(keep):
    logits, labels, wrong, features = late_run(1.0)
    known = recorded(logits, labels, features, keep)
    assert not find_method(known, None).name.startswith("Unmixed-kNN")
    unsure = logits.copy()
    unsure[:6, wrong, labels[wrong]] = 4 - np.log(5)  # another class is five times as likely: not ruled out
    assert find_method(recorded(unsure, labels, features, keep), None).name.startswith("Unmixed-kNN")


@pytest.mark.parametrize(("late_fit", "used"), [(0.15, True), (0.18, False)])
def test_running_sums_have_their_own_limit(late_fit, used):
    logits, labels, wrong, _ = late_run(0.0)
    back = np.flatnonzero(wrong)[: round(late_fit * wrong.sum())]
    logits[-2:, back] = 9.0 * np.eye(3)[labels[back]]
    by_class = np.eye(3)[np.where(wrong, (labels - 1) % 3, labels)]
    assert find_method(recorded(logits, labels, by_class, "stream"), None).name.startswith("Unmixed-kNN") == used
    assert find_method(recorded(logits, labels, by_class), None).name.startswith("Unmixed-kNN")


def hard_labels(sure, share, samples=1000, seed=0):
    """A run with 2 % wrong labels, and 10 % correct but hard ones, of which it predicts a share in its last quarter.

    Before that, another class is 3 times as likely as a hard label, or 50 times if the model is `sure`. Wrong labels
    are never predicted. Returns logits (E, N, K), labels, and features by class.
    """
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 3, samples)
    labels, is_hard = np.where(np.arange(samples) < 20, (true + 1) % 3, true), np.arange(samples) >= samples * 9 // 10
    logits = np.repeat(4.0 * np.eye(3)[None, true], 8, axis=0)
    logits[:6, is_hard] += np.log(50 if sure else 3) * np.eye(3)[(true[is_hard] + 2) % 3] - logits[0, is_hard]
    logits[6:, is_hard] = logits[:2, is_hard]
    learned = np.flatnonzero(is_hard)[: round(share * is_hard.sum())]
    logits[6:, learned] = 6.0 * np.eye(3)[true[learned]]
    return logits.astype(np.float32), labels, np.eye(3)[true] + 0.05 * rng.normal(size=(samples, 3))


@pytest.mark.parametrize("keep", ["all", "stream"])
@pytest.mark.parametrize(
    ("sure", "share", "used"), [(False, 0.8, True), (True, 0.8, False), (True, 0.1, True), (False, 0.1, True)]
)
def test_a_model_that_learns_hard_labels_late_has_not_memorised(sure, share, used, keep):
    logits, labels, features = hard_labels(sure, share)
    dynamics = recorded(logits, labels, features, keep)
    assert find_method(dynamics, None).name.startswith("Unmixed-kNN") == used
    mean, late_classes = softmax(logits, axis=2).mean(axis=0).argmax(axis=1), logits[-1].argmax(axis=1)
    assert (late_fit_share(fit_counts(mean, late_classes, labels)) > 0.19) == (share == 0.8)
    before = softmax(logits[:6], axis=2).mean(axis=0)
    counts = np.append(feature_counts(before, mean, late_classes, labels), [0, 0])
    assert from_counts(counts).features != used


@pytest.mark.parametrize(
    ("methods", "name"),
    [
        (["Unmixed-kNN-RampProb-LM", "MeanProb-LM", "Last-LM"], "Unmixed-MeanProb-LM"),
        (["Unmixed-kNN-RampProb-LM", "MeanProb-LM"], "Unmixed-MeanProb-LM"),
        (["Unmixed-kNN-RampProb-LM", "Last-LM"], "Unmixed-kNN-RampProb-LM"),
    ],
)
def test_the_default_of_running_sums_depends_on_what_was_kept(methods, name):
    logits, labels, _, by_label = late_run(1.0)
    recorder = Recorder(labels=labels, num_classes=3, keep="stream", methods=methods, quiet=True)
    for epoch in logits:
        recorder.update_all(epoch)
        recorder.end_epoch()
    assert find_method(recorder.finish(features=by_label), None).name == name
