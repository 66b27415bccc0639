"""The early window against loops over samples, on runs that learn and then memorise."""

import math
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from errata.core import early, memorising
from errata.core.methods import parse
from errata.core.metrics import fnr
from errata.core.replay import Epochs, replay, replay_arrays
from errata.core.sample_context import SampleContext
from errata.dynamics.ranking import rank
from errata.dynamics.recorder import Recorder
from errata.dynamics.scoring import epochs_used, find_method, score
from errata.dynamics.store import Dynamics

CLASSES, EPOCHS = 4, 32


def clusters(seed=0, samples=400, wrong=0.2, frequencies=None):
    """Labels of which some are wrong, the true classes, and points that form one cluster per class."""
    rng = np.random.default_rng(seed)
    true = rng.choice(CLASSES, samples, p=frequencies)
    moved = rng.random(samples) < wrong
    labels = np.where(moved, (true + rng.integers(1, CLASSES, samples)) % CLASSES, true)
    return labels, true, np.eye(CLASSES)[true] + 0.05 * rng.normal(size=(samples, CLASSES))


def a_run(labels, true, memorises_from, seed=1):
    """Logits (E, N, K) that predict the true class, with growing confidence, and from some epoch on the given label.

    How large the logit of a memorised label is differs between samples.
    """
    rng = np.random.default_rng(seed)
    logits, strength = rng.normal(size=(EPOCHS, len(labels), CLASSES)), rng.uniform(0, 8, len(labels))
    for epoch in range(EPOCHS):
        learns = epoch < memorises_from
        logits[epoch, np.arange(len(labels)), true if learns else labels] += (
            min(4.0, 0.5 * epoch) if learns else strength
        )
    return logits.astype(np.float32)


def chosen_end(logits, labels, spaces):
    (arrays,) = replay_arrays(Epochs(logits, labels, context=spaces), [parse("EarlyProb-LM")])
    return early.window_ends(len(logits))[early.choose_window(arrays["log_probabilities"], labels, spaces)]


def agreement_by_hand(log_p, held_out):
    """For each window the mean over samples of the sum over classes of h log p, one number at a time."""
    samples, windows, classes = log_p.shape
    return [
        math.fsum(
            held_out[i, c] * max(float(log_p[i, window, c]), -30.0) for i in range(samples) for c in range(classes)
        )
        for window in range(windows)
    ]


def some_predictions(true, seed=0, sure=3.0):
    """Held-out log-probabilities (N, K) that prefer the true class."""
    rng = np.random.default_rng(seed)
    return log_softmax(sure * np.eye(CLASSES)[true] + rng.normal(size=(len(true), CLASSES)), axis=1)


@given(seed=st.integers(0, 30), windows=st.integers(1, 5), scale=st.sampled_from([1, 3, 40]))
def test_the_window_that_agrees_best_with_held_out_predictions_is_chosen(seed, windows, scale):
    labels, true, _ = clusters(seed, samples=40, wrong=0.05)
    held_out = some_predictions(true, seed)
    rng = np.random.default_rng(seed)
    log_p = log_softmax(scale * rng.normal(size=(40, windows, CLASSES)), axis=-1)
    expected = int(np.argmax(agreement_by_hand(log_p, np.exp(held_out))))
    assert early.choose_window(log_p, labels, SampleContext(held_out=held_out)) == expected
    shifted = log_p + rng.normal(size=(40, windows, 1))  # sums over a window are not normalised
    assert early.choose_window(shifted, labels, SampleContext(held_out=held_out)) == expected


def test_of_equal_windows_the_longest_is_chosen():
    labels, true, _ = clusters(samples=60)
    log_p = np.repeat(log_softmax(a_run(labels, true, 12)[0], axis=1)[:, None], 4, axis=1)
    assert early.choose_window(log_p, labels, SampleContext(held_out=some_predictions(true))) == 3


@pytest.mark.parametrize("share", [0.75, 0.85])
def test_held_out_predictions_are_used_if_their_loss_is_well_below_that_of_guessing(share):
    """They agree best with the first of two windows; the run alone gives no reason to leave out the second."""
    labels = np.arange(400) % CLASSES
    level = math.exp(-share * math.log(CLASSES))  # the probability of every label
    held_out = np.log(np.where(np.eye(CLASSES)[labels] > 0, level, (1 - level) / (CLASSES - 1)))
    undecided = np.zeros_like(held_out)
    log_p = np.stack([held_out, undecided], axis=1)
    assert early.loss_of_guessing(np.bincount(labels)) == pytest.approx(math.log(CLASSES))
    chosen = early.choose_window(log_p, labels, SampleContext(held_out=held_out))
    assert chosen == (0 if share < early.INFORMATIVE_LOSS else 1)


