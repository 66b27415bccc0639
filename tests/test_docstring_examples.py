"""Every public name is on the page of the reference, and has an example that gives what it shows."""

import re
from types import ModuleType

import pytest

import errata
import errata.integrations
from docstring_examples import FRAMEWORKS, PAGE, documented, run_example
from errata.integrations.base import BatchOptions, MarginOptions, RecorderOptions

# They register a formula (CONTRIBUTING.md describes it) or are steps of others.
INTERNAL = {"metrics.metric", "metrics.budget_metric", "metrics.budget_count", "noise.noise_model"}
ENTRIES = documented()
RECORDERS = [f"integrations.{name}" for name in errata.integrations.__all__]


def functions(module: ModuleType) -> list[str]:
    """The public functions of a module that are defined in it or in its package."""
    return [
        name
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and value.__module__.startswith(module.__name__)
    ]


@pytest.mark.parametrize("name", ENTRIES)
def test_the_example_of_a_public_name_is_right(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_example(name, ENTRIES[name])


@pytest.mark.parametrize("name", [name for name in RECORDERS if not name.partition(".")[2].startswith(FRAMEWORKS)])
@pytest.mark.filterwarnings("ignore")
def test_the_example_of_a_recorder_is_right(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_example(name, getattr(errata.integrations, name.partition(".")[2]))


def test_every_public_name_is_on_the_page():
    classes = ("Inspection",)  # of metrics: what a registered formula receives
    named = {*errata.__all__} - {"compat", "metrics", "noise"}
    named |= {f"metrics.{name}" for name in functions(errata.metrics) if name not in classes}
    named |= {f"noise.{name}" for name in functions(errata.noise)} | {"compat.find_label_issues", *RECORDERS}
    entries = set(re.findall(r"^\.\. auto\w+:: errata\.([\w.]+)", PAGE, re.MULTILINE))
    assert named - INTERNAL == entries


def test_the_page_names_the_options_of_recorders():
    options = {*RecorderOptions.__annotations__, *BatchOptions.__annotations__, *MarginOptions.__annotations__}
    paragraph = PAGE.partition("All recorders take")[2].partition("```")[0]
    assert {name for name in re.findall(r"`(\w+)`", paragraph) if name.islower()} == options
