"""The examples in the docstrings of recorders, with the real frameworks."""

import pytest

import errata.integrations
from docstring_examples import FRAMEWORKS, run_example


@pytest.mark.parametrize("name", [name for name in errata.integrations.__all__ if name.startswith(FRAMEWORKS)])
@pytest.mark.filterwarnings("ignore")
def test_the_example_of_a_recorder_is_right(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorder = getattr(errata.integrations, name)
    run_example(f"integrations.{name}", recorder)
    for method in vars(recorder).values():
        if ">>>" in (method.__doc__ or ""):
            run_example(f"integrations.{name}.{method.__name__}", method)
