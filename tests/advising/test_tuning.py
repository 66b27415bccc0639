import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from errata import Dynamics, InputError, score
from errata.advising.audits import Audit
from errata.advising.tuning import FOLDS, Option, Rankings, choose, cross_validated_gain, divide, options_for, tune
from errata.core.methods import parse
from errata.core.metrics import fnr


@st.composite
def scored(draw):
    """Scores (O, n) with ties, wrong (n,) of both kinds, whole weights (n,) with a wrong label among them."""
    samples, options = draw(st.integers(2, 8)), draw(st.integers(1, 3))
    rows = st.lists(st.integers(0, 4), min_size=samples, max_size=samples)
    scores = np.array([draw(rows) for _ in range(options)], dtype=float)
    wrong = np.array(draw(st.lists(st.booleans(), min_size=samples, max_size=samples)))
    wrong[0] = True
    weights = np.array(draw(st.lists(st.integers(0, 3), min_size=samples, max_size=samples)), dtype=float)
    weights[0] = max(weights[0], 1)
    return scores, wrong, weights


@given(scored())
def test_a_weight_is_as_many_copies_of_the_sample(made):
    scores, wrong, weights = made
    copies = np.repeat(np.arange(len(wrong)), weights.astype(int))
    expected = [fnr(row[copies], wrong[copies]) * wrong[copies].sum() for row in scores]
    np.testing.assert_allclose(Rankings(scores, wrong).missed(weights), expected, atol=1e-12)
    np.testing.assert_allclose(Rankings(scores, wrong).missed(weights, [0]), expected[:1], atol=1e-12)


@given(scored())
def test_where_nothing_is_wrong_nothing_is_missed(made):
    scores, wrong, weights = made
    assert (Rankings(scores, wrong).missed(weights * ~wrong) == 0).all()


@given(st.lists(st.booleans(), min_size=2, max_size=60), st.integers(0, 9))
def test_every_fold_has_its_part_of_wrong_and_of_right_labels(wrong, seed):
    wrong = np.array(wrong)
    folds = divide(wrong, np.random.default_rng(seed))
    for kind in (wrong, ~wrong):
        sizes = np.bincount(folds[kind], minlength=FOLDS)
        assert sizes.max() - sizes.min() <= 1
        assert sizes.sum() == kind.sum()


def test_the_gain_is_judged_on_folds_that_had_no_part_in_the_choice():
    rng = np.random.default_rng(0)
    scores, wrong = rng.normal(size=(6, 40)), np.arange(40) % 3 == 0
    folds = divide(wrong, rng)
    saved = 0.0
    for fold in range(FOLDS):
        outside, inside = folds != fold, folds == fold
        best = min(range(6), key=lambda option: fnr(scores[option, outside], wrong[outside]))
        misses = [fnr(scores[option, inside], wrong[inside]) * wrong[inside].sum() for option in (0, best)]
        saved += misses[0] - misses[1]
    gain = cross_validated_gain(Rankings(scores, wrong), np.ones(40), folds)
    assert gain == pytest.approx(saved / wrong.sum())


def options_of(scores):
    """Options that differ in their window, the default first."""
    return [Option(parse("MeanProb-LM"), (0, 99 - width), row) for width, row in enumerate(scores)]


def test_among_many_guesses_the_best_is_not_believed():
    rng = np.random.default_rng(1)
    wrong = rng.random(150) < 0.3
    tuned = choose(options_of(rng.normal(size=(60, 150))), wrong)
    assert tuned.best_fnr < tuned.default_fnr - 0.05  # chosen among sixty, it looks good where it was chosen
    assert not tuned.better
    assert abs(tuned.gain) < 0.1
    assert tuned.low <= tuned.gain <= tuned.high


def test_a_window_that_is_better_for_sure_is_found_and_its_gain_is_that_on_new_samples():
    rng = np.random.default_rng(2)
    wrong = rng.random(4000) < 0.25
    signal = np.where(wrong, 1.0, -1.0)
    scores = np.stack([signal * strength + rng.normal(size=4000) for strength in (0.3, 0.3, 2.0, 0.5)])
    audited, others = slice(0, 300), slice(300, None)
    tuned = choose(options_of(scores[:, audited]), wrong[audited])
    true_gain = fnr(scores[0, others], wrong[others]) - fnr(scores[2, others], wrong[others])
    assert tuned.window == (0, 97)
    assert tuned.better
    assert 0 < tuned.low <= true_gain <= tuned.high
    assert tuned.default_fnr == pytest.approx(fnr(scores[0, audited], wrong[audited]))
    assert tuned.best_fnr == pytest.approx(fnr(scores[2, audited], wrong[audited]))


