"""The registry of the parts that method names are made of, and the one place that loads third-party parts.

There are four kinds: measures, aggregations, steps and detectors. All register with the decorator `register`. Python
packages add their own through the entry point group `errata.methods`, whose entries name modules that register parts
when they are imported. These modules are loaded when a name is not known yet, or when all parts are listed.
"""

import importlib
import importlib.util
import pkgutil
import re
import sys
import warnings
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar, get_args

from errata.errors import InputError

Kind = Literal["measure", "aggregation", "step", "detector"]
ENTRY_POINTS = "errata.methods"
RESERVED = "default"

_parts: dict[Kind, dict[str, Any]] = {kind: {} for kind in get_args(Kind)}
_plugins: dict[str, ModuleType] | None = None


Part = TypeVar("Part")


def register(part: Part) -> Part:
    """Add a Measure, or a subclass of Aggregation, ProbabilityStep or Detector, under its name; a decorator.

    A name that another part has is refused, in upper or lower case and whatever the kind. Running the same definition
    again, as in a notebook, replaces the part.
    """
    new: Any = part
    if not _origin(part)[0].startswith("errata.core."):
        _load_built_in()
    name: str = new.registered_name
    if not re.fullmatch(r"[A-Za-z]\w*", name) or name.lower() == RESERVED:
        raise InputError(f"{name!r} cannot name a part of a method: use letters, digits and _, but not {RESERVED!r}")
    for kind, parts in _parts.items():
        known = next((known for known in parts if known.lower() == name.lower()), None)
        if known is not None and (kind != new.kind or _origin(parts[known]) != _origin(part)):
            where = " in ".join(_origin(parts[known])[::-1])
            raise InputError(f"cannot register the {new.kind} {name}: {where} is registered as the {kind} {known}")
    _parts[new.kind][name] = part
    return part


def registered(kind: Kind) -> dict[str, Any]:
    """Every part of a kind by name, built-in ones first, those of installed packages included."""
    _load_built_in()
    load_plugins()
    return dict(_parts[kind])


def find_part(kind: Kind, name: str) -> Any:
    """The part of that name, in any case; None if there is none."""
    for load in (_load_built_in, load_plugins):  # plugins are searched only for other names
        load()
        for known, part in _parts[kind].items():
            if known.lower() == name.lower():
                return part
    return None


def load_plugins() -> dict[str, ModuleType]:
    """The modules of all entry points by name, imported once. One that fails is left out, with a warning."""
    global _plugins
    if _plugins is None:
        _plugins = {}  # a plugin that lists methods while it is imported does not start again
        for entry in entry_points(group=ENTRY_POINTS):
            before = {kind: dict(parts) for kind, parts in _parts.items()}
            try:
                _plugins[entry.name] = entry.load()
            except Exception as error:
                _parts.update(before)
                warnings.warn(
                    f"the methods of the plugin {entry.name!r} ({entry.value}) are not available: "
                    f"{type(error).__name__}: {error}",
                    stacklevel=2,
                )
    return _plugins


@cache
def _load_built_in() -> None:
    """Import every public module of errata.core, so that all of errata's own parts are registered."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if not module.name.startswith("_"):
            importlib.import_module(f"errata.core.{module.name}")


def load_file(file: Path) -> ModuleType:
    """Import a Python file that registers parts; a file that is loaded already is not run again."""
    name = f"errata_plugin_{file.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise InputError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _origin(part: Any) -> tuple[str, str]:
    """The module and the name that define a part."""
    definition = getattr(part, "formula", part)
    return definition.__module__, definition.__qualname__
