"""The registry: names, duplicates, and parts of an installed package, which are treated like errata's own."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from errata.core import method_registry
from errata.core.aggregations import Last
from errata.core.measures import Measure
from errata.core.method_parts import VectorAggregation
from errata.core.method_registry import find_part, register, registered
from errata.core.methods import paper_methods, parse
from errata.errors import InputError

PACKAGE = '''
"""A package with one part of each kind."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errata.core.aggregations import MeanProb
from errata.core.measures import LM, measure
from errata.core.method_parts import Aggregation, Detector, MethodResult, ProbabilityStep, ProbabilityVectors
from errata.core.method_registry import register

METHODS = ["Largest-LM", "Sharp(power=3)-MeanProb-Odds", "Rare-Mean (IS)"]


@register
@measure(statistic="log_odds", half=0.0)
def Odds(log_odds):
    """The statistic itself."""
    return log_odds


@register
@dataclass(frozen=True)
class Largest(Aggregation):
    """The measure at the epoch where it is largest."""

    def start(self, samples, classes, epochs):
        return {"largest": np.full(samples, -np.inf)}

    def update(self, state, batch, measure):
        np.maximum(state["largest"], batch.measure(measure), out=state["largest"])

    def sample_arrays(self, state, measure, labels, epochs):
        return {"scores": state["largest"]}


@register
@dataclass(frozen=True)
class Sharp(ProbabilityStep):
    """Probabilities to a power."""

    power: float = 2.0

    def apply(self, vectors, labels, context):
        return ProbabilityVectors(self.power * vectors.log_probabilities, vectors.neighbour_log_probabilities)


@register
@dataclass(frozen=True)
class Rare(Detector):
    """The margin of the mean prediction, or its sign."""

    variants = ("Mean", "Sign")
    aggregation: ClassVar = MeanProb()

    def result(self, arrays, labels, budget, context):
        margin = LM(arrays["log_probabilities"], labels)
        return MethodResult(margin if self.variant == "Mean" else np.sign(margin), margin > 0)
'''
NAMES = ("Largest-Odds", "Last-Odds", "Sharp-MeanProb-LM", "Rare-Mean (IS)", "Rare-Sign (IS)")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Run Python where a package with parts and one that cannot be imported are installed; returns what it prints."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "extra_methods.py").write_text(PACKAGE)
    (folder / "broken_methods.py").write_text(
        PACKAGE.replace("Largest", "Longest") + "\nraise RuntimeError('no licence')"
    )
    information = folder / "extra_methods-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: extra-methods\nVersion: 1.0\n")
    entries = "[errata.methods]\nbroken = broken_methods\nextra = extra_methods\n"
    (information / "entry_points.txt").write_text(entries)
    rng = np.random.default_rng(0)
    np.savez(folder / "run.npz", logits=rng.normal(size=(5, 40, 3)), labels=rng.integers(0, 3, 40))
    paths = [str(folder), *filter(None, (str(Path(path).resolve()) for path in sys.path if path))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}

    def run(*arguments, cwd=folder):
        command = [sys.executable, *map(str, arguments)]
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    return run, folder


def test_parts_of_a_package_are_listed_and_a_broken_one_is_named(installed):
    run, folder = installed
    done = run("-m", "errata", "methods", "--out", "methods.csv")
    table = pd.read_csv(folder / "methods.csv", keep_default_na=False).set_index("method")
    assert set(NAMES) <= set(table.index)
    assert not any("Longest" in name for name in table.index)
    assert not table.loc[list(NAMES), "in_paper"].any()
    assert table["in_paper"].sum() == len(paper_methods())
    assert "plugin 'broken' (broken_methods)" in done.stderr
    assert "no licence" in done.stderr


def test_parts_of_a_package_score_rank_and_run_in_the_benchmark(installed):
    run, folder = installed
    combined = "Unmixed-Sharp(power=3)-MeanProb-Odds"
    chosen = [option for name in (*NAMES, combined) for option in ("--method", name)]
    run("-m", "errata", "score", "run.npz", *chosen, "--out", "scores.csv")
    scores = pd.read_csv(folder / "scores.csv")
    assert set(scores) == {"id", *NAMES, combined}
    assert np.isfinite(scores[combined]).all()
    run("-m", "errata", "rank", "run.npz", "--method", "Rare-Mean", "--out", "ranking.csv")
    assert pd.read_csv(folder / "ranking.csv")["score"].tolist() == sorted(scores["Rare-Mean (IS)"], reverse=True)
    done = run("-c", "from errata.bench.running.benchmark_run import plugin_methods; print(*plugin_methods(), sep='|')")
    assert done.stdout.strip() == "Largest-LM|Sharp(power=3)-MeanProb-Odds|Rare-Mean (IS)"


def test_parts_of_a_package_pass_the_contracts(installed):
    run, _ = installed
    tests = Path(__file__).parents[1]
    chosen = "[Odds or [Largest-LM or [Last-Odds or [Sharp-MeanProb-LM or Rare or every_part"
    contracts = [tests / "contracts" / f"test_{name}.py" for name in ("methods", "measures")]
    done = run("-m", "pytest", "-p", "no:cacheprovider", "-k", chosen, *contracts, cwd=tests.parent)
    assert "passed" in done.stdout


def test_a_name_is_taken_once_in_any_case_and_for_any_kind():
    @dataclass(frozen=True)
    class LAST(Last):
        """Another one of that name."""

    with pytest.raises(InputError, match=r"cannot register the aggregation LAST: Last in errata\.core\.aggregations"):
        register(LAST)
    with pytest.raises(InputError, match="is registered as the step kNN"):
        register(Measure("KNN", "margin", 0.0, lambda margin: margin))
    for name in ("default", "two words", "A-B", "1st"):
        LAST.registered_name = name
        with pytest.raises(InputError, match="cannot name a part of a method"):
            register(LAST)


def test_a_definition_that_runs_again_replaces_the_first():
    def define():
        @register
        @dataclass(frozen=True)
        class Mine(Last):
            """Written in a notebook."""

        return Mine

    try:
        first, second = define(), define()
        assert first is not second
        assert find_part("aggregation", "mine") is second
        assert issubclass(registered("aggregation")["Mine"], VectorAggregation)
        assert parse("mine-lm").name == "Mine-LM"
    finally:
        method_registry._parts["aggregation"].pop("Mine")
    assert find_part("aggregation", "Mine") is None
