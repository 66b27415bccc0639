"""The registry of file types.

A module of `formats` has a dictionary `TABLE_READERS` or `ARRAY_READERS` from file suffixes to functions. Another
package adds file types with an entry point in the group `errata.readers` that refers to such a module.
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from errata.discovery import component_modules
from errata.errors import DataError, InputError
from errata.readers import formats
from errata.readers.file_access import regular_file
from errata.readers.user_data import UserData

if TYPE_CHECKING:
    import pandas as pd

GROUP = "errata.readers"


class TableContents(NamedTuple):
    """A table read from a file, remarks for the user, and whether `1,5` in it can be a number."""

    frame: "pd.DataFrame"
    remarks: Sequence[str] = ()
    decimal_comma: bool = False


TableReader = Callable[[Path], TableContents]
ArrayReader = Callable[[Path, Any, Any], UserData]  # takes the path, `label` and `id` as in `open_data`


@cache
def table_readers() -> dict[str, TableReader]:
    """The functions that read tables, by suffix."""
    return {suffix: read for module in _modules() for suffix, read in getattr(module, "TABLE_READERS", {}).items()}


@cache
def array_readers() -> dict[str, ArrayReader]:
    """The functions that read arrays, by suffix."""
    return {suffix: read for module in _modules() for suffix, read in getattr(module, "ARRAY_READERS", {}).items()}


@cache
def _modules() -> list[Any]:
    return component_modules(formats, GROUP)


def file_suffix(path: Path) -> str:
    """The suffix of an existing file, for example `.csv` or `.csv.gz`. Raise an error if no reader supports it."""
    regular_file(path)
    suffix = "".join(path.suffixes[-2:] if path.suffix.lower() == ".gz" else path.suffixes[-1:]).lower()
    supported = [*table_readers(), *array_readers()]
    if suffix not in supported:
        raise InputError(f"Unsupported file type {suffix!r}: {path}. Supported: {' '.join(supported)}, image folders")
    if not path.stat().st_size:
        raise DataError(f"{path} is empty")
    return suffix
