"""New datasets: one file in the package, or an entry point of another package."""

import inspect
from importlib.metadata import EntryPoint

import pytest

from errata import discovery
from errata.datasets import load_setting, registry, sets
from errata.datasets.sets import digits

FILE = inspect.getsource(digits).replace('NAME = "digits"', 'NAME = "numbers"')


@pytest.fixture(autouse=True)
def fresh_registry():
    for cached in (registry.datasets, registry.settings):
        cached.cache_clear()
    yield
    for cached in (registry.datasets, registry.settings):
        cached.cache_clear()


def check_dataset():
    assert registry.dataset("numbers").title.startswith("Optical")
    assert load_setting("numbers-symmetric-20").noise == load_setting("digits-symmetric-20").noise


def test_a_file_in_the_package_adds_a_dataset(tmp_path, monkeypatch):
    (tmp_path / "numbers.py").write_text(FILE)
    monkeypatch.setattr(sets, "__path__", [*sets.__path__, str(tmp_path)])
    check_dataset()


def test_a_file_can_add_several_datasets(tmp_path, monkeypatch):
    several = (
        f"{FILE}\nfrom dataclasses import replace\nDATASETS = (DATASET, replace(DATASET, name='more', settings=()))"
    )
    (tmp_path / "several.py").write_text(several)
    monkeypatch.setattr(sets, "__path__", [*sets.__path__, str(tmp_path)])
    check_dataset()
    assert registry.dataset("more").settings == ()


def test_an_entry_point_adds_a_dataset_and_broken_ones_are_named(tmp_path, monkeypatch):
    (tmp_path / "numbers_dataset.py").write_text(FILE)
    (tmp_path / "broken_dataset.py").write_text("raise RuntimeError('no licence')")
    (tmp_path / "empty_dataset.py").write_text("")
    (tmp_path / "copied_dataset.py").write_text(inspect.getsource(digits))
    monkeypatch.syspath_prepend(tmp_path)
    names = ("broken", "empty", "copied", "numbers")
    points = [EntryPoint(name, f"{name}_dataset", "errata.datasets") for name in names]
    monkeypatch.setattr(discovery, "entry_points", lambda group: points)
    with pytest.warns(UserWarning, match="is ignored") as warned:
        check_dataset()
    messages = [str(warning.message) for warning in warned]
    assert len(messages) == 3
    for name, words in (("broken", "no licence"), ("empty", "is ignored"), ("copied", "is ignored")):
        assert any(f"{name}_dataset" in message and words in message for message in messages)
