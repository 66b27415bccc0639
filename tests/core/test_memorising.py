"""Features that have memorised labels are known by two signs, and then not asked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from errata.core.memorising import come_round, features_have_memorised, heading_for, siding_with_labels
from errata.core.neighbourhood import KNN, Space
from errata.dynamics.default import find_method
from errata.dynamics.recorder import Recorder
from errata.dynamics.scoring import rank
from errata.dynamics.store import Dynamics


def late(share, samples=600, seed=0):
    """A run that knew what is wrong of a fifth of the labels, and in its last quarter came round to a share of all.

    Logits (E, N, K), labels, which are wrong, and features in which samples lie by what the last epoch predicts.
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
def test_labels_that_a_run_came_round_to_are_counted(share):
    logits, labels, wrong, _ = late(share)
    last = logits[-1].argmax(axis=1)
    by_hand = sum(last[i] == labels[i] for i in np.flatnonzero(wrong)) / wrong.sum()
    assert come_round(logits[0].argmax(axis=1), last, labels) == pytest.approx(by_hand)
    assert come_round(last, logits[0].argmax(axis=1), labels) <= 0
    assert come_round(labels, last, labels) == 0


def recorded(logits, labels, features, keep="all", rows=None):
    """Dynamics of a run; `rows` of an epoch are those that are recorded, all of them if it says nothing."""
    partial = "error" if rows is None else "allow"
    recorder = Recorder(labels=labels, num_classes=3, keep=keep, partial=partial, quiet=True)
    for number, epoch in enumerate(logits):
        ids = np.arange(len(labels)) if rows is None else rows(number)
        recorder.update(ids, epoch[ids])
        recorder.end_epoch()
    return recorder.finish(features=features)


@pytest.mark.parametrize("keep", ["all", "stream"])
@pytest.mark.parametrize(("share", "asked"), [(0.0, True), (0.12, True), (0.3, False), (1.0, False)])
def test_features_of_a_model_that_came_round_are_not_asked(share, asked, keep):
    logits, labels, wrong, _ = late(share)
    by_class = np.eye(3)[np.where(wrong, (labels - 1) % 3, labels)] + 0.05 * np.random.default_rng(1).normal(
        size=(len(labels), 3)
    )
    name = find_method(recorded(logits, labels, by_class, keep), None).name
    assert name.startswith("Unmixed-kNN") == asked
    assert asked or name == ("Unmixed-EarlyProb-LM" if keep == "all" else "Unmixed-MeanProb-LM")


def test_a_wild_last_epoch_is_not_what_a_run_came_round_to():
    logits, labels, wrong, _ = late(0.0)
    logits = np.repeat(logits, 2, axis=0)
    logits[-1] = 6.0 * np.eye(3)[labels]
    by_class = np.eye(3)[np.where(wrong, (labels - 1) % 3, labels)]
    assert come_round(logits[0].argmax(axis=1), logits[-1].argmax(axis=1), labels) == 1
    assert find_method(recorded(logits, labels, by_class), None).name == "Unmixed-kNN-RampProb-LM"


@pytest.mark.parametrize("missing", ["nobody", "some in the last quarter", "half of them all of it"])
def test_samples_that_miss_epochs_do_not_hide_what_a_run_came_round_to(missing):
    logits, labels, wrong, _ = late(1.0)
    by_class = np.eye(3)[np.where(wrong, (labels - 1) % 3, labels)]
    every = np.arange(len(labels))
    rows = {
        "nobody": lambda epoch: every,
        "some in the last quarter": lambda epoch: every[every % 10 != epoch],
        "half of them all of it": lambda epoch: every[:: 2 if epoch > 5 else 1],
    }[missing]
    assert find_method(recorded(logits, labels, by_class, rows=rows), None).name == "Unmixed-EarlyProb-LM"
    logits[-2:] = logits[:2]
    assert find_method(recorded(logits, labels, by_class, rows=rows), None).name == "Unmixed-kNN-RampProb-LM"


@given(epochs=st.integers(2, 9), seed=st.integers(0, 100))
def test_where_a_run_is_heading_is_the_end_of_a_straight_line(epochs, seed):
    p = softmax(3 * np.random.default_rng(seed).normal(size=(epochs, 7, 4)), axis=2)
    weights = np.arange(1.0, epochs + 1)
    mean, ramp = p.mean(axis=0), np.tensordot(weights / weights.sum(), p, axes=1)
    ends = np.empty((7, 4))
    for sample in range(7):
        for label in range(4):
            ends[sample, label] = np.polyval(np.polyfit(weights, p[:, sample, label], 1), epochs)
    np.testing.assert_allclose(3 * ramp - 2 * mean, ends, atol=1e-9)
    np.testing.assert_array_equal(heading_for(np.log(mean), np.log(ramp)), ends.argmax(axis=1))


