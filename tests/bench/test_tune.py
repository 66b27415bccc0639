import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from filelock import FileLock
from short_digits import DIGITS, EPOCHS, KillingProgress, RecordedProgress, begun, exit_code

import errata
from errata import Dynamics
from errata.bench import tuning_results
from errata.bench.plan import Cell, plan
from errata.bench.results import Results
from errata.bench.running import campaign, tuning_run
from errata.bench.running.campaign import RunOptions
from errata.bench.running.tuning_run import SampleSplit, TuningRun, candidates, longer_recipe, stopping_curve
from errata.bench.tuning_results import CANDIDATES, CHOSEN, CURVE, TuningResults, choose
from errata.datasets.loading import load_setting
from errata.datasets.registry import setting
from errata.training.recipes import Recipe

PAIRFLIP = "digits-pairflip-20"
TRAINED = 7  # epochs of the recipe, in a synthetic run of 12
FRACTIONS = (0.01, 0.05, 0.1)
CONFIGURATIONS = [(w, k, s) for w in (1, 2, 4) for k, s in ((2, 1), (3, 1), (3, 2))]


def synthetic(curves, seed=0, samples=90):
    """Dynamics of 12 epochs, and a split whose nested tuning sets contain wrong and right labels."""
    logits, labels, wrong = curves(seed, samples=samples, noise=0.3)
    order = np.random.default_rng(seed).permutation(samples)
    order = np.concatenate([[np.flatnonzero(wrong)[0], np.flatnonzero(~wrong)[0]], order])
    order = order[np.sort(np.unique(order, return_index=True)[1])]
    sizes = dict(zip(FRACTIONS, (4, 12, 25), strict=True))
    tuning = {fraction: np.isin(np.arange(samples), order[:size]) for fraction, size in sizes.items()}
    return Dynamics.from_arrays(logits, labels), SampleSplit(wrong, np.ones(samples, bool), tuning, ~tuning[0.1])


def table_of(dynamics, parts, seed=0):
    return candidates(dynamics, parts, TRAINED).assign(seed=seed)


def fnr(scores, wrong, part):
    return errata.metrics.fnr(scores[part], wrong[part])


def every_window(dynamics, method):
    """Scores of every window by its name, the widest first, then the earliest."""
    epochs = range(dynamics.epochs)
    if method == "Last-CE":
        return {str(end): errata.score(dynamics, method, window=(end, end)) for end in epochs}
    windows = sorted(((a, b) for a in epochs for b in epochs if a <= b), key=lambda w: (w[0] - w[1], w[0]))
    return {f"{start}-{end}": errata.score(dynamics, method, window=(start, end)) for start, end in windows}


def every_configuration(dynamics):
    window = (0, TRAINED - 1)
    return {
        f"{w},{k},{s}": errata.score(dynamics, f"CTRL(windows={w},clusters={k},selected={s})-CE", window=window)
        for w, k, s in CONFIGURATIONS
    }


# The search.


@pytest.mark.parametrize("seed", range(2))
def test_the_choice_is_that_of_trying_everything_by_hand(curves, seed):
    dynamics, parts = synthetic(curves, seed)
    found = choose(table_of(dynamics, parts)).set_index(["tuning_fraction", "method"])
    tried = {method: every_window(dynamics, method) for method in ("Last-CE", "Mean-CE", "MeanProb-LM")}
    tried["CTRL-CE"] = every_configuration(dynamics)
    for fraction in FRACTIONS:
        for method, options in tried.items():
            on_tuning = {name: fnr(scores, parts.wrong, parts.tuning[fraction]) for name, scores in options.items()}
            best = min(on_tuning, key=lambda name: round(on_tuning[name], 12))  # ties: the first
            row = found.loc[(fraction, method)]
            assert (row["chosen"], row["tuning_value"]) == (best, pytest.approx(on_tuning[best]))
            assert row["value"] == pytest.approx(fnr(options[best], parts.wrong, parts.evaluation))
            assert row["tuning_wrong"] == parts.wrong[parts.tuning[fraction]].sum()
            assert (row["evaluated"], row["noisy"]) == (65, parts.wrong[parts.evaluation].sum())


