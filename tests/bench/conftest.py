from dataclasses import replace
from pathlib import Path

import pytest
from short_digits import DIGITS, EPOCHS, PLUGIN

from errata.bench.running.cells import How, run
from errata.bench.running.plan import plan
from errata.bench.running.results import Results
from errata.datasets.registry import setting


class Lines:
    """What a run said."""

    def __init__(self):
        self.said, self.epochs = [], 0

    def say(self, line):
        self.said.append(line)

    def begin(self, name, epochs):
        pass

    def advance(self, epochs):
        self.epochs += epochs


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Nobody's cache is read or written, and there is no data but what needs no file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("ERRATA_DATA", raising=False)


@pytest.fixture
def short(tmp_path):
    """A results folder in which digits is trained for a few epochs."""

    def short(name="results", **changes):
        results = Results(tmp_path / name)
        path = results.recipe_path(DIGITS)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(setting(DIGITS).recipe, epochs=EPOCHS, **changes).save(path)
        return results

    return short


@pytest.fixture
def run_digits():
    """Run digits into a folder; returns the outcome and what was said."""

    def run_digits(results, seeds=2, gatherings=("in-sample", "out-of-sample"), settings=(DIGITS,), **how):
        lines = Lines()
        outcome = run(plan(settings, gatherings, seeds), results.folder, How(device="cpu", **how), lines)
        return outcome, lines

    return run_digits


@pytest.fixture
def plugin(tmp_path):
    """A file with a method of its own."""
    path = Path(tmp_path) / "largest.py"
    path.write_text(PLUGIN)
    return path
