"""Every method that factors has the same scores and flags in shards as in one piece, bit for bit."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from errata.core import factored_ctrl
from errata.core.factoring import factored
from errata.core.methods import all_methods
from errata.dynamics.places import Place
from errata.dynamics.ranking import rank
from errata.dynamics.scoring import method_results
from errata.dynamics.sharded import open_shards
from errata.dynamics.shards import write_shard
from errata.dynamics.store import Dynamics

SAMPLES, CLASSES, EPOCHS = 230, 3, 4
METHODS = [method for method in all_methods() if method.gathering == "in-sample" and factored(method) is not None]


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
@given(splits())
def test_shards_score_like_the_whole_run(tmp_path_factory, split):
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
    expected, got = (method_results(run, METHODS) for run in (whole, sharded))
    at = np.argsort(sharded.ids)[ids]  # matched by id
    for name, result in expected.items():
        assert result.scores.tobytes() == got[name].scores[at].tobytes(), name
        if result.flags is not None:
            assert (result.flags == got[name].flags[at]).all(), name


def test_the_methods_that_factor():
    names = {method.name for method in METHODS}
    assert {"MeanProb-LM", "SWA-CE", "Mean-CPD", "LateStopping-CPD", "CL-PBNR (IS)", "Unmixed-MeanProb-LM"} <= names
    assert {"EarlyProb-CE", "Unmixed-EarlyProb-LM"} <= names
    assert {"CTRL-CE", "CTRL-LM"} <= names
    assert not {"kNN-MeanProb-LM", "HeldOut-MeanProb-LM", "CL-PBNR(cleanlab=1) (IS)"} & names


def test_ctrl_votes_on_all_samples_by_the_clusters_of_some(tmp_path, monkeypatch):
    """The same for every split into shards, close to the clusters of all samples, and exact within small classes."""
    rng = np.random.default_rng(0)
    true = rng.choice(3, 3000, p=[0.6, 0.38, 0.02])  # the last class is small enough to be in the sample completely
    labels = np.where(rng.random(3000) < 0.2, (true + 1) % 3, true)
    learned = np.linspace(0, 4, 8)[:, None, None] * np.eye(3)[true]
    logits = (learned + rng.normal(size=learned.shape)).astype(np.float32)
    whole = method_results(Dynamics.from_arrays(logits, labels), ["CTRL-CE"], budget=600)["CTRL-CE"]
    monkeypatch.setattr(factored_ctrl, "SAMPLE_OF_CLASS", 300)
    results = []
    for name, ends in (("two", [0, 1700, 3000]), ("many", [0, 10, 400, 401, 2999, 3000])):
        for number, (first, end) in enumerate(itertools.pairwise(ends)):
            part = Dynamics.from_arrays(logits[:, first:end], labels[first:end], ids=np.arange(first, end))
            write_shard(str(tmp_path / name), f"{number}", part, run_id="r")
        run = Dynamics.open(str(tmp_path / name))
        results.append(method_results(run, ["CTRL-CE"], budget=600)["CTRL-CE"])
    two, many = results
    assert two.scores.tobytes() == many.scores.tobytes()
    assert (two.flags == many.flags).all()
    assert 0.93 < (two.flags == whole.flags).mean() < 1
    assert spearmanr(two.scores, whole.scores).statistic > 0.9


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
    expected_results, results = (method_results(run, ["default", early]) for run in (whole, sharded))
    assert list(expected_results) == list(results) == [expected, early]
    for name, result in expected_results.items():
        assert results[name].scores.tobytes() == result.scores.tobytes()
    everything = method_results(whole, ["MeanProb-CE"])["MeanProb-CE"].scores
    assert np.allclose(everything, results[early].scores) is not memorises  # the window is shorter than the run
    pd.testing.assert_frame_equal(rank(whole), rank(sharded), check_exact=True)


@pytest.mark.parametrize("variant", ["CC", "CYY", "PBC", "PBNR"])
def test_confident_learning_flags_something(variant):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 300)
    (result,) = method_results(Dynamics.from_arrays(rng.normal(size=(300, 3)), labels), [f"CL-{variant}"]).values()
    assert 0 < result.flags.sum() < 300
