import json
import shutil
import signal
import sys

import numpy as np
import pandas as pd
import pytest
from short_digits import DIGITS, EPOCHS, KillingProgress, begun, exit_code

import errata
from errata import cli
from errata.bench.plan import GATHERINGS, Cell, group_cells, plan, suite
from errata.bench.results import Results
from errata.bench.running import campaign
from errata.bench.running.benchmark_run import BenchmarkRun, methods_besides_the_papers, plugin_methods
from errata.bench.running.campaign import RunOptions
from errata.bench.running.cell_training import reason_to_skip
from errata.core import method_registry
from errata.core.methods import paper_methods
from errata.core.sample_context import SampleContext
from errata.datasets.loading import load_setting
from errata.errors import InputError

PAPER = {method.name for method in paper_methods()}
ANY = np.zeros((1, 1))
OWN = {method.name for method in methods_besides_the_papers(SampleContext(ANY, ANY))}
WITHOUT_TIME = ["seconds"]


def files(results):
    """All stored tables without the training time."""
    found = {}
    for path in sorted(results.folder.glob("cells/**/*.parquet")):
        table = pd.read_parquet(path).drop(columns=WITHOUT_TIME, errors="ignore")
        found[str(path.relative_to(results.folder))] = table
    return found


def assert_same(a, b):
    assert list(a) == list(b)
    for name, table in a.items():
        pd.testing.assert_frame_equal(table, b[name], check_exact=True)


# The contents of a cell.


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two seeds of digits, both gatherings, created by the command."""
    results = _prepare(tmp_path_factory.mktemp("whole"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        with pytest.raises(SystemExit) as left:
            _run_command(results.folder)
    assert left.value.code == 0
    return results


def _run_command(folder):
    """`errata bench run` with two seeds of digits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            sys, "argv", ["errata", "bench", "run", "--setting", DIGITS, "--out", str(folder), "--seeds", "2"]
        )
        cli.main()


def _prepare(folder):
    from dataclasses import replace

    from errata.datasets.registry import setting

    results = Results(folder)
    results.recipe_path(DIGITS).parent.mkdir(parents=True, exist_ok=True)
    replace(setting(DIGITS).recipe, epochs=EPOCHS).save(results.recipe_path(DIGITS))
    return results


def test_every_method_of_the_paper_has_its_numbers_and_scores(whole):
    numbers = whole.numbers()
    assert set(numbers.loc[numbers["metric"] == "fnr", "method"]) == PAPER | OWN
    assert set(numbers.loc[numbers["method"] == "", "metric"]) == {"test_accuracy"}
    assert numbers.groupby(["gathering", "seed"]).ngroups == 4
    assert (numbers["samples"] == 1347).all()
    assert (numbers["noisy"] == 288).all()
    assert numbers["complete"].all()
    parameters = json.loads(numbers["parameters"][0])
    assert (parameters["epochs"], parameters["network"]) == (EPOCHS, "mlp")


def test_numbers_are_those_of_the_scores_beside_them(whole):
    numbers = whole.numbers()
    for cell in whole.cells():
        scores = whole.scores(cell)
        own = numbers[(numbers["gathering"] == cell.gathering) & (numbers["seed"] == cell.seed)]
        for row in own[own["metric"].isin(["fnr", "auroc", "auprc"])].itertuples():
            metric = getattr(errata.metrics, row.metric)
            assert metric(scores[row.method], scores["truth"]) == row.value


def test_every_cell_keeps_the_estimates_of_its_noise_rate(whole):
    numbers = whole.numbers()
    kept = numbers[numbers["metric"].str.startswith("noise_rate")]
    wide = kept.pivot(index=["gathering", "seed", "method"], columns="metric", values="value")
    kinds = {"together", "confident joint", "mixture", "sign"}
    for (gathering, _), rows in kept.groupby(["gathering", "seed"]):
        assert set(rows["method"]) == kinds | ({"typical samples"} if gathering == "in-sample" else set())
    assert (wide["noise_rate_low"] <= wide["noise_rate"]).all()
    assert (wide["noise_rate"] <= wide["noise_rate_high"]).all()
    # The margins are stored as scores; their sign is the estimate.
    margins = whole.scores(Cell(DIGITS, "in-sample", 1))["Unmixed-HeldOut-EarlyProb-LM"]
    assert wide.loc[("in-sample", 1, "sign"), "noise_rate"] == (margins > 0).mean()


def test_given_labels_and_truth_are_those_of_the_setting(whole):
    labelled = load_setting(DIGITS)
    scores = whole.scores(Cell(DIGITS, "in-sample", 1))
    np.testing.assert_array_equal(scores["given"], labelled.given)
    np.testing.assert_array_equal(scores["truth"], labelled.truth)
    assert set(whole.numbers()["label_hash"]) == {labelled.noise["hash"]}


