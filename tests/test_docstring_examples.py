"""Every public name has an example in its docstring, and the example gives what it shows."""

import doctest
from types import ModuleType

import pytest

import errata

OWNERS = {"compat": ["find_label_issues"]}  # a module is described by these functions, or by its own docstring


def documented(name):
    """The objects whose docstrings have the examples of a public name."""
    public = getattr(errata, name)
    return [getattr(public, owner) for owner in OWNERS[name]] if name in OWNERS else [public]


@pytest.mark.parametrize("name", errata.__all__)
def test_the_example_of_a_public_name_is_right(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for owner in documented(name):
        title = owner.__name__ if isinstance(owner, ModuleType) else f"errata.{name}"
        (example,) = doctest.DocTestFinder(recurse=False).find(owner, title, globs={})
        assert example.examples, f"{title} has no example"
        assert runner.run(example).failed == 0
