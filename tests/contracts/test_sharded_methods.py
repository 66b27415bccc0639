"""Every method that factors has the same scores and flags in shards as in one piece, bit for bit."""

import itertools
import re
import tempfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from errata.core import factored_ctrl, factored_selection, factoring
from errata.core.factoring import factored
from errata.core.methods import all_methods, parse
from errata.core.sample_context import SampleContext
from errata.dynamics import shard_neighbours
from errata.dynamics.places import Place
from errata.dynamics.ranking import rank
from errata.dynamics.scoring import method_results
from errata.dynamics.sharded import open_shards, score_shards
from errata.dynamics.shards import write_shard
from errata.dynamics.store import Dynamics

SAMPLES, CLASSES, EPOCHS = 230, 3, 4
IN_SAMPLE = [method for method in all_methods() if method.gathering == "in-sample"]
HELD_OUT = SampleContext(held_out=np.zeros((1, 2)))
FACTORED = [method for method in IN_SAMPLE if factored(method, SampleContext()) is not None]
METHODS = [method for method in FACTORED if "kNN" not in method.name]
WITH_HELD_OUT = [
    method
    for method in IN_SAMPLE
    if factored(method, HELD_OUT) is not None and ("HeldOut" in method.name or "EarlyProb" in method.name)
]


