"""The names on the page docs/reference/python.md, and a run of their examples."""

import doctest
import re
from functools import cached_property, reduce
from pathlib import Path

import errata
import errata.integrations

PAGE = (Path(__file__).parents[1] / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
ENTRY = re.compile(r"^\.\. auto(?:function|class):: errata\.([\w.]+).*\n((?:   :.*\n)*)", re.MULTILINE)
FRAMEWORKS = ("CatBoost", "HuggingFace", "Keras", "Lightning", "Skorch")  # tests/frameworks runs their examples


def _options(text: str) -> dict[str, list[str]]:
    """The options of a directive, such as `members`, as lists of names."""
    pairs = re.findall(r":([\w-]+):(.*)", text)
    return {name: [part.strip() for part in value.split(",") if part.strip()] for name, value in pairs}


def documented() -> dict[str, object]:
    """Every function, class, method and property on the page by its name after `errata.`, without recorders."""
    found: dict[str, object] = {}
    for name, options_text in ENTRY.findall(PAGE):
        if name.startswith("integrations."):  # importing them needs the frameworks
            continue
        found[name] = public = reduce(getattr, name.split("."), errata)
        options = _options(options_text)
        members = options.get("members")
        if members == []:  # all with a docstring
            hidden = options.get("exclude-members", [])
            members = [key for key, value in vars(public).items() if key not in hidden and _is_member(key, value)]
        found |= {f"{name}.{member}": getattr(public, member) for member in members or []}
    return found


def _is_member(name: str, value: object) -> bool:
    """Whether autodoc shows an attribute of a class: it is public and has a docstring of its own."""
    described = callable(value) or isinstance(value, property | classmethod | cached_property) or hasattr(value, "fn")
    return not name.startswith("_") and described and bool(value.__doc__)


def run_example(name: str, public: object) -> None:
    """Run the example in the docstring of a public name; it must give what it shows."""
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    example = doctest.DocTestParser().get_doctest(public.__doc__ or "", {}, f"errata.{name}", None, None)
    assert example.examples, f"errata.{name} has no example"
    assert runner.run(example).failed == 0
