"""A cache of prepared datasets as .npy files.

The name of a folder of arrays holds a hash of the source files (paths, sizes, modification times) and a hash of the
code that prepared them.
"""

import contextlib
import hashlib
import json
import shutil
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from errata.datasets.locations import cache_dir
from errata.datasets.spec import Arrays

ABOUT = "about.json"
NOT_PREPARATION = {
    "dataset_checks.py",
    "noise_figures.py",
    "fetching.py",
    "openml_tables.py",
}  # modules that do not change the arrays
CODE_SUFFIXES = (".py", ".toml", ".txt")


class CachedArrays(NamedTuple):
    """Prepared arrays, the hash of the content they were prepared from, and their description."""

    arrays: Arrays
    content: str
    about: dict[str, Any]


def cached_arrays(dataset: str, stamp: Any, prepare: Callable[[], CachedArrays]) -> CachedArrays:
    """The arrays that this code prepared from files with this stamp, memory-mapped. They are prepared if needed.

    If writing fails, warn and return the arrays in memory.
    """
    key = hashlib.sha256(json.dumps(stamp).encode()).hexdigest()[:24]
    folder = cache_dir() / "prepared" / dataset / f"{key}-{code_version()}"
    cached = _read(folder)
    if cached is not None:
        return cached
    prepared = prepare()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _write(folder, prepared)
        for other in folder.parent.iterdir():
            if not other.name.endswith(code_version()):  # prepared by another version of the code
                shutil.rmtree(other, ignore_errors=True)
    except OSError as error:
        message = f"The prepared data cannot be cached in {folder.parent} and is prepared again next time: {error}"
        warnings.warn(message, stacklevel=2)
    return _read(folder) or prepared


def _read(folder: Path) -> CachedArrays | None:
    try:
        saved = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        arrays = {name: np.load(folder / file, mmap_mode="r") for name, file in saved["arrays"].items()}
        return CachedArrays(arrays, saved["content"], saved["about"])
    except (OSError, ValueError, KeyError, TypeError):  # absent or damaged: the data is prepared again
        return None


def _write(folder: Path, prepared: CachedArrays) -> None:
    """Write the arrays atomically."""
    scratch = Path(tempfile.mkdtemp(dir=folder.parent, suffix=code_version()))
    try:
        files = {name: f"{name.replace(':', '-')}.npy" for name in prepared.arrays}
        for name, file in files.items():
            np.save(scratch / file, prepared.arrays[name], allow_pickle=False)
        about = {"content": prepared.content, "about": prepared.about, "arrays": files}
        (scratch / ABOUT).write_text(json.dumps(about), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)  # a damaged copy, since it was not found
        with contextlib.suppress(OSError):  # another process has just written the same arrays
            scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@cache
def code_version() -> str:
    """A hash of the code that parses and prepares, readers included, and of the versions of numpy and scikit-learn."""
    digest = hashlib.sha256(" ".join(map(version, ("numpy", "scikit-learn"))).encode())
    folder = Path(__file__).parent
    for path in sorted([*folder.rglob("*.*"), *folder.with_name("readers").rglob("*.py")]):
        if path.suffix in CODE_SUFFIXES and path.name not in NOT_PREPARATION:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
