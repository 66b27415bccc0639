"""All datasets and settings: those of `errata.datasets.sets`, and those of other packages.

A module defines a `DATASET`, or several `DATASETS`. Another package adds a module with an entry point in the group
`errata.datasets`.
"""

import warnings
from collections.abc import Mapping
from functools import cache
from typing import TypeVar

from errata.datasets import sets
from errata.datasets.spec import Dataset, Setting
from errata.discovery import component_modules
from errata.errors import InputError
from errata.wording import nearest

GROUP = "errata.datasets"
Item = TypeVar("Item")


@cache
def datasets() -> dict[str, Dataset]:
    """All datasets by name."""
    by_name: dict[str, Dataset] = {}
    for module in component_modules(sets, GROUP):
        found = getattr(module, "DATASETS", None) or [getattr(module, "DATASET", None)]
        usable = {one.name: one for one in found if isinstance(one, Dataset) and one.name not in by_name}
        if len(usable) == len(found):
            by_name |= usable
        else:
            warnings.warn(f"{module} is ignored: it must define a DATASET with a name of its own", stacklevel=2)
    return by_name


def dataset(name: str) -> Dataset:
    """The dataset of that name."""
    return _find("dataset", name, datasets())


@cache
def settings() -> dict[str, Setting]:
    """All settings by name."""
    return {setting.name: setting for dataset in datasets().values() for setting in dataset.settings}


def setting(name: str) -> Setting:
    """The setting of that name."""
    return _find("setting", name, settings())


def _find(what: str, name: str, known: Mapping[str, Item]) -> Item:
    if name not in known:
        near = nearest(name, known)
        hint = f"Did you mean {near!r}?" if near else f"Available: {', '.join(known)}"
        raise InputError(f"Unknown {what} {name!r}. {hint}")
    return known[name]
