from dataclasses import replace
from pathlib import Path

import pytest
from short_digits import DIGITS, EPOCHS, PLUGIN, RecordedProgress

from errata.bench.plan import plan
from errata.bench.results import Results
from errata.bench.running.benchmark_run import BenchmarkRun
from errata.bench.running.campaign import RunOptions
from errata.datasets.registry import setting


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Use an empty cache and no data folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("ERRATA_DATA", raising=False)


@pytest.fixture
def short(tmp_path):
    """A results folder whose recipe trains digits for a few epochs."""

    def short(name="results", **changes):
        results = Results(tmp_path / name)
        path = results.recipe_path(DIGITS)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(setting(DIGITS).recipe, epochs=EPOCHS, **changes).save(path)
        return results

    return short


@pytest.fixture
def run_digits():
    """Run digits; the outcome and its progress."""

    def run_digits(results, seeds=2, gatherings=("in-sample", "out-of-sample"), settings=(DIGITS,), **options):
        progress = RecordedProgress()
        campaign = BenchmarkRun(results.folder, RunOptions(device="cpu", **options), progress)
        return campaign.run(plan(settings, gatherings, seeds)), progress

    return run_digits


@pytest.fixture
def plugin(tmp_path):
    """A file that defines a method."""
    path = Path(tmp_path) / "largest.py"
    path.write_text(PLUGIN)
    return path