def test_of_equals_the_default_is_kept():
    wrong = np.arange(60) % 2 == 0
    tuned = choose(options_of(np.tile(np.random.default_rng(3).normal(size=60), (4, 1))), wrong)
    assert (tuned.window, tuned.gain, tuned.low, tuned.high) == ((0, 99), 0.0, 0.0, 0.0)
    assert not tuned.better


def test_the_same_seed_gives_the_same_interval():
    rng = np.random.default_rng(4)
    wrong = rng.random(100) < 0.3
    options = options_of(np.where(wrong, 1.0, 0.0) + rng.normal(size=(8, 100)))
    first, again, other = (choose(options, wrong, seed=seed) for seed in (0, 0, 1))
    assert (first.gain, first.low, first.high) == (again.gain, again.low, again.high)
    assert (first.gain, first.low, first.high) != (other.gain, other.low, other.high)
    assert (first.method, first.window) == (other.method, other.window)


@pytest.mark.parametrize(
    ("inputs", "default"),
    [(np.random.default_rng(0).normal(size=(60, 3)), "Unmixed-kNN-EarlyProb-LM"), (None, "Unmixed-MeanProb-LM")],
    ids=["neighbours", "no neighbours"],
)
def test_options_are_the_scores_of_the_methods_over_their_windows(curves, inputs, default):
    logits, labels, _ = curves(1, epochs=14)
    dynamics = Dynamics.from_arrays(logits, labels, inputs=inputs)
    rows = np.array([3, 50, 7, 20])
    options = options_for(dynamics, rows)
    assert (options[0].method.name, options[0].window) == (default, (0, 13))
    names = {option.method.name for option in options}
    assert names == {default, "MeanProb-LM", "Mean-CE", "Last-LM"}
    assert len({(option.method.name, option.window) for option in options}) == len(options)
    widths = [option.window[1] - option.window[0] for option in options[1:]]
    assert widths == sorted(widths, reverse=True)
    for option in options:
        expected = score(dynamics, option.method, window=option.window)[rows]
        np.testing.assert_allclose(option.scores, expected, rtol=1e-6)


def test_of_a_method_that_reads_one_epoch_every_epoch_is_an_option(curves):
    logits, labels, _ = curves(2, epochs=5)
    dynamics = Dynamics.from_arrays(logits, labels)
    options = options_for(dynamics, np.arange(60), [parse("Last-LM")])
    assert {option.window for option in options if option.method.name == "Last-LM"} == {(e, e) for e in range(5)}
    assert options[0].method.name == "Unmixed-MeanProb-LM"  # what there is to gain over


def test_the_table_has_the_whole_run_beside_the_best_window(curves):
    logits, labels, truth = curves(3, samples=300)
    dynamics = Dynamics.from_arrays(logits, labels)
    table = tune(dynamics, Audit(np.arange(300), truth)).table.set_index("method")
    assert sorted(table.index) == ["Last-LM", "Mean-CE", "MeanProb-LM", "Unmixed-MeanProb-LM"]
    for name, row in table.iterrows():
        assert row["whole_fnr"] == pytest.approx(fnr(score(dynamics, name), truth))
        window = (int(row["start"]), int(row["end"]))
        assert row["best_fnr"] == pytest.approx(fnr(score(dynamics, name, window=window), truth))
        assert row["best_fnr"] <= row["whole_fnr"]


def test_windows_in_which_a_sample_was_not_recorded_are_no_options(curves):
    logits, labels, _ = curves(4, epochs=6)
    logits[:3, 11] = np.nan
    dynamics = Dynamics.from_arrays(logits, labels, partial="allow")
    windows = {option.window for option in options_for(dynamics, np.arange(60), [parse("Mean-CE")])}
    assert windows == {(start, end) for start in range(6) for end in range(max(start, 3), 6)}


def test_methods_without_a_window_are_refused(curves):
    logits, labels, _ = curves(5)
    dynamics = Dynamics.from_arrays(logits, labels, swa_logits=logits[-1])
    with pytest.raises(InputError, match="MeanProb-LM or Mean-CE"):
        options_for(dynamics, np.arange(60), [parse("SWA-LM"), parse("CTRL-CE"), parse("CL-CC (IS)")])