@given(counts=st.lists(st.integers(0, 30), min_size=1, max_size=6).filter(any))
def test_the_loss_of_guessing_is_the_mean_over_samples(counts):
    labels = np.repeat(np.arange(len(counts)), counts)
    by_hand = -math.fsum(math.log(counts[label] / len(labels)) for label in labels) / len(labels)
    assert early.loss_of_guessing(np.bincount(labels)) == pytest.approx(by_hand, abs=1e-12)


@pytest.fixture(scope="module")
def inputs_of_clusters():
    """The points of `clusters()` as inputs; held-out predictions from them are made once."""
    return SampleContext(inputs=clusters()[2])


@cache
def random_inputs(samples=400):
    """Inputs that carry no information; held-out predictions from them are made once for each vector of labels."""
    return SampleContext(inputs=np.random.default_rng(5).normal(size=(samples, 2)))


@given(epochs=st.integers(1, 2000))
def test_windows_end_within_the_run_and_the_last_is_the_whole_run(epochs):
    ends = early.window_ends(epochs)
    assert ends == sorted(set(ends))
    assert ends[0] >= 1
    assert ends[-1] == epochs


def test_epochs_are_used_until_the_model_memorises(inputs_of_clusters):
    labels, true, _ = clusters()
    spaces = inputs_of_clusters
    learns = a_run(labels, true, memorises_from=EPOCHS)
    memorises = a_run(labels, true, memorises_from=12)
    assert chosen_end(learns, labels, spaces) == EPOCHS
    assert chosen_end(memorises, labels, spaces) in (8, 12)
    early_scores, all_scores = (
        replay(Epochs(memorises, labels, context=spaces), [parse(name)])[0].scores
        for name in ("EarlyProb-LM", "MeanProb-LM")
    )
    wrong = labels != true
    assert fnr(early_scores, wrong) < 0.02 < 0.2 < fnr(all_scores, wrong)


@pytest.mark.parametrize("frequencies", [None, [0.85, 0.05, 0.05, 0.05]])
@pytest.mark.parametrize("memorises_from", [12, 20, EPOCHS])
def test_random_inputs_are_not_used(frequencies, memorises_from):
    labels, true, _ = clusters(frequencies=frequencies)
    logits = a_run(labels, true, memorises_from)
    assert chosen_end(logits, labels, random_inputs()) == chosen_end(logits, labels, SampleContext())


def window_by_hand(logits, labels):
    """The end of the longest window whose last part predicts at most 10 % of the labels rejected before it."""
    probabilities, ends = softmax(logits.astype(np.float64), axis=2), early.window_ends(len(logits))
    for start, end in [*pairwise(ends)][::-1]:
        before, part = probabilities[:start].mean(axis=0), probabilities[start:end].mean(axis=0).argmax(axis=1)
        sure = [i for i in range(len(labels)) if before[i].max() > 0.6 and before[i, labels[i]] < 0.2]
        if len(sure) < 10 or sum(part[i] == labels[i] for i in sure) / len(sure) <= 0.1:
            return end
    return ends[0]


def one_by_one(labels, true, seed=2):
    """Logits (E, N, K) of a model that memorises one label after another, and not all of them."""
    rng = np.random.default_rng(seed)
    begins = rng.uniform(4, 1.25 * EPOCHS, len(labels))
    learned = 2.0 * np.eye(CLASSES)[true] + rng.normal(size=(len(labels), CLASSES))
    memorised = 8.0 * np.eye(CLASSES)[labels]
    known = [np.where((epoch < begins)[:, None], learned, memorised) for epoch in range(EPOCHS)]
    return (np.stack(known) + rng.normal(size=(EPOCHS, *learned.shape))).astype(np.float32)