def test_without_tuning_it_is_the_recipes_epochs(curves):
    dynamics, parts = synthetic(curves)
    found = choose(table_of(dynamics, parts)).set_index(["tuning_fraction", "method"]).loc[0.0]
    last, whole = (TRAINED - 1, TRAINED - 1), (0, TRAINED - 1)
    windows = {"Last-CE": last, "Mean-CE": whole, "MeanProb-LM": whole, "CTRL-CE": whole}
    assert list(found.index) == list(windows)
    for method, window in windows.items():
        scores = errata.score(dynamics, method, window=window, budget=int(parts.wrong.sum()))
        assert found.loc[method, "value"] == fnr(scores, parts.wrong, parts.evaluation)
    assert found["chosen"].tolist()[:3] == ["6", "0-6", "0-6"]
    configuration = tuple(map(int, found.loc["CTRL-CE", "chosen"].split(",")))
    assert configuration in CONFIGURATIONS
    assert found["tuning_value"].isna().all()


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_the_choice_never_sees_truth_outside_the_tuning_set(curves, fraction):
    dynamics, parts = synthetic(curves)
    others = np.flatnonzero(~parts.tuning[fraction])
    flipped = parts.wrong.copy()
    flipped[others] ^= np.random.default_rng(0).random(len(others)) < 0.5
    tables = [choose(table_of(dynamics, replace(parts, wrong=wrong))) for wrong in (parts.wrong, flipped)]
    before, after = (table[table["tuning_fraction"] == fraction] for table in tables)
    columns = ["method", "chosen", "tuning_value"]
    pd.testing.assert_frame_equal(before[columns], after[columns])
    assert (before["value"].to_numpy() != after["value"].to_numpy()).all()


def test_the_evaluation_never_sees_the_tuning_set(curves):
    dynamics, parts = synthetic(curves)
    flipped = np.where(parts.tuning[0.1], ~parts.wrong, parts.wrong)
    key = ["tuning_fraction", "method", "chosen"]
    before, after = (table_of(dynamics, replace(parts, wrong=wrong)) for wrong in (parts.wrong, flipped))
    tuned = before["tuning_fraction"] > 0
    assert (before.loc[tuned, "tuning_value"] != after.loc[tuned, "tuning_value"]).any()
    pd.testing.assert_frame_equal(before.loc[tuned, [*key, "value"]], after.loc[tuned, [*key, "value"]])


@pytest.mark.parametrize(("value", "reason"), [(False, "no wrong label"), (True, "no right label")])
def test_a_tuning_set_of_one_kind_leaves_the_defaults_and_says_so(curves, value, reason):
    dynamics, parts = synthetic(curves)
    parts = replace(parts, wrong=np.where(parts.tuning[0.01], value, parts.wrong))
    found = choose(table_of(dynamics, parts))
    default, unfit = (found[found["tuning_fraction"] == fraction] for fraction in (0.0, 0.01))
    assert unfit["value"].tolist() == default["value"].tolist()
    assert unfit["chosen"].tolist() == [f"{one} (default: {reason} to tune on)" for one in default["chosen"]]
    assert not found.loc[found["tuning_fraction"] > 0.01, "chosen"].str.contains("default").any()


def test_windows_scored_in_parts_are_the_same(curves, monkeypatch):
    dynamics, parts = synthetic(curves)
    whole = table_of(dynamics, parts)
    monkeypatch.setattr(tuning_run, "_SCORES_IN_MEMORY", 7 * dynamics.samples)
    pd.testing.assert_frame_equal(table_of(dynamics, parts), whole)


def test_the_curve_is_of_training_that_stops_there(curves):
    dynamics, parts = synthetic(curves)
    parts = replace(parts, known=np.arange(90) >= 5)
    curve = stopping_curve(dynamics, parts)
    assert set(curve["method"]) == {"Last-CE", "Mean-CE", "Mean-LM", "MeanProb-LM", "Last-LM"}
    assert curve.groupby("method")["epoch"].apply(list).tolist() == [list(range(12))] * 5
    for row in curve.itertuples():
        scores = errata.score(dynamics, row.method, window=(0, row.epoch))
        assert row.value == pytest.approx(fnr(scores, parts.wrong, parts.known))
        assert row.evaluation_value == pytest.approx(fnr(scores, parts.wrong, parts.evaluation))


