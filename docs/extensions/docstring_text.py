"""Docstrings are plain text: `scores_` is a name, not a link, and a line such as `label: ...` describes a parameter."""

import inspect
import re
from typing import Any

from sphinx.application import Sphinx

DESCRIPTION = re.compile(r"(?P<names>\w+(?:, \w+)*): (?P<text>.*)")


def parameters(obj: Any) -> set[str]:
    """The names of the parameters of a function or of the fields of a class."""
    try:
        return set(inspect.signature(obj).parameters)
    except (TypeError, ValueError):  # a module or a property has no signature
        return set()


def as_markup(lines: list[str], names: set[str]) -> list[str]:
    """The lines of a docstring as reStructuredText; examples stay as they are."""
    result: list[str] = []
    example = listed = False
    for line in lines:
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if example or not line.strip():
            listed = False
            result.append(line)
            continue
        described = DESCRIPTION.match(line)
        line = re.sub(r"(?<=\w)_(?=\W|$)", r"\\_", line)
        if described and set(described["names"].split(", ")) <= names:
            result += [] if listed or not result or not result[-1] else [""]
            head, _, text = line.partition(": ")
            result.append(f"* **{head}**: {text}")
            listed = True
        else:
            result.append(f"  {line}" if listed else line)
    return result


def rewrite(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Rewrite one docstring in place."""
    lines[:] = as_markup(lines, parameters(obj))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("autodoc-process-docstring", rewrite)
    return {"parallel_read_safe": True}
