"""Every dataset and setting there is: the files of `errata.datasets.sets`, found by looking."""

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache

from errata.datasets import sets
from errata.datasets.settings import Setting
from errata.datasets.spec import Dataset
from errata.errors import InputError
from errata.wording import nearest


@cache
def datasets() -> dict[str, Dataset]:
    """All datasets by name."""
    modules = sorted(module.name for module in pkgutil.iter_modules(sets.__path__))
    found = [importlib.import_module(f"{sets.__name__}.{name}").DATASET for name in modules]
    return {dataset.name: dataset for dataset in found}


def dataset(name: str) -> Dataset:
    """The dataset of that name."""
    if name not in datasets():
        raise InputError(f"there is no dataset named {name!r}{_hint(name, datasets())}")
    return datasets()[name]


@cache
def settings() -> dict[str, Setting]:
    """All settings by name."""
    return {setting.name: setting for one in datasets().values() for setting in one.settings}


def setting(name: str) -> Setting:
    """The setting of that name."""
    if name not in settings():
        raise InputError(f"there is no setting named {name!r}{_hint(name, settings())}")
    return settings()[name]


def _hint(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else f"; there are {', '.join(known)}"
