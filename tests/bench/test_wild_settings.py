"""The suite `wild`: selected by name, and nowhere else."""

from functools import partial

import pytest
from short_digits import DIGITS, RecordedProgress
from synthetic_results import write_seeds

from errata.bench.evaluation.leaderboard import leaderboard
from errata.bench.evaluation.summaries import order_settings
from errata.bench.figures.gallery import Gallery
from errata.bench.plan import GATHERINGS, plan, suite, usual_settings
from errata.bench.results import Results
from errata.bench.running.benchmark_run import BenchmarkRun
from errata.bench.running.campaign import RunOptions
from errata.datasets.registry import setting, settings
from errata.datasets.sets import wild
from errata.training.recipes import BoostingRecipe

VOWEL = "vowel-symmetric-20"
SUITES = ("paper", "tabular", "cifar", "noise", "boosting", "quick")
FNR = {"MeanProb-LM": [20, 21], "Mean-CE": [30, 31]}


@pytest.fixture
def run(errata_command):
    return partial(errata_command, "bench")


@pytest.fixture
def both(tmp_path):
    """Results of digits and of a setting of the suite."""
    for name in (DIGITS, VOWEL):
        write_seeds(tmp_path / "results", name, FNR, rates={"together": (0.2, 0.1, 0.3)})
    return Results(tmp_path / "results")


def test_every_set_has_four_kinds_of_noise():
    noises = ("symmetric-1", "symmetric-5", "symmetric-20", "pairflip-30")
    assert list(suite("wild")) == [f"{one.name}-{noise}" for one in wild.DATASETS for noise in noises]
    assert len(suite("wild")) == 52
    for name in suite("wild"):
        assert not setting(name).recipe.widths
        assert setting(name).network == ("mlp" if name.startswith(("agnews", "clinc150")) else "boosting")


def test_no_other_suite_and_no_usual_setting_is_wild():
    assert not set(suite("wild")) & {name for other in SUITES for name in suite(other)}
    assert set(usual_settings(settings())) == set(settings()) - set(suite("wild")) - set(suite("pretrained"))
    assert usual_settings(["of-a-plugin", VOWEL]) == ["of-a-plugin"]


def test_the_list_shows_the_suite_only_if_it_is_named(run, tmp_path):
    code, out, _ = run("list", "--data-dir", tmp_path)
    assert code == 0
    assert DIGITS in out
    assert VOWEL not in out
    code, out, _ = run("list", "--suite", "wild", "--data-dir", tmp_path)
    assert code == 0
    assert DIGITS not in out
    assert all(name in out for name in suite("wild"))


def test_results_of_the_suite_are_shown_only_if_it_is_named(run, both):
    assert leaderboard(both).settings == (DIGITS,)
    assert leaderboard(both, suite("wild")).settings == (VOWEL,)
    assert order_settings([VOWEL, DIGITS]) == [DIGITS]
    drawn = Gallery(both)
    assert not any("vowel" in name for name, _ in drawn._figures)
    assert any(name == f"budget-{VOWEL}" for name, _ in Gallery(both, [VOWEL])._figures)
    for table in ("noise-rate", "datasets", "training"):
        _, out, _ = run("table", table, "--format", "csv")
        assert DIGITS in out
        assert VOWEL not in out
        _, out, _ = run("table", table, "--format", "csv", "--suite", "wild")
        assert VOWEL in out
        assert DIGITS not in out
    _, usual, _ = run("table", "noise-rates", "--format", "csv")
    assert usual.splitlines()[1].count(VOWEL) == 0
    code, out, _ = run("rank", "--suite", "wild", "--format", "csv")
    assert code == 0
    assert "MeanProb-LM" in out


def test_a_setting_runs_from_its_file_to_its_numbers(tmp_path, real_data):
    results = Results(tmp_path / "results")
    results.recipe_path(VOWEL).parent.mkdir(parents=True)
    BoostingRecipe(epochs=10, learning_rate=0.3).save(results.recipe_path(VOWEL))
    campaign = BenchmarkRun(results.folder, RunOptions(device="cpu", data_dir=real_data), RecordedProgress())
    outcome = campaign.run(plan([VOWEL], GATHERINGS, 1))
    assert not outcome.failed
    assert len(outcome.done) == 2
    numbers = results.numbers()
    fnr = numbers[numbers["metric"] == "fnr"].set_index("method")["value"]
    assert fnr[["MeanProb-LM", "Last-LM (OOS)"]].max() < 0.6  # a random ranking has 0.8
    assert set(numbers["complete"]) == {True}