@st.composite
def splits(draw):
    """Random logits, some of them tied, and which shard each sample is in."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    labels = rng.integers(0, CLASSES, SAMPLES)
    logits = rng.normal(size=(EPOCHS, SAMPLES, CLASSES)).astype(np.float32)
    logits[:, np.arange(SAMPLES), labels] += draw(st.sampled_from([0.0, 1.0, 3.0]))
    if draw(st.booleans()):
        logits = logits.round()  # many equal probabilities
    shard_of = rng.integers(0, draw(st.integers(1, 6)), SAMPLES)
    return labels, logits, np.sort(shard_of)


@settings(max_examples=12, deadline=None)
@given(splits(), st.sampled_from([10, factored_selection.MOST_COLLECTED]))
def test_shards_score_like_the_whole_run(tmp_path_factory, split, most_collected):
    labels, logits, shard_of = split
    place = str(tmp_path_factory.mktemp("run"))
    ids = np.random.default_rng(0).permutation(SAMPLES)
    for number in np.unique(shard_of):
        rows = shard_of == number
        part = Dynamics.from_arrays(logits[:, rows], labels[rows], ids=ids[rows], swa_logits=logits[0, rows])
        write_shard(place, f"{number}", part, run_id="r")
    whole = Dynamics.from_arrays(logits, labels, ids=ids, swa_logits=logits[0])
    sharded = Dynamics.open(place)
    assert (sharded.samples, sharded.epochs, sharded.num_classes) == (SAMPLES, EPOCHS, CLASSES)
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(factored_selection, "MOST_COLLECTED", most_collected)
        expected, got = (method_results(run, METHODS) for run in (whole, sharded))
    at = np.argsort(sharded.ids)[ids]  # matched by id
    for name, result in expected.items():
        assert result.scores.tobytes() == got[name].scores[at].tobytes(), name
        if result.flags is not None:
            assert (result.flags == got[name].flags[at]).all(), name


@settings(max_examples=12, deadline=None)
@given(
    splits(),
    st.sampled_from([0.0, 1.0, 6.0]),
    st.booleans(),
    st.sampled_from([0, 10, factored_selection.MOST_COLLECTED]),
)
def test_shards_with_held_out_predictions_score_like_the_whole_run(
    tmp_path_factory, split, certainty, rounded, most_collected
):
    """Held-out predictions that choose the window of EarlyProb, and such that know too little; some are equal."""
    labels, logits, shard_of = split
    place = str(tmp_path_factory.mktemp("run"))
    held_out = np.random.default_rng(1).normal(size=(SAMPLES, CLASSES))
    held_out[np.arange(SAMPLES), labels] += certainty
    held_out = (held_out.round() if rounded else held_out).astype(np.float32)
    for number in np.unique(shard_of):
        rows = shard_of == number
        known = {"held_out": held_out[rows], "swa_logits": logits[0, rows], "ids": np.flatnonzero(rows)}
        write_shard(place, f"{number}", Dynamics.from_arrays(logits[:, rows], labels[rows], **known), run_id="r")
    whole = Dynamics.from_arrays(logits, labels, held_out=held_out, swa_logits=logits[0])
    sharded = Dynamics.open(place)
    methods = ["default", *(method.name for method in WITH_HELD_OUT), "Unmixed(rounds=3)-HeldOut(a=0.7)-EarlyProb-CE"]
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(factored_selection, "MOST_COLLECTED", most_collected)
        expected, got = (method_results(run, methods) for run in (whole, sharded))
    assert next(iter(got)) == "default"
    assert got["default"].scores.tobytes() == got["Unmixed-HeldOut-EarlyProb-LM"].scores.tobytes()
    for name, result in expected.items():
        assert result.scores.tobytes() == got[name].scores.tobytes(), name


def test_held_out_models_of_inputs_need_the_whole_run():
    """EarlyProb alone does, too: they choose its window."""
    inputs = SampleContext(inputs=np.zeros((1, 2)))
    for name in ("Unmixed-HeldOut-EarlyProb-LM", "HeldOut-MeanProb-LM", "EarlyProb-LM", "Unmixed-EarlyProb-LM"):
        assert factored(parse(name), inputs) is None, name
        assert factored(parse(name), HELD_OUT) is not None, name
    assert factored(parse("Unmixed-MeanProb-LM"), inputs) is not None


def test_the_methods_that_factor():
    names = {method.name for method in FACTORED}
    assert {"MeanProb-LM", "SWA-CE", "Mean-CPD", "LateStopping-CPD", "CL-PBNR (IS)", "Unmixed-MeanProb-LM"} <= names
    assert {"EarlyProb-CE", "Unmixed-EarlyProb-LM"} <= names
    assert {"CTRL-CE", "CTRL-LM", "kNN-MeanProb-LM", "Unmixed-kNN-RampProb-LM"} <= names
    assert not {"HeldOut-MeanProb-LM", "CL-PBNR(cleanlab=1) (IS)"} & names


def test_ctrl_votes_on_all_samples_by_the_clusters_of_some(tmp_path, monkeypatch):
    """The same for every split into shards, close to the clusters of all samples, and exact within small classes."""
    rng = np.random.default_rng(0)
    true = rng.choice(3, 3000, p=[0.6, 0.38, 0.02])  # the last class is small enough to be in the sample completely
    labels = np.where(rng.random(3000) < 0.2, (true + 1) % 3, true)
    learned = np.linspace(0, 4, 8)[:, None, None] * np.eye(3)[true]
    logits = (learned + rng.normal(size=learned.shape)).astype(np.float32)
    whole = Dynamics.from_arrays(logits, labels)
    expected = method_results(whole, ["CTRL-CE"], budget=600)["CTRL-CE"]
    monkeypatch.setattr(factored_ctrl, "SAMPLE_OF_CLASS", 300)
    results = []
    for name, ends in (("two", [0, 1700, 3000]), ("many", [0, 10, 400, 401, 2999, 3000])):
        split(whole, tmp_path / name, ends)
        run = Dynamics.open(str(tmp_path / name))
        results.append(method_results(run, ["CTRL-CE"], budget=600)["CTRL-CE"])
    two, many = results
    assert two.scores.tobytes() == many.scores.tobytes()
    assert (two.flags == many.flags).all()
    assert 0.93 < (two.flags == expected.flags).mean() < 1
    assert spearmanr(two.scores, expected.scores).statistic > 0.9


def test_a_method_that_does_not_factor_reads_arrays_of_all_samples(tmp_path):
    rng = np.random.default_rng(0)
    labels, logits = rng.integers(0, 3, 60), rng.normal(size=(4, 60, 3))
    for number in range(3):
        rows = slice(20 * number, 20 * number + 20)
        part = Dynamics.from_arrays(logits[:, rows], labels[rows], ids=np.arange(60)[rows])
        write_shard(str(tmp_path), f"{number}", part, run_id="r")
    names = ["CL-PBC(cleanlab=1) (IS)", "CL-PBNR(cleanlab=1) (IS)"]
    whole = method_results(Dynamics.from_arrays(logits, labels), names)
    for name, result in method_results(open_shards(Place(str(tmp_path))), names).items():
        assert result.scores.tobytes() == whole[name].scores.tobytes()


@pytest.mark.parametrize("space", ["features", "inputs"])
def test_neighbours_in_one_cell_are_those_of_the_whole_run(tmp_path, space):
    whole = with_points(400, space)
    split(whole, tmp_path / "run", [0, 3, 250, 251, 400])
    names = ["kNN-MeanProb-LM", "Unmixed-kNN-RampProb-LM", "kNN(a=1)-MeanProb-LM", "kNN(a=0)-MeanProb-CE"]
    names += ["Unmixed-kNN(k=7,labels=0.5)-MeanProb-CE"]
    results = method_results(Dynamics.open(str(tmp_path / "run")), names)
    for name, expected in method_results(whole, names).items():
        assert results[name].scores.tobytes() == expected.scores.tobytes(), name


@pytest.mark.parametrize("space", ["features", "inputs"])
def test_neighbours_in_several_cells_are_found_nearly_all(tmp_path, space, monkeypatch):
    """The same for every split, with a recall close to that of all samples, and nothing left on disk."""
    monkeypatch.setattr(shard_neighbours, "CELL", 150)
    monkeypatch.setattr(shard_neighbours, "GROUP", 1000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    whole, method = with_points(3000, space), parse("kNN-MeanProb-LM")
    scores, said = [], []
    for name, ends in (("two", [0, 1700, 3000]), ("many", [0, 10, 400, 401, 2999, 3000])):
        split(whole, tmp_path / name, ends)
        parts = [results for _, results in score_shards(Dynamics.open(str(tmp_path / name)), [method], say=said.append)]
        scores.append(np.concatenate([part[method.name].scores for part in parts]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many", "two"]
    assert scores[0].tobytes() == scores[1].tobytes()
    assert said[0] == said[1]
    measured = float(re.fullmatch(r"kNN-MeanProb-LM: (.*)% of the nearest neighbours were found", said[0])[1]) / 100
    expected = method_results(whole, [method])[method.name].scores
    assert 0.8 < measured < 1
    assert 0.99 < spearmanr(expected, scores[0]).statistic < 1


def with_points(samples, space):
    """A run with features or inputs around ten centres, some of them equal, a fifth of the labels wrong."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 10, samples)
    points = rng.normal(size=(10, 6))[true] * 2 + rng.normal(size=(samples, 6))
    points[::50] = points[0]
    labels = np.where(rng.random(samples) < 0.2, rng.integers(0, 10, samples), true)
    logits = (rng.normal(size=(3, samples, 10)) + 2 * np.eye(10)[true]).astype(np.float32)
    return Dynamics.from_arrays(logits, labels, **{space: points.astype(np.float32)})


