"""The candidates of benchmarks/research compared with brute force and other libraries."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cosine
from scipy.special import log_softmax, softmax

import candidates
import digests
import evidence
import retraining
import shown
import tried
from errata.core.metrics import fnr
from errata.core.neighbours import label_votes
from errata.core.smoothing import log_neighbour_mean
from errata.dynamics.scoring import find_method, score
from errata.dynamics.store import Dynamics
from runs import DEVELOPMENT, KeptSpaces, ensemble, read_runs, reduce_run, run_of


def made_up(curves, epochs=32, inputs=True, by_heart=False):
    """Dynamics of a synthetic run of 60 samples whose points lie near others of their class, and the same as a Run.

    by_heart: the last quarter predicts labels that were ruled out before.
    """
    logits, labels, truth = curves(0, epochs=epochs, noise=0.4 if by_heart else 0.2)
    rng = np.random.default_rng(1)
    # Early in the run, the true classes are predicted.
    true = logits[epochs // 2].argmax(axis=1)
    if by_heart:
        logits[:] = 6.0 * np.eye(5)[true]
        logits[-(epochs // 4) :] = 3.0 * np.eye(5)[labels]
    points = (np.eye(5)[true] * 3 + rng.normal(size=(60, 5))).astype(np.float32)
    dynamics = Dynamics.from_arrays(logits, labels, features=points + 1, inputs=points if inputs else None)
    run = run_of("made-up", 0, labels, reduce_run(dynamics), KeptSpaces(dynamics.features, dynamics.inputs))
    return dynamics, run, truth


def test_a_run_boiled_down_ranks_as_the_dynamics_do(curves):
    dynamics, run, _ = made_up(curves)
    np.testing.assert_allclose(candidates.alone(run), score(dynamics, "MeanProb-LM"), rtol=1e-9)
    # EarlyProb is stored in 32 bits.
    np.testing.assert_allclose(candidates.default(run), score(dynamics), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run.scores["Mean-CE"], score(dynamics, "Mean-CE"))
    late = run.log_mean(evidence.share_of_epochs(run, 0.5, 1))
    np.testing.assert_allclose(np.exp(late), softmax(dynamics.logits[16:].astype(float), axis=2).mean(axis=0))


@pytest.mark.parametrize(
    ("by_heart", "name"),
    [(True, "Unmixed-EarlyProb-LM"), (False, "Unmixed-kNN-RampProb-LM")],
    ids=["memorised", "not"],
)
def test_without_inputs_the_default_is_that_of_images(curves, by_heart, name):
    dynamics, run, _ = made_up(curves, epochs=8, inputs=False, by_heart=by_heart)
    assert find_method(dynamics, None).name == name
    np.testing.assert_allclose(candidates.default(run), score(dynamics, name), rtol=1e-9)


def test_an_epoch_beyond_what_neighbours_agree_on_ends_the_window(curves):
    _, run, _ = made_up(curves)
    level = evidence.neighbours_agreement(run)
    near = run.context.nearest("inputs", 10)
    by_hand = []
    for own, theirs in zip(run.labels, run.labels[near], strict=True):
        counts = np.bincount(theirs, minlength=5)
        winners = np.flatnonzero(counts == counts.max())
        by_hand.append((own in winners) / len(winners))
    assert level == pytest.approx(np.mean(by_hand))
    until = evidence.until_memorising(run)
    first = next((epoch for epoch, share in enumerate(run.agreement) if share > level), 32)
    assert until.tolist() == [1.0] * first + [0.0] * (32 - first)
    late = evidence.late_unless_memorising(run)
    assert late.sum() == first - first // 2
    assert late[first // 2] == 1


def test_smoothing_again_and_again_ends_where_nothing_changes(curves):
    _, run, _ = made_up(curves)
    log_p, near = run.log_mean(candidates.flat(run)), run.context.nearest("inputs", 7)
    blend = 0.4 * log_p + 0.6 * log_neighbour_mean(log_p, near)
    np.testing.assert_allclose(evidence.iterated(log_p, near, 0.4, 1), blend)
    settled = evidence.iterated(log_p, near, 0.4, None)
    once_more = 0.4 * log_p + 0.6 * log_neighbour_mean(log_softmax(settled, axis=1), near)
    np.testing.assert_allclose(softmax(once_more, axis=1), softmax(settled, axis=1), atol=2 * evidence.CONVERGED)
    assert not np.allclose(settled, blend)


def test_neighbours_of_neighbours_are_a_mean_of_means(curves):
    _, run, _ = made_up(curves)
    log_p, near = run.log_mean(candidates.flat(run)), run.context.nearest("inputs", 4)
    p = np.exp(log_p)
    twice = np.array([np.mean([p[near[j]].mean(axis=0) for j in near[i]], axis=0) for i in range(60)])
    expected = 0.3 * log_p + 0.7 * np.log(twice)
    np.testing.assert_allclose(evidence.neighbours_of_neighbours(log_p, near, 0.3), expected)


COUNTS = st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any), min_size=1, max_size=8)


@given(COUNTS, st.integers(0, 2))
def test_simifeat_goes_by_the_vote(counts, label):
    votes_cast, labels = np.array(counts, dtype=float), np.full(len(counts), label)
    ranked = evidence.simifeat_rank(votes_cast, labels)
    voted = evidence.simifeat_vote(votes_cast, labels)
    for row, rank, vote in zip(votes_cast, ranked, voted, strict=True):
        assert rank == pytest.approx(cosine(row, np.eye(3)[label]) - 1)
        winners = [c for c in range(3) if row[c] == max(row)]
        assert vote == pytest.approx(1 - (label in winners) / len(winners))


def test_votes_are_weighted_and_leave_every_class_possible():
    labels, near = np.array([0, 1, 2]), np.array([[1, 2], [0, 2], [0, 1]], dtype=np.int32)
    counts = evidence.weighted_votes(labels, near, 3, np.array([[1, 0.5], [1, 0.25], [0.5, 0.5]]))
    assert counts.tolist() == [[0, 1, 0.5], [1, 0, 0.25], [0.5, 0.5, 0]]
    np.testing.assert_allclose(evidence.weighted_votes(labels, near, 3, np.ones((3, 2))), label_votes(labels, near, 3))
    assert np.exp(evidence.log_vote(counts))[0] == pytest.approx([1 / 3 / 2.5, 4 / 3 / 2.5, 5 / 6 / 2.5])
    assert evidence.likelihood(counts, labels) == pytest.approx(
        np.mean([math.log(1 / 3 / 2.5), math.log(1 / 3 / 2.25), math.log(1 / 3 / 2)])
    )


@given(st.lists(st.tuples(st.floats(-9, 9), st.integers(0, 2)), min_size=1, max_size=20))
def test_calibration_by_class_is_what_pandas_groups(pairs):
    frame = pd.DataFrame(pairs, columns=["score", "label"])
    scores, labels = frame["score"].to_numpy(), frame["label"].to_numpy()
    groups = frame.groupby("label")["score"]
    np.testing.assert_allclose(evidence.centred_by_class(scores, labels), scores - groups.transform("median"))
    expected = (groups.rank() - 0.5) / groups.transform("size")
    np.testing.assert_allclose(evidence.quantile_in_class(scores, labels), expected)


def test_a_posterior_knows_which_labels_a_class_gets():
    log_p = np.log([[0.7, 0.3], [0.6, 0.4], [0.2, 0.8], [0.9, 0.1]])
    labels = np.array([0, 1, 1, 1])
    # Predicted 0: one label 0 and two labels 1. Predicted 1: one label 1. Every count starts at one.
    transition = [[2 / 5, 3 / 5], [1 / 3, 2 / 3]]
    expected = [[log_p[i, c] + math.log(transition[c][labels[i]]) for c in range(2)] for i in range(4)]
    np.testing.assert_allclose(evidence.transition_posterior(log_p, labels), expected)


def test_blends_do_not_care_for_the_scale_of_a_measure():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=30), rng.normal(size=30)
    for blend in (evidence.rank_mean, evidence.z_mean):
        np.testing.assert_allclose(blend([first, second]), blend([1000 * first + 5, second]))
    np.testing.assert_allclose(evidence.rank_mean([first]), pd.Series(first).rank())


def test_taking_out_the_prior_makes_classes_equally_frequent(curves):
    _, run, _ = made_up(curves)
    log_p = run.log_mean(candidates.flat(run))
    np.testing.assert_allclose(np.exp(evidence.without_prior(log_p)).mean(axis=0), 1)


def test_an_ensemble_averages_probabilities(curves):
    _, first, _ = made_up(curves)
    other = run_of(
        "made-up",
        1,
        first.labels,
        reduce_run(Dynamics.from_arrays(curves(5, epochs=32)[0], first.labels)),
        first.context,
    )
    flat = candidates.flat(first)
    mean = (np.exp(first.log_mean(flat)) + np.exp(other.log_mean(flat))) / 2
    np.testing.assert_allclose(np.exp(ensemble([first, other]).log_mean(flat)), mean)


def test_every_candidate_scores_every_sample(curves):
    _, run, _ = made_up(curves)
    names = [candidate.name for candidate in tried.all_candidates()]
    assert names[0] == candidates.BASELINE
    assert len({(candidate.family, candidate.name) for candidate in tried.all_candidates()}) == len(names)
    for candidate in tried.all_candidates():
        scores = candidate.score(run)
        assert scores.shape == (60,), candidate.name
        assert np.isfinite(scores).all(), candidate.name


def test_held_out_settings_are_never_read(curves, tmp_path):
    held_out = ("cifar100", "human_activity", "mushroom", "trec")
    assert not [name for name in DEVELOPMENT if name.startswith(held_out)]
    dynamics, _, _ = made_up(curves)
    for setting in ("cifar100-symmetric-20", "trec-symmetric-20", "cifar10n-worse"):
        digests.write(dynamics, tmp_path / f"{setting}.seed0.npz")
    ((run,),) = read_runs(tmp_path, tmp_path, None)
    assert run.setting == "cifar10n-worse"
    np.testing.assert_allclose(candidates.alone(run), score(dynamics, "MeanProb-LM"), atol=0.02)


def test_what_was_searched_and_boiled_down_is_kept(curves, tmp_path):
    dynamics, run, _ = made_up(curves)
    folder = tmp_path / "work" / "digits-symmetric-20-in-sample" / "seed2"
    folder.mkdir(parents=True)
    dynamics.save(folder / "dynamics")
    for _ in range(2):
        ((read,),) = read_runs(tmp_path, tmp_path, tmp_path)
        assert (read.setting, read.seed) == ("digits-symmetric-20", 2)
        np.testing.assert_allclose(candidates.default(read), candidates.default(run))
        np.testing.assert_array_equal(read.context.nearest("inputs", 10), run.context.nearest("inputs", 10))
    assert {path.name for path in tmp_path.glob("*.np?")} >= {
        "digits-symmetric-20.2.run.npz",
        "digits-symmetric-20.2.inputs.100.npy",
    }


@pytest.fixture(scope="module")
def blobs():
    """A run on a table of three clouds in which every fifth label is wrong, the table, and the truth."""
    from errata.training.gather import gather
    from errata.training.jobs import TrainingOptions
    from errata.training.model_inputs import TableInputs
    from errata.training.recipes import Recipe

    rng = np.random.default_rng(0)
    true = rng.integers(0, 3, 150)
    table = TableInputs((np.eye(3)[true] * 3 + rng.normal(size=(150, 3))).astype(np.float32))
    truth = np.arange(150) % 5 == 0
    labels = np.where(truth, (true + rng.integers(1, 3, 150)) % 3, true)
    recipe = Recipe(epochs=12, batch_size=32, learning_rate=0.02, widths=(8,))
    options = TrainingOptions(swa=False, features=True)
    (gathered,) = gather(table, labels, 3, (8,), recipe, options=options, device="cpu")
    dynamics = gathered.dynamics
    context = KeptSpaces(dynamics.features, dynamics.inputs)
    return run_of("blobs", 0, labels, reduce_run(dynamics), context, dynamics.settings), table, truth


def test_a_recipe_is_read_from_what_a_run_keeps(blobs):
    run, _, _ = blobs
    recipe = retraining.recipe_of(run)
    assert (recipe.epochs, recipe.widths, recipe.schedule) == (12, (8,), ((0, 1.0),))


def test_held_out_folds_are_those_of_the_engine(blobs):
    from errata.training.gather import gather

    run, table, _ = blobs
    recipe = retraining.recipe_of(run)
    (gathered,) = gather(table, run.labels, 3, None, recipe, folds=4, device="cpu")
    expected = score(gathered.dynamics, "MeanProb-LM (OOS)")
    np.testing.assert_allclose(candidates.alone(retraining.held_out(run, table)), expected, rtol=1e-6)


@pytest.mark.parametrize("detector", retraining.RETRAINED, ids=lambda detector: detector.name)
def test_detectors_that_train_again_find_flips_in_clouds(blobs, detector):
    run, table, truth = blobs
    for name, scores in detector.score(run, table).items():
        assert fnr(scores, truth) < 0.3, name


def test_shares_are_relative_to_the_baseline_and_means_need_every_setting():
    rows = [
        {"family": "f", "candidate": name, "models": 1, "setting": setting, "seed": seed, "fnr": value, "errors": 7}
        for name, setting, value in [
            (candidates.BASELINE, "digits-symmetric-20", 4.0),
            (candidates.BASELINE, "letter-symmetric-20", 10.0),
            ("half", "digits-symmetric-20", 2.0),
            ("half", "letter-symmetric-20", 5.0),
            ("partly", "digits-symmetric-20", 3.0),
        ]
        for seed, value in ((0, value - 1), (1, value + 1))
    ]
    mean = shown.wide(pd.DataFrame(rows))
    shares = shown.relative(mean)
    half = shares.xs("half", level="candidate").iloc[0]
    assert half[["digits-symmetric-20", "letter-symmetric-20", "small tables", "tables", "worst"]].tolist() == [0.5] * 5
    partly = shares.xs("partly", level="candidate").iloc[0]
    assert partly["small tables"] == 0.75
    assert math.isnan(partly["tables"])
    text = shown.markdown(mean, {"digits-symmetric-20": 7})
    assert "| partly | 1 | 0.75 | – | 0.75 | – |" in text