@pytest.mark.parametrize("known", ["nothing", "features"])
@pytest.mark.parametrize("memorises_from", [4, 12, 20, 24, 28, 30, EPOCHS, "one by one"])
def test_without_inputs_epochs_are_used_until_confident_rejections_are_reversed(memorises_from, known):
    labels, true, points = clusters()
    gradually = memorises_from == "one by one"
    logits = one_by_one(labels, true) if gradually else a_run(labels, true, memorises_from)
    found = chosen_end(logits, labels, SampleContext(features=points) if known == "features" else SampleContext())
    assert found == window_by_hand(logits, labels)
    assert (found < EPOCHS) == (gradually or 20 <= memorises_from <= 28)


def a_learner(labels, true, seed=3):
    """Logits (E, N, K) of a model that is undecided about a sample until it learns it, one sample after another."""
    rng = np.random.default_rng(seed)
    known = (np.arange(EPOCHS)[:, None] > rng.uniform(0, 1.5 * EPOCHS, len(labels)))[:, :, None]
    return (np.where(known, 5.0 * np.eye(CLASSES)[true], 0) + rng.normal(size=(EPOCHS, len(labels), CLASSES))).astype(
        np.float32
    )


@pytest.mark.parametrize("wrong", [0.0, 0.02, 0.1, 0.3])
@pytest.mark.parametrize("gathering", ["in-sample", "out-of-sample"])
def test_all_epochs_of_a_run_that_only_learns_are_used_however_few_labels_are_wrong(wrong, gathering):
    labels, true, _ = clusters(wrong=wrong)
    logits = a_learner(labels, true)
    assert chosen_end(logits, labels, SampleContext()) == chosen_end(logits, labels, random_inputs()) == EPOCHS
    name = find_method(Dynamics.from_arrays(logits, labels, gathering=gathering), None).name
    assert name.startswith("Unmixed-MeanProb-LM")


@pytest.mark.parametrize("seed", range(4))
def test_the_early_window_finds_more_if_labels_are_memorised_one_by_one(seed):
    labels, true, _ = clusters(seed)
    logits, wrong = one_by_one(labels, true), labels != true
    early_on, whole = (fnr(score(logits, labels, method), wrong) for method in ("EarlyProb-LM", "MeanProb-LM"))
    assert early_on < 0.95 * whole
    assert fnr(score(logits, labels), wrong) <= early_on + 0.02  # it is the default


@pytest.mark.parametrize("allow_missing", [False, True])
def test_a_sample_that_misses_a_part_keeps_its_earlier_prediction(allow_missing):
    labels, true, _ = clusters()
    logits = a_run(labels, true, memorises_from=20)
    if allow_missing:
        logits[24:, ::3] = np.nan
    (arrays,) = replay_arrays(Epochs(logits, labels, allow_missing=allow_missing), [parse("EarlyProb-LM")])
    mean, added = memorising.predicted_classes(arrays["log_probabilities"])
    probabilities = softmax(logits[:24].astype(np.float64), axis=2).mean(axis=0)
    np.testing.assert_array_equal(mean[-2], probabilities.argmax(axis=1))
    if allow_missing:
        np.testing.assert_array_equal(added[-1, ::3], mean[-1, ::3])
    last = softmax(logits[24:, 1::3].astype(np.float64), axis=2).mean(axis=0)
    np.testing.assert_array_equal(added[-1, 1::3], last.argmax(axis=1))


@pytest.mark.parametrize(("kept", "end"), [(0, 16), (20, 16), (30, 12)])
def test_a_class_that_is_learned_late_is_not_treated_as_memorised(kept, end):
    true = np.repeat([0, 1], [450, 50])
    logits = np.zeros((16, 500, 2), dtype=np.float32)
    logits[:12, :, 0] = 4.0  # for three quarters of the run, few samples of the rare class are predicted
    logits[:12, 450 : 450 + kept] = [0.0, 4.0]
    logits[12:] = 8.0 * np.eye(2)[true]
    assert window_by_hand(logits, true) == 12
    assert chosen_end(logits, true, SampleContext()) == end


@pytest.mark.parametrize("known", ["nothing", "features"])
@pytest.mark.parametrize("measure", ["CE", "JS", "LM", "CPD"])
def test_without_inputs_all_epochs_of_a_run_that_only_learns_are_used(known, measure):
    labels, true, points = clusters(samples=60)
    logits = a_run(labels, true, memorises_from=EPOCHS)
    spaces = SampleContext(features=points) if known == "features" else SampleContext()
    found, mean = replay(
        Epochs(logits, labels, context=spaces), [parse(f"EarlyProb-{measure}"), parse(f"MeanProb-{measure}")]
    )
    np.testing.assert_allclose(found.scores, mean.scores, rtol=1e-5, atol=1e-6)


