"""Docstrings are plain text: `scores_` is a name, not a link."""

import re
from typing import Any

from sphinx.application import Sphinx


def escape(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape the underscore at the end of a word, except in examples."""
    code = False
    for number, line in enumerate(lines):
        code = line.lstrip().startswith(">>>") or (code and bool(line.strip()))
        if not code:
            lines[number] = re.sub(r"(?<=\w)_(?=\W|$)", r"\\_", line)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("autodoc-process-docstring", escape)
    return {"parallel_read_safe": True}