@pytest.mark.parametrize(("share", "name"), [(0.0, "Unmixed-kNN-RampProb-LM"), (1.0, "Unmixed-EarlyProb-LM")])
def test_features_that_have_memorised_are_not_asked_by_default(share, name):
    logits, labels, wrong, features = late(share)
    dynamics = Dynamics.from_arrays(logits, labels, features=features)
    assert find_method(dynamics, None).name == name
    assert set(rank(dynamics)["id"][: wrong.sum()]) == set(np.flatnonzero(wrong))
    assert KNN().choose(log_softmax(logits[-1].astype(float), axis=1), labels, dynamics.space).a == 0.5


def test_features_of_a_run_that_believes_every_label_or_has_one_epoch_are_asked():
    logits, labels, _, features = late(0.0)
    sure = 5.0 * np.eye(3)[labels]
    for epochs in (np.stack([sure, sure]), logits[-1]):
        assert find_method(Dynamics.from_arrays(epochs, labels, features=features), None).name.startswith("Unmixed-kNN")


def exactly(came_round, siding, doubted=100):
    """Predictions by the mean and by the last quarter, labels, and features of which each decides one sign exactly."""
    labels = np.tile([0, 1], 5 * doubted)
    mean, last = labels.copy(), labels.copy()
    mean[:doubted] = last[:doubted] = 1 - labels[:doubted]
    last[: round(came_round * doubted)] = labels[: round(came_round * doubted)]
    lies = labels.copy()  # among those that bear this label
    lies[round(siding * doubted) : doubted] = 1 - labels[round(siding * doubted) : doubted]
    return mean, last, labels, np.eye(2)[lies] + 0.01 * np.random.default_rng(0).normal(size=(len(labels), 2))


@pytest.mark.parametrize(
    ("came_round", "siding", "memorised"),
    [(0.17, 0.55, False), (0.21, 0.1, True), (0.0, 0.65, True), (-0.0, 0.0, False), (0.35, 0.35, True)],
)
def test_either_sign_is_enough(came_round, siding, memorised):
    mean, last, labels, features = exactly(came_round, siding)
    space = Space(features=features)
    assert come_round(mean, last, labels) == pytest.approx(came_round)
    assert siding_with_labels(mean, labels, space) == pytest.approx(siding, abs=0.02)
    assert features_have_memorised(mean, last, labels, space) == memorised


@pytest.mark.parametrize(
    ("methods", "name"),
    [
        (["Unmixed-kNN-RampProb-LM", "MeanProb-LM", "Last-LM"], "Unmixed-MeanProb-LM"),
        (["Unmixed-kNN-RampProb-LM", "MeanProb-LM"], "Unmixed-MeanProb-LM"),
        (["Unmixed-kNN-RampProb-LM", "Last-LM"], "Unmixed-kNN-RampProb-LM"),
    ],
)
def test_running_sums_tell_as_far_as_they_go(methods, name):
    logits, labels, _, by_label, _ = throughout()
    recorder = Recorder(labels=labels, num_classes=3, keep="stream", methods=methods, quiet=True)
    for epoch in logits:
        recorder.update_all(epoch)
        recorder.end_epoch()
    assert find_method(recorder.finish(features=by_label), None).name == name


def throughout(samples=600, seed=0):
    """A run that doubts one wrong label in five from beginning to end, and features that know them all."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 3, samples)
    labels = np.where(rng.random(samples) < 0.2, (true + 1) % 3, true)
    predicted = np.where(rng.random(samples) < 0.2, true, labels)
    logits = np.repeat(4.0 * np.eye(3)[None, predicted], 5, axis=0)
    by_label, by_class = (np.eye(3)[of] + 0.05 * rng.normal(size=(samples, 3)) for of in (labels, true))
    return logits.astype(np.float32), labels, predicted, by_label, by_class


def test_neighbours_side_with_the_label_or_with_what_is_predicted():
    _, labels, predicted, by_label, by_class = throughout(samples=150)
    for features in (by_label, by_class):
        unit = features / np.linalg.norm(features, axis=1, keepdims=True)
        sides = []
        for i in np.flatnonzero(predicted != labels):
            near = sorted((j for j in range(150) if j != i), key=lambda j: (-float(unit[i] @ unit[j]), j))[:10]
            given, other = (sum(labels[j] == of for j in near) for of in (labels[i], predicted[i]))
            sides.append(1.0 if given > other else 0.0 if given < other else 0.5)
        found = siding_with_labels(predicted, labels, Space(features=features))
        assert found == pytest.approx(np.mean(sides))
    assert siding_with_labels(labels, labels, Space(features=by_label)) == 0


def test_features_that_knew_the_labels_all_along_are_not_asked_by_default():
    logits, labels, _, by_label, by_class = throughout()
    assert find_method(Dynamics.from_arrays(logits, labels, features=by_label), None).name == "Unmixed-MeanProb-LM"
    assert find_method(Dynamics.from_arrays(logits, labels, features=by_class), None).name == "Unmixed-kNN-RampProb-LM"
