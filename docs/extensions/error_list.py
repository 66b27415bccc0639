"""The page of all error messages, from the `raise` statements in the source. error_advice.toml says what to do."""

import ast
import re
import tomllib
from pathlib import Path

ERRORS = ("InputError", "StoreError", "LockedError", "DataError", "MissingDataError")
ADVICE = tomllib.loads((Path(__file__).parent / "error_advice.toml").read_text(encoding="utf-8"))
PARTS, FREQUENT = ADVICE["part"], ADVICE["frequent"]
MODULES = {module: part["title"] for part in PARTS for module in part["modules"]}
UNKNOWN = "…"
UNNAMED = re.compile("error|text|hint|header|repr|more|^_")  # these names say nothing about the value
WORD = re.compile(r"\b[a-z]{2,}\b")
VALUE = re.compile("⟨(.*?)⟩")  # how a value in a message is marked
VALUES = re.compile("(⟨.*?⟩|…)(?:⟨.*?⟩|…)+")  # values without anything between them

BEGIN = """# Error messages

errata checks its input before work starts. Each error is one sentence that says what is wrong, and where. In Python it
is an `errata.InputError` (also a `ValueError`) or an `errata.StoreError` (also an `OSError`); both are an
`errata.ErrataError`. On the command line it is one line on standard error, and Python parameters (`id=`) are shown as
options (`--id`).

This page is made from the source. Words in italics and … stand for values, such as names, numbers and paths. Each part
begins with what to do; most messages also say it themselves. To find a message, search this page for some of its words.

## The most frequent messages

| message | what to do |
|---|---|
"""


def messages(source: Path) -> dict[str, list[str]]:
    """The messages of each part, without repetitions."""
    found: dict[str, dict[str, None]] = {part["title"]: {} for part in PARTS}
    for file in sorted(source.rglob("*.py")):
        module = ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        tree = ast.parse(file.read_text(encoding="utf-8"))
        texts = {
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in ERRORS:
                for text in _texts(node.args[0], texts):
                    if len(WORD.findall(VALUE.sub("", text))) > 1:  # otherwise it repeats the message of another error
                        found[part_of(module)][text] = None
    return {title: list(texts) for title, texts in found.items()}


def part_of(module: str) -> str:
    """The title of the part for a module such as `readers.formats.csv_files`."""
    names = [name for name in MODULES if module == name or module.startswith(f"{name}.")]
    return MODULES[max(names, key=len)]


def _texts(node: ast.expr, assigned: dict[str, ast.expr]) -> list[str]:
    """The texts that an expression may have, with ⟨names⟩ of values."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        texts = [""]
        for part in node.values:
            ends = _texts(part, assigned) if isinstance(part, ast.Constant) else [_value(part)]
            texts = [
                text + (UNKNOWN if text[-1:].isalpha() and VALUE.match(end) else end) for text in texts for end in ends
            ]
        return texts
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = (_texts(side, assigned) or [UNKNOWN] for side in (node.left, node.right))
        return [first + second for first in left for second in right]
    if isinstance(node, ast.IfExp):
        return _texts(node.body, assigned) + _texts(node.orelse, assigned)
    if isinstance(node, ast.BoolOp):
        return [text for value in node.values for text in _texts(value, assigned)]
    if isinstance(node, ast.Name) and node.id in assigned:
        return _texts(assigned.pop(node.id), assigned)
    return []


def _value(node: ast.expr) -> str:
    """A ⟨name⟩ for a value in a message: the last name of the expression that computes it."""
    match node:
        case ast.FormattedValue(value=value) | ast.Subscript(value=value):
            return _value(value)
        case ast.Name(id=name) | ast.Attribute(attr=name) if len(name) > 2 and not UNNAMED.search(name):
            return f"⟨{name.strip('_').lower().replace('_', ' ')}⟩"
        case ast.Call(func=ast.Name(id="len")):
            return "⟨number⟩"
        case ast.Call(args=[value, *_]):
            return _value(value)
    return UNKNOWN


def page(source: Path) -> str:
    """The page in Markdown."""
    found = messages(source)
    every = {text for texts in found.values() for text in texts}
    lines = []
    for frequent in FREQUENT:
        text = next((text for text in every if frequent["message"] in shown(text)), None)
        if text is None:
            raise ValueError(f"error_advice.toml: no message contains {frequent['message']!r}")
        lines.append(f"| {shown(text)} | {frequent['advice']} |")
    for part in PARTS:
        texts = sorted(found[part["title"]], key=lambda text: re.sub(r"⟨.*?⟩|[^a-z ]", "", text).strip())
        lines += ["", f"## {part['title']}", "", f"**What to do.** {part['advice']}", ""]
        lines += [f"- {shown(text)}" for text in texts]
    return BEGIN + "\n".join(lines) + "\n"


def shown(text: str) -> str:
    """The text in Markdown: values in italics, `code` as code, and other special characters as they are."""
    parts = re.split(r"(`[^`]*`)", VALUES.sub(r"\1", " ".join(text.split())))
    for place, part in enumerate(parts):
        if place % 2:  # code
            parts[place] = VALUE.sub(lambda value: value[1].upper(), part)
        else:
            parts[place] = VALUE.sub(r"*\1*", re.sub(r"([\\*_\[\]<>|$~#])", r"\\\1", part))
    return "".join(parts)