def split(whole, place, ends):
    """Write a run as shards with these first rows."""
    for number, (first, end) in enumerate(itertools.pairwise(ends)):
        rows = slice(first, end)
        arrays = {name: getattr(whole, name) for name in ("features", "inputs")}
        given = {name: array[rows] for name, array in arrays.items() if array is not None}
        part = Dynamics.from_arrays(whole.logits[:, rows], whole.labels[rows], ids=whole.ids[rows], **given)
        write_shard(str(place), f"{number}", part, run_id="r")


@pytest.mark.parametrize(("memorises", "expected"), [(True, "Unmixed-EarlyProb-LM"), (False, "Unmixed-MeanProb-LM")])
def test_the_default_of_shards_is_that_of_the_whole_run(tmp_path, memorises, expected):
    """Wrong labels are confidently rejected at first, and predicted in the last quarter if the model memorises."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 3, 300)
    labels = np.where(rng.random(300) < 0.2, (true + 1) % 3, true)
    logits = np.stack([4 * np.eye(3)[labels if memorises and epoch >= 12 else true] for epoch in range(16)])
    logits += rng.normal(size=logits.shape)
    for number in range(3):
        rows = slice(100 * number, 100 * number + 100)
        part = Dynamics.from_arrays(logits[:, rows], labels[rows], ids=np.arange(300)[rows], gathering="in-sample")
        write_shard(str(tmp_path), f"{number}", part, run_id="r")
    whole, sharded = Dynamics.from_arrays(logits, labels, gathering="in-sample"), Dynamics.open(str(tmp_path))
    early = "EarlyProb-CE"
    expected_results, results = (method_results(run, ["default", early, expected]) for run in (whole, sharded))
    assert list(expected_results) == list(results) == ["default", early, expected]
    np.testing.assert_array_equal(results["default"].scores, results[expected].scores)
    for name, result in expected_results.items():
        assert results[name].scores.tobytes() == result.scores.tobytes()
    everything = method_results(whole, ["MeanProb-CE"])["MeanProb-CE"].scores
    assert np.allclose(everything, results[early].scores) is not memorises  # the window is shorter than the run
    pd.testing.assert_frame_equal(rank(whole), rank(sharded), check_exact=True)


def test_confident_learning_with_many_classes_hashes_each_row_at_most_once_per_pass(tmp_path, monkeypatch):
    """Hashing for each pair of classes would take minutes with hundreds of classes."""
    rng, hashed = np.random.default_rng(0), []
    true = rng.integers(0, 12, 600)
    labels = np.where(rng.random(600) < 0.2, rng.integers(0, 12, 600), true)
    logits = (rng.normal(size=(1, 600, 12)) + 2 * np.eye(12)[true]).astype(np.float32)
    split(Dynamics.from_arrays(logits, labels), tmp_path / "run", [0, 250, 600])
    original = factoring.tie_hashes

    def counting(P, rows, numbers):
        hashed.append(len(rows))
        return original(P, rows, numbers)

    monkeypatch.setattr(factoring, "tie_hashes", counting)
    method_results(Dynamics.open(str(tmp_path / "run")), ["CL-PBNR"])
    assert 0 < sum(hashed) <= 2 * 600  # in the round that collects values, and in the last pass


@pytest.mark.parametrize("variant", ["CC", "CYY", "PBC", "PBNR"])
def test_confident_learning_flags_something(variant):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 300)
    (result,) = method_results(Dynamics.from_arrays(rng.normal(size=(300, 3)), labels), [f"CL-{variant}"]).values()
    assert 0 < result.flags.sum() < 300
