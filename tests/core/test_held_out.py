"""The step HeldOut: its formula, its names, and what planted errors gain; the run's own held-out predictions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax
from test_held_out_models import clouds

import errata
from errata.core.held_out import HeldOut
from errata.core.measures import LM
from errata.core.method_parts import ProbabilityVectors
from errata.core.methods import parse
from errata.core.metrics import fnr
from errata.core.pooling import held_out_pool
from errata.core.replay import Epochs, replay
from errata.core.sample_context import SampleContext
from errata.core.unmixing import count_typical, label_evidence, transition_of_typical, true_classes
from errata.dynamics.merge import merge
from errata.dynamics.ranking import rank
from errata.dynamics.scoring import score
from errata.dynamics.store import Dynamics
from errata.errors import InputError, StoreError


def random_logs(seed, samples=30, classes=3):
    return log_softmax(2 * np.random.default_rng(seed).normal(size=(samples, classes)), axis=1)


@given(seed=st.integers(0, 50), a=st.sampled_from([0.0, 0.25, 0.4, 1.0]))
def test_the_blend_is_the_formula(seed, a):
    own, held_out = random_logs(seed), random_logs(seed + 1000)
    labels = np.arange(30) % 3
    vectors = HeldOut(a=a).apply(ProbabilityVectors(own), labels, SampleContext(held_out=held_out))
    for i in range(30):
        for c in range(3):
            assert vectors.log_probabilities[i, c] == pytest.approx(a * own[i, c] + (1 - a) * held_out[i, c])
    assert vectors.held_out_log_probabilities is held_out
    assert vectors.neighbour_log_probabilities is None


def test_the_weight_of_the_run_is_two_fifths():
    assert HeldOut() == HeldOut(a=0.4)
    assert parse("HeldOut(a=0.4)-MeanProb-LM").name == "HeldOut-MeanProb-LM"


def test_a_whole_method_blends_counts_typical_samples_and_unmixes():
    """Every label of class 0 is right, and half of those of class 1 are 2."""
    rng = np.random.default_rng(0)
    true = np.arange(600) % 3
    labels = np.where((true == 1) & (rng.random(600) < 0.5), 2, true)
    logits = 2.0 * np.eye(3)[labels] + rng.normal(size=(4, 600, 3))
    spaces = SampleContext(inputs=rng.normal(size=(600, 2)) + 3 * np.eye(3, 2)[true])
    (found,) = replay(Epochs(logits, labels, context=spaces), [parse("Unmixed(rounds=3)-HeldOut(a=0.3)-MeanProb-LM")])
    mean = np.log(np.exp(log_softmax(logits, axis=2)).mean(axis=0))
    held_out = held_out_pool(labels, 3, spaces)
    blend = log_softmax(0.3 * mean + 0.7 * held_out, axis=1)
    T = transition_of_typical(count_typical(held_out, labels))
    expected = LM(true_classes(blend, T, 3) + label_evidence(T)[:, labels].T, labels)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-6, atol=1e-8)


def test_planted_errors_come_first_though_the_run_has_memorised_them():
    inputs, given_labels = clouds(samples=240, spread=0.4)
    wrong = given_labels != np.arange(240) % 3
    memorised = 3.0 * np.eye(3)[given_labels]
    dynamics = Dynamics.from_arrays(memorised, given_labels, inputs=inputs)
    assert fnr(score(dynamics, "HeldOut-MeanProb-LM"), wrong) < 0.1
    assert fnr(score(dynamics, "MeanProb-LM"), wrong) > 0.8


@pytest.mark.parametrize("labels", [np.arange(9) % 2, np.zeros(20, dtype=np.int64)])
def test_nothing_changes_where_no_label_can_be_held_out(labels):
    own = random_logs(0, len(labels))
    spaces = SampleContext(inputs=np.random.default_rng(0).normal(size=(len(labels), 2)))
    vectors = ProbabilityVectors(own)
    assert HeldOut().apply(vectors, labels, spaces) is vectors
    assert np.isfinite(score(Dynamics.from_arrays(own, labels, inputs=spaces.points["inputs"]))).all()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("HeldOut(a=1.5)-MeanProb-LM", "HeldOut needs a between 0 and 1, not 1.5"),
        ("HeldOut(a=-1)-MeanProb-LM", "not -1"),
        ("HeldOut(k=3)-MeanProb-LM", "no parameter 'k'"),
        ("HeldOut-Mean-LM", "HeldOut needs one probability vector per sample, and Mean has none"),
        ("HeldOut-kNN-MeanProb-LM", "must stand directly before the aggregation"),
        ("HeldOut-Unmixed-MeanProb-LM", "HeldOut must stand directly before the aggregation"),
        ("HeldOut-HeldOut-MeanProb-LM", "HeldOut must stand directly before the aggregation"),
    ],
)
def test_bad_names(name, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        parse(name)


def test_a_run_without_inputs_is_refused():
    labels = np.arange(30) % 3
    with pytest.raises(InputError, match="HeldOut needs inputs of the samples, or held-out predictions; this run has"):
        score(Dynamics.from_arrays(random_logs(0), labels, features=random_logs(1)), "HeldOut-MeanProb-LM")


# Held-out predictions that a run brings.


@pytest.fixture
def run():
    """Logits (E, N, K), labels, and logits of models that have not seen the labels."""
    rng = np.random.default_rng(0)
    labels = np.arange(30) % 3
    return rng.normal(size=(4, 30, 3)).astype(np.float32), labels, 2 * np.eye(3)[labels] + rng.normal(size=(30, 3))


def test_logits_are_normalised(run):
    logits, labels, held_out = run
    shift = np.random.default_rng(1).normal(size=(30, 1))
    scores = [
        score(Dynamics.from_arrays(logits, labels, held_out=values))
        for values in (held_out, held_out + shift, log_softmax(held_out, axis=1), list(map(list, held_out)))
    ]
    for other in scores[1:]:
        np.testing.assert_allclose(other, scores[0], atol=1e-9)


def test_they_are_used_in_place_of_predictions_from_the_inputs(run, monkeypatch):
    logits, labels, held_out = run
    monkeypatch.setattr("errata.core.pooling.held_out_predictions", lambda *_: pytest.fail("models were trained"))
    with_inputs = Dynamics.from_arrays(logits, labels, inputs=logits[0], held_out=held_out)
    np.testing.assert_array_equal(score(with_inputs), score(Dynamics.from_arrays(logits, labels, held_out=held_out)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_they_are_saved_and_opened_bit_for_bit(run, tmp_path, dtype):
    logits, labels, held_out = run
    dynamics = Dynamics.from_arrays(logits, labels, held_out=held_out.astype(dtype))
    opened = dynamics.save(tmp_path / "run")
    assert opened.held_out.dtype == dtype
    np.testing.assert_array_equal(opened.held_out, held_out.astype(dtype))
    assert rank(opened).equals(rank(dynamics))
    assert (tmp_path / "run" / "held_out.npy").exists()
    again = Dynamics.from_arrays(logits, labels).save(tmp_path / "without")
    assert again.held_out is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((30, 2)), r"held_out must have shape \(30, 3\), not \(30, 2\)"),
        (np.zeros((29, 3)), r"held_out must have shape \(30, 3\), not \(29, 3\)"),
        (np.zeros(30), r"held_out must have shape \(30, 3\), not \(30,\)"),
        (np.full((30, 3), np.nan), "held_out of sample 0 are not finite"),
        (np.full((30, 3), "x"), "held_out must be numbers"),
    ],
)
def test_other_arrays_are_refused(run, tmp_path, values, message):
    logits, labels, held_out = run
    with pytest.raises(InputError, match=message):
        Dynamics.from_arrays(logits, labels, held_out=values)
    recorder = recorded(logits, labels)
    with pytest.raises(InputError, match=message):
        recorder.finish(held_out=values)
    assert recorder.finish(held_out=held_out).held_out is not None
    Dynamics.from_arrays(logits, labels, held_out=held_out).save(tmp_path / "run")
    np.save(tmp_path / "run" / "held_out.npy", values)
    with pytest.raises(StoreError, match=message.replace("held_out", r"run/held_out\.npy", 1)):
        Dynamics.open(tmp_path / "run")


def recorded(logits, labels, path=None, **options):
    recorder = errata.Recorder(path, labels=labels, num_classes=3, quiet=True, **options)
    for epoch in logits:
        recorder.update_all(epoch)
        recorder.end_epoch()
    return recorder


@pytest.mark.parametrize("keep", ["all", "stream"])
def test_a_recorder_takes_them_and_a_new_run_in_the_folder_has_none(run, tmp_path, keep):
    logits, labels, held_out = run
    finished = recorded(logits, labels, tmp_path / "run", keep=keep).finish(held_out=held_out)
    np.testing.assert_array_equal(finished.held_out, held_out)
    np.testing.assert_array_equal(Dynamics.open(tmp_path / "run").held_out, held_out)
    name = "Unmixed-HeldOut-MeanProb-LM"
    expected = score(Dynamics.from_arrays(logits, labels, held_out=held_out), name)
    np.testing.assert_allclose(score(finished, name), expected, rtol=1e-5, atol=1e-6)
    replaced = recorded(logits, labels, tmp_path / "run", keep=keep, overwrite=True).finish()
    assert replaced.held_out is None


def test_they_are_merged_if_all_shards_have_them(run):
    logits, labels, held_out = run
    fold = np.arange(30) % 2
    rows = [np.flatnonzero(fold == number) for number in (0, 1)]
    shards = [Dynamics.from_arrays(logits[:, part], labels[part], ids=part, held_out=held_out[part]) for part in rows]
    merged = merge(shards, labels, path=None, fold=fold, settings={})
    np.testing.assert_array_equal(merged.held_out, held_out)
    shards[1] = Dynamics.from_arrays(logits[:, rows[1]], labels[rows[1]], ids=rows[1])
    assert merge(shards, labels, path=None, fold=fold, settings={}).held_out is None


def test_a_window_keeps_them(run):
    logits, labels, held_out = run
    dynamics = Dynamics.from_arrays(logits, labels, held_out=held_out)
    assert dynamics.window((0, 1)).held_out is dynamics.held_out
    assert dynamics.window((0, 1)).context is dynamics.context


def test_an_archive_of_logits_can_hold_them(run, tmp_path):
    logits, labels, held_out = run
    np.savez(tmp_path / "run.npz", logits=logits, labels=labels, held_out=held_out)
    found = errata.find(tmp_path / "run.npz")
    assert found.summary["method"] == "Unmixed-HeldOut-EarlyProb-LM"
    expected = score(Dynamics.from_arrays(logits, labels, held_out=held_out))
    np.testing.assert_array_equal(found.ranking.sort_values("id")["score"], expected)
