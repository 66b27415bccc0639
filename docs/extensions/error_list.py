"""The page of all error messages, from the `raise` statements in the source. error_advice.toml says what to do."""

import re
import tomllib
from pathlib import Path

from error_texts import VALUE, Source

ADVICE = tomllib.loads((Path(__file__).parent / "error_advice.toml").read_text(encoding="utf-8"))
PARTS, FREQUENT = ADVICE["part"], ADVICE["frequent"]
MODULES = {module: part["title"] for part in PARTS for module in part["modules"]}
VALUES = re.compile("(⟨.*?⟩|…)(?:⟨.*?⟩|…)+")  # values without anything between them

BEGIN = """# Error messages

errata checks its input before work starts. Each error is one sentence that says what is wrong, and where. In Python it
is an `errata.InputError` (also a `ValueError`) or an `errata.StoreError` (also an `OSError`); both are an
`errata.ErrataError`. On the command line it is one line on standard error, and Python parameters (`id=`) are shown as
options (`--id`). A command that is typed wrongly (an unknown option, a missing argument) prints its usage and the
reason instead, in several lines.

This page is made from the source. Words in italics and … stand for values, such as names, numbers and paths. Each part
begins with what to do; most messages also say it themselves. The name of a file may stand before a message. To find a
message, search this page for some of its words. Messages of the operating system, such as `notes.txt: File exists`, are
not listed.

## The most frequent messages

| message | what to do |
|---|---|
"""


def messages(source: Path) -> dict[str, list[str]]:
    """The messages of each part, without repetitions."""
    found: dict[str, dict[str, None]] = {part["title"]: {} for part in PARTS}
    for file, text in Source(source).messages():
        if text in ADVICE["quoted"]:
            continue
        module = ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        found[part_of(module)][text] = None
    return {title: list(texts) for title, texts in found.items()}


def part_of(module: str) -> str:
    """The title of the part for a module such as `readers.formats.csv_files`."""
    names = [name for name in MODULES if module == name or module.startswith(f"{name}.")]
    return MODULES[max(names, key=len)]


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