def test_scores_equal_those_of_the_mean_over_the_chosen_window():
    labels, true, points = clusters()
    memorises = a_run(labels, true, memorises_from=12)
    dynamics = Dynamics.from_arrays(memorises, labels, features=points, held_out=some_predictions(true))
    end = chosen_end(dynamics.logits, labels, dynamics.context)
    assert end < EPOCHS
    for around in ("", "kNN-", "Unmixed-kNN-", "HeldOut-", "Unmixed-HeldOut-"):
        found = score(dynamics, f"{around}EarlyProb-LM")
        np.testing.assert_allclose(found, score(dynamics, f"{around}MeanProb-LM", window=(0, end - 1)), atol=1e-4)


def test_the_suggested_label_is_not_the_memorised_one():
    labels, true, _ = clusters()
    memorises = a_run(labels, true, memorises_from=12)
    dynamics = Dynamics.from_arrays(memorises, labels, held_out=some_predictions(true))
    first = rank(dynamics).head(int((labels != true).sum()))
    rows = first["id"].to_numpy()
    assert (first["suggested"] == true[rows]).mean() > 0.95
    assert (first["suggested_probability"] > first["label_probability"]).mean() > 0.95


def test_the_number_of_epochs_used():
    labels, true, _ = clusters()
    memorises = a_run(labels, true, memorises_from=12)
    dynamics = Dynamics.from_arrays(memorises, labels, held_out=some_predictions(true))
    method = find_method(dynamics, None)
    assert epochs_used(dynamics, method) == chosen_end(dynamics.logits, labels, dynamics.context) < EPOCHS
    assert epochs_used(dynamics.window((0, 5)), method) == 6
    assert epochs_used(dynamics.window((2, 30)), parse("MeanProb-LM")) == 29


def test_a_sample_missing_in_the_early_epochs_is_scored_by_the_first_window_that_has_it():
    labels, true, _ = clusters()
    logits = a_run(labels, true, memorises_from=12)
    logits[:20, 0] = np.nan
    spaces = SampleContext(held_out=some_predictions(true))
    epochs = Epochs(logits, labels, allow_missing=True, context=spaces)
    found = replay(epochs, [parse("EarlyProb-LM")])[0].scores
    next_share = Epochs(logits[20:24, :1], labels[:1])
    assert np.isfinite(found).all()
    assert found[0] == pytest.approx(replay(next_share, [parse("MeanProb-LM")])[0].scores[0], rel=1e-5)


@pytest.mark.parametrize(
    ("keep", "name"), [("all", "Unmixed-HeldOut-EarlyProb-LM"), ("stream", "Unmixed-HeldOut-MeanProb-LM")]
)
def test_it_is_the_default_with_inputs_unless_only_sums_were_kept(keep, name):
    labels, true, points = clusters(samples=60)
    recorder = Recorder(labels=labels, num_classes=CLASSES, keep=keep, quiet=True)
    for epoch in a_run(labels, true, memorises_from=12):
        recorder.update_all(epoch)
        recorder.end_epoch()
    assert find_method(recorder.finish(inputs=points), None).name == name


@pytest.mark.parametrize(
    ("memorises_from", "keep", "gathering", "name"),
    [
        (20, "all", "in-sample", "Unmixed-EarlyProb-LM"),
        (EPOCHS, "all", "in-sample", "Unmixed-MeanProb-LM"),
        (20, "stream", "in-sample", "Unmixed-MeanProb-LM"),
        (20, "all", "out-of-sample", "Unmixed-MeanProb-LM (OOS)"),
    ],
)
def test_it_is_the_default_of_a_run_that_memorises_without_neighbours(memorises_from, keep, gathering, name):
    labels, true, _ = clusters()
    recorder = Recorder(labels=labels, num_classes=CLASSES, keep=keep, gathering=gathering, quiet=True)
    for epoch in a_run(labels, true, memorises_from):
        recorder.update_all(epoch)
        recorder.end_epoch()
    assert find_method(recorder.finish(), None).name == name
