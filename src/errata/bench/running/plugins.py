"""The methods that third-party modules add to every cell of the benchmark: the names in their `METHODS`."""

from collections.abc import Iterable
from pathlib import Path

from errata.core.method_registry import load_file, load_plugins
from errata.core.methods import parse
from errata.errors import InputError


def plugin_methods(files: Iterable[Path] = ()) -> tuple[str, ...]:
    """Load the files and every installed plugin; the methods that they list. A file must list one or more."""
    listed = {f"the plugin {name!r}": getattr(module, "METHODS", ()) for name, module in load_plugins().items()}
    for file in files:
        listed[str(file)] = getattr(load_file(Path(file)), "METHODS", ())
        if not listed[str(file)]:
            raise InputError(f"{file} has no METHODS, a list of the names of methods to run")
    names: list[str] = []
    for where, methods in listed.items():
        try:
            names += [parse(name).name for name in methods]
        except InputError as error:
            raise InputError(f"METHODS of {where}: {error}") from error
    return tuple(dict.fromkeys(names))