def hand_made(rows):
    columns = ["seed", "method", "chosen", "width", "place", "tuning_value", "value"]
    table = pd.DataFrame(rows, columns=columns).assign(tuning_fraction=0.05)
    return table.astype({"tuning_value": "Float64"})


def test_of_equals_the_widest_then_the_first():
    rows = [
        (0, "Mean-CE", name, width, place, 0.5, 0.0)
        for place, (name, width) in enumerate({"0-0": 1, "0-4": 5, "0-8": 9, "4-4": 1, "4-12": 9, "12-12": 1}.items())
    ]
    rows += [(0, "Last-CE", name, 1, place, 0.5, 0.0) for place, name in enumerate(["0", "4", "8"])]
    rows += [(0, "CTRL-CE", name, 7, place, 0.25, 0.0) for place, name in enumerate(["1,2,1", "4,3,2"])]
    rows += [(0, "Mean-CE", "8-8", 1, 9, 0.7, 0.0)]
    found = choose(hand_made(rows).sample(frac=1, random_state=0)).set_index("method")["chosen"]
    assert found.to_dict() == {"Last-CE": "0", "Mean-CE": "0-8", "CTRL-CE": "1,2,1"}


def test_parts_of_a_setting_are_those_of_its_labels():
    labelled = load_setting(DIGITS)
    truth = labelled.truth.astype(float)
    truth[::3] = np.nan
    rows = np.random.default_rng(0).permutation(len(truth))[:500]
    parts = SampleSplit.of(replace(labelled, truth=truth), rows)
    np.testing.assert_array_equal(parts.known, rows % 3 != 0)
    np.testing.assert_array_equal(parts.wrong, (rows % 3 != 0) & labelled.truth[rows])
    assert not (parts.evaluation & parts.tuning[0.1]).any()
    np.testing.assert_array_equal(parts.evaluation | parts.tuning[0.1], parts.known)
    assert not (parts.tuning[0.01] & ~parts.tuning[0.05]).any()
    assert not (parts.tuning[0.05] & ~parts.tuning[0.1]).any()


# Training and files.


def tune_digits(results, seeds=2, names=(DIGITS,)):
    progress = RecordedProgress()
    campaign = TuningRun(results.folder, RunOptions(device="cpu"), progress)
    return campaign.run(plan(names, ["in-sample"], seeds)), progress


def kept(results, name=DIGITS):
    """The stored tables of a setting."""
    files = TuningResults(results.folder)
    return [files.read(name), files.read(name, CANDIDATES), files.read(name, CURVE)]


