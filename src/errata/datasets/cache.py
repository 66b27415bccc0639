"""A cache of prepared datasets as .npy files.

`seen.json` maps a stamp of the source files (paths, sizes, modification times) to a folder of arrays. The folder's name
holds hashes of the content, of its description, and of the code that prepared it.
"""

import contextlib
import hashlib
import json
import shutil
import tempfile
import warnings
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from errata.datasets.locations import cache_dir
from errata.datasets.spec import Arrays
from errata.dynamics.files import replace_atomically

SEEN, ABOUT = "seen.json", "about.json"
NOT_PREPARATION = {"dataset_checks.py", "noise_figures.py", "fetching.py"}  # modules that do not change the arrays


class CachedArrays(NamedTuple):
    """Prepared arrays, the hash of the content they were prepared from, and their description."""

    arrays: Arrays
    content: str
    about: dict[str, Any]


class PreparedCache:
    """The cached arrays of one dataset."""

    def __init__(self, name: str) -> None:
        self._folder = cache_dir() / "prepared" / name

    def find(self, stamp: Any) -> CachedArrays | None:
        """The arrays that this code prepared from files with this stamp, memory-mapped; None if there are none."""
        name = self._seen().get(_key(stamp))
        return None if name is None else self._load(self._folder / name)

    def save(self, stamp: Any, prepared: CachedArrays) -> CachedArrays:
        """Write the arrays atomically and return them memory-mapped. If writing fails, warn and return `prepared`."""
        folder = self._folder / f"{_key([prepared.content, prepared.about])[:24]}-{code_version()}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if self._load(folder) is None:
                self._write(folder, prepared)
            seen = self._seen() | {_key(stamp): folder.name}
            replace_atomically(self._folder / SEEN, lambda file: file.write(json.dumps(seen, indent=1).encode()))
            self._drop_other_versions()
        except OSError as error:
            warnings.warn(
                f"The prepared data cannot be cached in {self._folder} and is prepared again next time: {error}",
                stacklevel=2,
            )
        return self._load(folder) or prepared

    def _write(self, folder: Path, prepared: CachedArrays) -> None:
        scratch = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            files = {name: f"{name.replace(':', '-')}.npy" for name in prepared.arrays}
            for name, file in files.items():
                np.save(scratch / file, prepared.arrays[name], allow_pickle=False)
            about = {"content": prepared.content, "about": prepared.about, "arrays": files}
            (scratch / ABOUT).write_text(json.dumps(about), encoding="utf-8")
            if folder.exists():  # a damaged copy, since it did not load
                shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # another process has just written the same arrays
                scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _load(self, folder: Path) -> CachedArrays | None:
        try:
            saved = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
            arrays = {name: np.load(folder / file, mmap_mode="r") for name, file in saved["arrays"].items()}
            return CachedArrays(arrays, saved["content"], saved["about"])
        except (OSError, ValueError, KeyError, TypeError):  # absent or damaged: the data is prepared again
            return None

    def _drop_other_versions(self) -> None:
        """Delete arrays that other versions of the code prepared."""
        for folder in self._folder.glob("*-*/"):
            if not folder.name.endswith(code_version()):
                shutil.rmtree(folder, ignore_errors=True)

    def _seen(self) -> dict[str, str]:
        try:
            seen = json.loads((self._folder / SEEN).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return seen if isinstance(seen, dict) else {}


@cache
def code_version() -> str:
    """A hash of the code that parses and prepares, and of the versions of numpy and scikit-learn."""
    digest = hashlib.sha256(" ".join(map(version, ("numpy", "scikit-learn"))).encode())
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        if path.relative_to(folder).parts[0] not in NOT_PREPARATION:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _key(stamp: Any) -> str:
    return hashlib.sha256(json.dumps([stamp, code_version()], sort_keys=True).encode()).hexdigest()
