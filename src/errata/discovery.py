"""Discovery of components: modules in a package's folder, and modules that other packages register as entry points."""

import importlib
import pkgutil
import warnings
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from errata.wording import one_line


def component_modules(package: ModuleType, group: str) -> list[Any]:
    """Import every module of a package, in alphabetical order, and every entry point of a group."""
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return [importlib.import_module(f"{package.__name__}.{name}") for name in names] + load_entry_points(group)


def load_entry_points(group: str) -> list[Any]:
    """Load every entry point of a group. One that fails is skipped with a warning that names it."""
    loaded = []
    for entry in entry_points(group=group):
        try:
            loaded.append(entry.load())
        except Exception as error:  # code of another package
            warnings.warn(
                f"The entry point {entry.name!r} of the group {group!r} ({entry.value}) cannot be loaded "
                f"and is ignored: {one_line(error)}",
                stacklevel=2,
            )
    return loaded