def assert_same(a, b):
    for one, other in zip(a, b, strict=True):
        pd.testing.assert_frame_equal(one.drop(columns="seconds"), other.drop(columns="seconds"), check_exact=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two seeds tuned in one run."""
    results = Results(tmp_path_factory.mktemp("whole"))
    path = results.recipe_path(DIGITS)
    path.parent.mkdir(parents=True)
    replace(setting(DIGITS).recipe, epochs=EPOCHS).save(path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        outcome, progress = tune_digits(results)
    assert len(outcome.done) == 2
    assert progress.epochs == 2 * 2 * EPOCHS
    return results


@pytest.fixture
def copied(whole, tmp_path):
    """A copy that a test may change."""
    shutil.copytree(whole.folder, tmp_path / "copied")
    return Results(tmp_path / "copied")


def test_what_is_kept_says_what_produced_it(whole):
    chosen, every, curve = kept(whole)
    labelled = load_setting(DIGITS)
    for table in (chosen, every, curve):
        assert set(table["seed"]) == {0, 1}
        for column, value in {
            "setting": DIGITS,
            "horizon": 2 * EPOCHS,
            "epochs_of_recipe": EPOCHS,
            "data_hash": labelled.data.content_hash,
            "label_hash": labelled.noise["hash"],
            "complete": True,
            "device": "cpu",
        }.items():
            assert set(table[column]) == {value}
    assert chosen.groupby(["seed", "tuning_fraction", "method"]).size().tolist() == [1] * (2 * 4 * 4)
    assert set(chosen["evaluated"]) == {len(labelled.given) - 135}
    assert set(chosen["noisy"]) == {int(labelled.truth[labelled.evaluation].sum())}
    assert sorted(set(curve["epoch"])) == list(range(2 * EPOCHS))
    assert all(path.suffix == ".lock" for path in whole.work("").iterdir())


def test_what_is_there_is_reused_and_a_missing_seed_is_added(short, whole):
    results = short()
    first, _ = tune_digits(results, seeds=1)
    assert [cell.seed for cell in first.done] == [0]
    second, progress = tune_digits(results)
    assert ([cell.seed for cell in second.reused], [cell.seed for cell in second.done]) == ([0], [1])
    assert progress.epochs == 2 * EPOCHS
    assert_same(kept(results), kept(whole))
    before = [path.stat().st_mtime_ns for path in sorted(results.folder.glob("tuning/*"))]
    third, progress = tune_digits(results)
    assert (len(third.reused), progress.lines, progress.planned) == (2, [], 0)
    assert before == [path.stat().st_mtime_ns for path in sorted(results.folder.glob("tuning/*"))]


@pytest.mark.parametrize(("death", "seeds_done"), [("training", 0), ("writing", 1)])
def test_killed_it_goes_on_to_the_same_files(short, whole, death, seeds_done):
    results = short()

    def die():
        """Runs in a process of its own, so nothing has to be undone."""
        progress = KillingProgress(13 if death == "training" else 10**9)
        write, calls = tuning_results.replace_atomically, []

        def write_four(path, how):
            calls.append(path)
            if len(calls) > 4:
                os.kill(os.getpid(), signal.SIGKILL)
            write(path, how)

        if death == "writing":
            tuning_results.replace_atomically = write_four
        campaign = TuningRun(results.folder, RunOptions(device="cpu"), progress)
        campaign.run(plan([DIGITS], ["in-sample"], 2))

    assert exit_code(begun(die)) == -signal.SIGKILL
    outcome, _ = tune_digits(results)
    assert (len(outcome.reused), len(outcome.done)) == (seeds_done, 2 - seeds_done)
    assert_same(kept(results), kept(whole))


def test_seeds_kept_at_the_same_moment_are_all_kept(tmp_path, whole):
    files = TuningResults(tmp_path)
    _, every, curve = kept(whole)

    def keep(seed):
        of_seed = [table[table["seed"] == 0].assign(seed=seed) for table in (every, curve)]
        TuningResults(tmp_path).add(Cell(DIGITS, "in-sample", seed), *of_seed)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(keep, [3, 1, 2, 0]))
    for table in (files.read(DIGITS), files.read(DIGITS, CANDIDATES), files.read(DIGITS, CURVE)):
        assert table["seed"].drop_duplicates().tolist() == [0, 1, 2, 3]
    assert files.settings() == [DIGITS]


# Failures.


def test_a_failure_is_recorded_hides_nothing_and_is_tried_again(short, monkeypatch):
    results, gather = short(), campaign.train_group

    def fail_pairflip(group, *rest, **options):
        if group.setting.name == PAIRFLIP:
            raise RuntimeError("the disk is on fire")
        first, *others = gather(group, *rest, **options)
        return [first, *(replace(one, dynamics=None, stopped="seed1 diverged at epoch 3") for one in others)]

    monkeypatch.setattr(campaign, "train_group", fail_pairflip)
    outcome, progress = tune_digits(results, names=(PAIRFLIP, DIGITS))
    files = TuningResults(results.folder)
    assert outcome.done == [Cell(DIGITS, "in-sample", 0)]
    assert "the disk is on fire" in files.failures(PAIRFLIP)[1]
    assert files.failures(DIGITS) == {1: "seed1 diverged at epoch 3"}
    assert any("failed: RuntimeError: the disk is on fire" in line for line in progress.lines)
    monkeypatch.setattr(campaign, "train_group", gather)
    outcome, _ = tune_digits(results)
    assert [cell.seed for cell in outcome.done] == [1]
    assert files.failures(DIGITS) == {}


def test_seeds_of_another_recipe_are_not_mixed(copied, whole):
    path = copied.recipe_path(DIGITS)
    recipe = Recipe.load(path)
    replace(recipe, learning_rate=0.5).save(path)
    outcome, progress = tune_digits(copied, seeds=3)
    (reason,) = outcome.failed.values()
    assert "has different parameters. Delete it to tune again." in reason
    assert progress.epochs == 0
    assert_same(kept(copied), kept(whole))


def test_a_seed_is_not_added_where_the_candidates_of_others_are_lost(copied):
    TuningResults(copied.folder).path(DIGITS, CANDIDATES).unlink()
    outcome, progress = tune_digits(copied, seeds=3)
    (reason,) = outcome.failed.values()
    assert f"{DIGITS}.candidates.parquet lacks seeds that" in reason
    assert (len(outcome.reused), progress.epochs) == (2, 0)


def test_what_cannot_be_tuned_here_is_skipped_with_the_reason(short, tmp_path, monkeypatch):
    monkeypatch.setenv("ERRATA_DATA", str(tmp_path / "nothing"))
    results = short()
    results.work("").mkdir(parents=True)
    with FileLock(results.work(f"{DIGITS}-tuning.lock")):
        outcome, _ = tune_digits(results, seeds=1, names=("letter-symmetric-20", DIGITS))
    reasons = {cell.setting: reason for cell, reason in outcome.skipped.items()}
    assert "letter is not in" in reasons["letter-symmetric-20"]
    assert reasons[DIGITS] == "another process works on it"
    monkeypatch.setattr("errata.bench.running.cell_training.CPU_RATE", 1.0)
    campaign = TuningRun(results.folder, RunOptions(), RecordedProgress())
    outcome = campaign.run(plan([DIGITS], ["in-sample"], 1))
    assert all("needs a CUDA GPU" in reason for reason in outcome.skipped.values())


def test_what_another_process_finished_meanwhile_is_not_done_again(copied, monkeypatch):
    asked, has = [], TuningResults.has

    def not_at_first(self, cell):
        asked.append(cell)
        return len(asked) > 2 and has(self, cell)

    monkeypatch.setattr(TuningResults, "has", not_at_first)
    outcome, progress = tune_digits(copied)
    assert (len(outcome.reused), outcome.done, progress.epochs) == (2, [], 0)


def test_the_horizon_is_the_papers_for_its_recipe_and_twice_the_epochs_otherwise():
    worse, digits = setting("cifar10n-worse"), setting(DIGITS)
    assert longer_recipe(worse.recipe, worse) == replace(worse.recipe, epochs=70)
    assert longer_recipe(replace(worse.recipe, epochs=21), worse).epochs == 42
    assert longer_recipe(digits.recipe, digits).epochs == 200


# The command.


def test_the_command(short, errata_command):
    results = short()
    run = partial(errata_command, "bench", "tune", "--out", results.folder)
    code, said, complaints = run("--setting", DIGITS, "--seeds", "1")
    assert (code, complaints) == (0, "")
    assert f"{DIGITS}: FNR in percent" in said
    assert "1 seeds tuned, 0 reused, 0 skipped, 0 failed; results are in" in said
    chosen = TuningResults(results.folder).read(DIGITS)
    for row in chosen.itertuples():
        assert f"{100 * row.value:.2f}" in said
    assert all(TuningResults(results.folder).path(DIGITS, kind).exists() for kind in (CHOSEN, CANDIDATES, CURVE))
    code, said, _ = run("--setting", DIGITS, "--seeds", "1")
    assert "0 seeds tuned, 1 reused" in said
    code, _, complaints = run("--setting", DIGITS, "--suite", "quick")
    assert code != 0
    assert "not both" in complaints
