"""Methods from outside the package: modules that register an aggregation or a measure, and name what is to be run.

A plugin is a module with `METHODS`, a list of names in the grammar. It is found by the entry point group
`errata.methods` of an installed package, or given as a file.
"""

import importlib.util
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from errata.core.methods import parse
from errata.errors import InputError

GROUP = "errata.methods"


def plugin_methods(files: Iterable[Path] = ()) -> tuple[str, ...]:
    """Load every installed plugin and the files given; the names of their methods."""
    installed = [(entry.load(), f"the plugin {entry.name}") for entry in entry_points(group=GROUP)]
    given = [(_load(Path(file)), str(file)) for file in files]
    names = [name for module, where in (*installed, *given) for name in _named(module, where)]
    return tuple(dict.fromkeys(names))


def _named(module: ModuleType, where: str) -> list[str]:
    methods = getattr(module, "METHODS", None)
    if not isinstance(methods, list | tuple) or not methods:
        raise InputError(f"{where} has no METHODS, a list of the names it brings")
    return [parse(name).name for name in methods]


def _load(file: Path) -> ModuleType:
    name = f"errata_plugin_{file.stem}"
    if name in sys.modules:  # its classes are registered once
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
