"""Intervals equal those of explicit resampling of samples and seeds."""

from collections import Counter
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_results import write_cell

from errata.bench.evaluation import intervals
from errata.bench.evaluation.intervals import fnr_draws, fnr_intervals, resampled_fnr
from errata.bench.results import Results, rankings
from errata.core import metrics
from errata.errors import StoreError

WORSE, PAIRFLIP = "cifar10n-worse", "cifar10-pairflip-20"
DRAWS = 20_000


@pytest.fixture(autouse=True, scope="module")
def _more_draws():
    """More draws than the benchmark uses, so that tolerances can be narrow."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(intervals, "DRAWS", DRAWS)
        yield


def ranking_of(truth, **scores):
    return rankings(pd.DataFrame({"id": range(len(truth)), "given": 0, "truth": truth, **scores}))


def write_scores(folder, setting, seed, truth, gathering="in-sample", **scores):
    fnr = {name: metrics.fnr(values, truth) for name, values in scores.items()}
    return write_cell(folder, setting, seed, fnr, scores=scores, truth=truth, gathering=gathering)


def learned(rng, samples, rate=0.2, skill=2.0):
    """The truth, and the part of the scores that all seeds share."""
    truth = rng.random(samples) < rate
    return truth, skill * truth + rng.normal(size=samples)


# One ranking.


@pytest.mark.parametrize(
    ("scores", "truth"),
    [
        ([5, 4, 3, 2, 1], [True, False, True, False, False]),
        ([2, 2, 2, 1, 1], [True, False, False, True, False]),
        ([1, 1, 1, 1], [True, False, False, True]),
        ([4, 3, 2, 2, 1], [False, True, True, True, True]),
        ([3, 2, 1], [True, True, True]),
    ],
)
def test_draws_are_distributed_as_all_samples_drawn_from_all_samples(scores, truth):
    scores, truth = np.array(scores, dtype=float), np.array(truth)
    drawn = [list(rows) for rows in product(range(len(truth)), repeat=len(truth))]
    exact = Counter(round(metrics.fnr(scores[rows], truth[rows]), 9) for rows in drawn if truth[rows].any())
    found = resampled_fnr(ranking_of(truth, **{"Mean-CE": scores}), np.random.default_rng(1))["Mean-CE"]
    counted = Counter(np.round(found, 9).tolist())
    assert set(counted) <= set(exact)
    for value, times in exact.items():
        share = times / exact.total()
        assert counted[value] / DRAWS == pytest.approx(share, abs=5 * np.sqrt(share / DRAWS))


@settings(max_examples=8)
@given(st.integers(0, 1000), st.floats(0.05, 0.5), st.booleans())
def test_draws_of_many_samples_are_those_of_drawing_rows(seed, rate, tied):
    rng = np.random.default_rng(seed)
    truth, scores = learned(rng, 400, rate)
    scores = np.round(scores) if tied else scores
    rows = rng.integers(0, 400, size=(1500, 400))
    brute_force = [metrics.fnr(scores[draw], truth[draw]) for draw in rows]
    other = rng.normal(size=400)
    found = resampled_fnr(ranking_of(truth, **{"Mean-CE": scores, "Mean-LM": other}), rng)
    assert list(found) == ["Mean-CE", "Mean-LM"]
    spread = np.std(brute_force)
    assert found["Mean-CE"].mean() == pytest.approx(np.mean(brute_force), abs=0.15 * spread)
    assert found["Mean-CE"].std() == pytest.approx(spread, rel=0.12)
    ends = [0.025, 0.975]
    np.testing.assert_allclose(np.quantile(found["Mean-CE"], ends), np.quantile(brute_force, ends), atol=0.4 * spread)


def test_a_ranking_without_errors_is_refused():
    with pytest.raises(StoreError, match="no FNR"):
        resampled_fnr(ranking_of(np.zeros(3, dtype=bool), **{"Mean-CE": np.arange(3.0)}), np.random.default_rng(0))


# Seeds.


def test_seeds_are_drawn_with_replacement(tmp_path):
    truth = np.arange(200) < 20
    write_scores(tmp_path, WORSE, 0, truth, **{"Mean-CE": truth * 1.0})  # FNR 0 in every draw
    results = write_scores(tmp_path, WORSE, 1, truth, **{"Mean-CE": truth * -1.0})  # FNR 1 in every draw
    draws = fnr_draws(results, results.cells()).loc[(WORSE, "in-sample", "Mean-CE")]
    shares = draws.value_counts(normalize=True)
    assert shares.to_dict() == pytest.approx({0.0: 0.25, 0.5: 0.5, 1.0: 0.25}, abs=0.02)


def test_seeds_that_miss_the_same_errors_are_as_sure_as_one(tmp_path):
    truth, scores = learned(np.random.default_rng(0), 2000)
    for seed in range(3):
        write_scores(tmp_path, WORSE, seed, truth, **{"Mean-CE": scores})
    results = write_scores(tmp_path, PAIRFLIP, 0, truth, **{"Mean-CE": scores})
    found = fnr_intervals(results).set_index("setting")
    bounds = found.loc[[WORSE, PAIRFLIP], ["low", "high"]].to_numpy(float)
    np.testing.assert_allclose(*bounds, atol=0.003)
    assert found["seeds"].to_dict() == {WORSE: 3, PAIRFLIP: 1}


@pytest.mark.parametrize("own", [0.3, 1.0])
def test_intervals_are_no_narrower_than_those_of_samples_drawn_for_all_seeds_together(tmp_path, own):
    """Seeds share hard samples and differ by `own`. The reference resamples samples once for all seeds."""
    rng = np.random.default_rng(2)
    truth, shared = learned(rng, 600)
    of_seeds = [shared + own * rng.normal(size=600) for _ in range(3)]
    for seed, scores in enumerate(of_seeds):
        results = write_scores(tmp_path, WORSE, seed, truth, **{"Mean-CE": scores})
    brute_force = []
    for _ in range(1500):
        rows = rng.integers(0, 600, size=600)
        fnr = [metrics.fnr(scores[rows], truth[rows]) for scores in of_seeds]
        brute_force.append(np.mean(rng.choice(fnr, 3)))
    low, high = np.quantile(brute_force, [0.025, 0.975])
    found = fnr_intervals(results).iloc[0]
    assert found["mean"] == pytest.approx(np.mean([metrics.fnr(scores, truth) for scores in of_seeds]))
    assert 0.95 < (found["high"] - found["low"]) / (high - low) < 1.45
    assert found["low"] < found["mean"] < found["high"]


# Results.


def test_a_row_a_setting_gathering_and_method(tmp_path):
    rng = np.random.default_rng(0)
    truth, scores = learned(rng, 300)
    for seed in range(2):
        write_scores(tmp_path, WORSE, seed, truth, **{"Mean-CE": scores, "Mean-LM": rng.normal(size=300)})
    write_scores(tmp_path, WORSE, 0, truth, "out-of-sample", **{"Mean-LM (OOS)": scores})
    results = write_scores(tmp_path, PAIRFLIP, 0, truth, **{"Mean-CE": scores})
    found = fnr_intervals(results)
    assert list(found.columns) == ["setting", "gathering", "method", "mean", "low", "high", "seeds", "complete"]
    keys = list(found[["setting", "gathering", "method", "seeds"]].itertuples(index=False, name=None))
    assert sorted(keys) == [
        (PAIRFLIP, "in-sample", "Mean-CE", 1),
        (WORSE, "in-sample", "Mean-CE", 2),
        (WORSE, "in-sample", "Mean-LM", 2),
        (WORSE, "out-of-sample", "Mean-LM (OOS)", 1),
    ]
    pd.testing.assert_frame_equal(fnr_intervals(results), found)
    alone = fnr_intervals(results, [PAIRFLIP])
    pd.testing.assert_frame_equal(alone, found[found["setting"] == PAIRFLIP].reset_index(drop=True))


def test_a_method_that_only_some_seeds_have_is_drawn_from_these(tmp_path):
    truth, scores = learned(np.random.default_rng(0), 300)
    write_scores(tmp_path, WORSE, 0, truth, **{"Mean-CE": scores})
    results = write_scores(tmp_path, WORSE, 1, truth, **{"Mean-CE": scores, "Mean-LM": -scores})
    found = fnr_intervals(results).set_index("method")
    assert found["seeds"].to_dict() == {"Mean-CE": 2, "Mean-LM": 1}
    assert found.loc["Mean-LM", "low"] > found.loc["Mean-CE", "high"]


def test_settings_are_drawn_independently(tmp_path):
    truth, scores = learned(np.random.default_rng(0), 500)
    for setting in (WORSE, PAIRFLIP):
        results = write_scores(tmp_path, setting, 0, truth, **{"Mean-CE": scores})
    draws = fnr_draws(results, results.cells()).to_numpy()
    assert abs(np.corrcoef(draws)[0, 1]) < 0.06


def test_without_results_there_is_no_interval(tmp_path):
    with pytest.raises(StoreError, match="No results in"):
        fnr_intervals(Results(tmp_path))
