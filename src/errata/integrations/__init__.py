"""Recorders for training frameworks, one file per framework: `from errata.integrations import KerasRecorder`.

A recorder's file is imported when its name is first used, so a framework has to be installed only by those who use it.
Other packages add a recorder with an entry point in the group `errata.integrations`.
Imported by users, and by `errata.training` and the packages above it. Imports `errata.dynamics` and `errata.core`.
"""

import re
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any


def _find_recorders() -> dict[str, str]:
    """The module of each recorder class. The files are read, not imported: importing needs all the frameworks."""
    return {
        name: file.stem
        for file in sorted(Path(__file__).parent.glob("*.py"))
        for name in re.findall(r"^class ([A-Z]\w*Recorder)\b", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }


_MODULES = _find_recorders()
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"errata.integrations.{_MODULES[name]}"), name)
    outside = _entry_points()
    if name in outside:
        return outside[name].load()
    raise AttributeError(f"module 'errata.integrations' has no attribute {name!r}; it has {', '.join(__dir__())}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_entry_points()])


def _entry_points() -> dict[str, EntryPoint]:
    """The recorders that installed packages add, by name."""
    return {point.name: point for point in entry_points(group="errata.integrations")}