def test_nothing_but_results_is_left(whole):
    work = whole.work("")
    assert all(path.suffix == ".lock" for path in work.iterdir())


# Resuming.


def test_what_is_there_is_reused_and_what_is_missing_is_added(whole, run_digits, short):
    results = short()
    for path in whole.folder.glob("cells/**/*seed0.*"):
        copy = results.folder / path.relative_to(whole.folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    before = files(results)
    second, progress = run_digits(results, seeds=2)
    assert len(second.reused) == 2
    assert len(second.done) == 2
    assert progress.epochs == EPOCHS * (1 + 4)
    after = files(results)
    assert_same(before, {name: after[name] for name in before})
    assert_same(after, files(whole))
    third, progress = run_digits(results, seeds=2)
    assert len(third.reused) == 4
    assert progress.lines == []


def test_a_run_killed_several_times_goes_on_to_the_same_files(whole, tmp_path, run_digits):
    results = _prepare(tmp_path / "killed")
    in_sample, folds = 2 * EPOCHS, 2 * 4 * EPOCHS
    for progress in (
        KillingProgress(0),
        KillingProgress(1),
        KillingProgress(in_sample),
        KillingProgress(line=f"{DIGITS}/in-sample: trained"),
        KillingProgress(folds // 2),
        KillingProgress(line=f"{DIGITS}/out-of-sample: trained"),
    ):
        campaign = BenchmarkRun(results.folder, RunOptions(device="cpu"), progress)
        killed = begun(lambda campaign=campaign: campaign.run(plan([DIGITS], GATHERINGS, 2)))
        assert exit_code(killed) == -signal.SIGKILL
    run_digits(results)
    assert_same(files(results), files(whole))


def test_training_that_a_killed_process_left_is_deleted(short, run_digits, monkeypatch):
    """Killed after the results were written, before or while the training was deleted."""
    results = short()
    with monkeypatch.context() as killed:
        killed.setattr(campaign, "_remove", lambda work: None)
        run_digits(results, seeds=1, gatherings=("in-sample",))
    work = results.work(f"{DIGITS}-in-sample")
    assert any(work.iterdir())
    (work / "seed1").mkdir()  # an unfinished seed is still needed
    run_digits(results, seeds=1, gatherings=("in-sample",))
    assert (work / "seed0").exists()
    (work / "seed1").rmdir()
    run_digits(results, seeds=1, gatherings=("in-sample",), keep_dynamics=True)
    assert (work / "seed0").exists()
    run_digits(results, seeds=1, gatherings=("in-sample",))
    assert not work.exists()
    assert not list(work.parent.glob("*.unfinished"))


def test_training_that_was_kept_is_not_deleted(short, run_digits):
    results = short()
    run_digits(results, seeds=1, gatherings=("in-sample",), keep_dynamics=True)
    run_digits(results, seeds=1, gatherings=("in-sample",))
    assert (results.work(f"{DIGITS}-in-sample") / "seed0" / "dynamics").is_dir()


def test_two_processes_on_one_folder_share_the_work(whole, tmp_path, run_digits):
    results = _prepare(tmp_path / "shared")
    both = [begun(lambda: _run_command(results.folder)) for _ in range(2)]
    assert [exit_code(process) for process in both] == [0, 0]
    run_digits(results)  # what neither process has done
    assert_same(files(results), files(whole))


# Failures.


def test_a_failure_is_recorded_hides_nothing_and_is_tried_again(short, run_digits, monkeypatch):
    results = short()
    train_group = campaign.train_group

    def fail_out_of_sample(group, *rest, **options):
        if group.gathering == "out-of-sample":
            raise RuntimeError("the disk is on fire")
        return train_group(group, *rest, **options)

    monkeypatch.setattr(campaign, "train_group", fail_out_of_sample)
    outcome, progress = run_digits(results, seeds=1, gatherings=("out-of-sample", "in-sample"))
    assert [cell.gathering for cell in outcome.done] == ["in-sample"]
    (failed,) = outcome.failed
    assert "the disk is on fire" in outcome.failed[failed]
    assert "the disk is on fire" in results.failure(failed)
    assert any("failed: RuntimeError: the disk is on fire" in line for line in progress.lines)
    monkeypatch.setattr(campaign, "train_group", train_group)
    outcome, _ = run_digits(results, seeds=1)
    assert outcome.done == [failed]
    assert results.failure(failed) == ""


def test_a_seed_that_diverges_fails_alone(short, run_digits, monkeypatch):
    from dataclasses import replace

    results = short()
    train_group = campaign.train_group

    def diverge(group, *rest, **options):
        first, *others = train_group(group, *rest, **options)
        return [replace(first, dynamics=None, stopped="seed0 diverged: its logits are not finite at epoch 3"), *others]

    monkeypatch.setattr(campaign, "train_group", diverge)
    outcome, _ = run_digits(results, gatherings=("in-sample",))
    assert [cell.seed for cell in outcome.done] == [1]
    assert list(outcome.failed.values()) == ["seed0 diverged: its logits are not finite at epoch 3"]


def test_what_is_not_there_or_does_not_fit_is_skipped_with_the_reason(short, run_digits, tmp_path, monkeypatch):
    monkeypatch.setenv("ERRATA_DATA", str(tmp_path / "nothing"))
    outcome, _ = run_digits(short(), seeds=1, gatherings=("in-sample",), settings=("letter-symmetric-20", DIGITS))
    assert [cell.setting for cell in outcome.done] == [DIGITS]
    assert "letter is not in" in outcome.skipped[Cell("letter-symmetric-20", "in-sample", 0)]


def test_too_much_for_this_machine_is_said_before_it_starts(short, tmp_path, monkeypatch):
    results = short()
    (group,) = group_cells(plan([DIGITS], ["in-sample"], 3))
    labelled, recipe = load_setting(DIGITS), results.recipe(group.setting)
    assert reason_to_skip(group, recipe, labelled, "cpu auto", tmp_path) is None
    monkeypatch.setattr("errata.bench.running.cell_training.CPU_RATE", 1.0)
    assert "needs a CUDA GPU: about" in reason_to_skip(group, recipe, labelled, "cpu auto", tmp_path)
    assert reason_to_skip(group, recipe, labelled, "cpu", tmp_path) is None
    monkeypatch.setattr("errata.bench.running.cell_training.physical_memory", lambda: 1000)
    assert "GB of memory" in reason_to_skip(group, recipe, labelled, "cpu", tmp_path)
    monkeypatch.setattr("errata.bench.running.cell_training.physical_memory", lambda: 1 << 60)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    assert "GB of disk space for its dynamics" in reason_to_skip(group, recipe, labelled, "cpu", tmp_path)


def test_suites_hold_the_settings_they_name():
    assert len(suite("paper")) == 17
    assert len(suite("tabular")) == 7
    assert len(suite("cifar")) == 8
    with pytest.raises(InputError, match="Unknown suite 'all'"):
        suite("all")
    with pytest.raises(InputError, match="Did you mean"):
        plan(["leter-symmetric-20"], ["in-sample"], 1)


# Plugin methods.


@pytest.fixture
def _forgotten():
    yield
    method_registry._parts["aggregation"].pop("Largest", None)
    for name in [name for name in sys.modules if name.startswith("errata_plugin_")]:
        del sys.modules[name]


@pytest.mark.usefixtures("_forgotten")
def test_a_file_brings_a_method_to_every_cell(short, run_digits, plugin):
    results = short()
    run_digits(results, seeds=1, gatherings=("in-sample",), plugins=(plugin,), methods=("EMA-LM",), keep_dynamics=True)
    in_sample = {method.name for method in paper_methods() if method.gathering == "in-sample"}
    numbers = results.numbers()
    assert set(numbers.loc[numbers["metric"] == "fnr", "method"]) == in_sample | OWN | {"Largest-LM", "EMA-LM"}
    assert in_sample <= PAPER
    scores = results.scores(Cell(DIGITS, "in-sample", 0))
    dynamics = errata.Dynamics.open(results.work(f"{DIGITS}-in-sample") / "seed0" / "dynamics")
    every = [errata.score(epoch, dynamics.labels, "Last-LM") for epoch in dynamics.logits]
    np.testing.assert_array_equal(scores["Largest-LM"], np.max(every, axis=0))


@pytest.mark.usefixtures("_forgotten")
def test_a_plugin_that_brings_nothing_is_refused_before_training(short, run_digits, tmp_path):
    empty = tmp_path / "empty.py"
    empty.write_text("METHODS = []")
    with pytest.raises(InputError, match=r"empty\.py has no METHODS"):
        run_digits(short(), plugins=(empty,))
    with pytest.raises(InputError, match="is not a Python file"):
        run_digits(short(), plugins=(tmp_path / "nothing.py",))


@pytest.mark.usefixtures("_forgotten")
def test_a_plugin_may_list_the_default_which_always_runs(tmp_path):
    plugin = tmp_path / "listed.py"
    plugin.write_text("METHODS = ['default', 'Mean-CE']")
    assert plugin_methods([plugin]) == ("Mean-CE",)


def test_a_second_pass_adds_its_metric_in_sample(short, run_digits):
    results = short()
    outcome, _ = run_digits(results, seeds=1, looks=2)
    assert not outcome.failed
    numbers = results.numbers()
    both = numbers[numbers["metric"] == "fnr_two_passes"]
    assert both["gathering"].tolist() == ["in-sample"]
    assert both["method"].tolist() == ["Unmixed-HeldOut-EarlyProb-LM"]
    assert 0 <= both["value"].item() < 0.2
