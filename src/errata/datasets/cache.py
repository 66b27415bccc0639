"""Prepared arrays kept as .npy files, so that a dataset is parsed and prepared once.

`seen.json` says what the files on disk hold, by their names, sizes and times; the arrays lie in a folder named by their
content, by what is said about it, and by the code that prepared them.
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

from errata.datasets.spec import Arrays
from errata.datasets.where import cache_dir
from errata.dynamics.files import replace_atomically

SEEN, ABOUT = "seen.json", "about.json"
NOT_OF_PREPARATION = {"own", "checks.py", "pictures.py", "download.py", "transfer.py", "archives.py"}


class Kept(NamedTuple):
    """Prepared arrays, the hash of the content they were made from, and what is said about it."""

    arrays: Arrays
    content: str
    about: dict[str, Any]


class PreparedCache:
    """What was prepared of one dataset before."""

    def __init__(self, name: str) -> None:
        self._folder = cache_dir() / "prepared" / name

    def find(self, stamp: Any) -> Kept | None:
        """What was made of files with that stamp by this code, memory-mapped; None if it is not kept, or damaged."""
        place = self._seen().get(_key(stamp))
        return None if place is None else self._load(self._folder / place)

    def save(self, stamp: Any, made: Kept) -> Kept:
        """Keep arrays, whole or not at all, and give them back mapped; where nothing can be written, as they are."""
        place = f"{_key([made.content, made.about])[:24]}-{code_version()}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if self._load(self._folder / place) is None:
                self._write(self._folder / place, made)
            seen = self._seen() | {_key(stamp): place}
            replace_atomically(self._folder / SEEN, lambda file: file.write(json.dumps(seen, indent=1).encode()))
            self._drop_older()
        except OSError as error:
            warnings.warn(
                f"prepared data cannot be kept in {self._folder}, so it is prepared each time: {error}", stacklevel=2
            )
        return self._load(self._folder / place) or made

    def _write(self, place: Path, made: Kept) -> None:
        scratch = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            files = {name: f"{name.replace(':', '-')}.npy" for name in made.arrays}
            for name, file in files.items():
                np.save(scratch / file, made.arrays[name], allow_pickle=False)
            about = {"content": made.content, "about": made.about, "arrays": files}
            (scratch / ABOUT).write_text(json.dumps(about), encoding="utf-8")
            if place.exists():  # it is there, but does not load
                shutil.rmtree(place, ignore_errors=True)
            with contextlib.suppress(OSError):  # another process was faster: what it left is the same
                scratch.rename(place)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _load(self, place: Path) -> Kept | None:
        try:
            kept = json.loads((place / ABOUT).read_text(encoding="utf-8"))
            arrays = {name: np.load(place / file, mmap_mode="r") for name, file in kept["arrays"].items()}
            return Kept(arrays, kept["content"], kept["about"])
        except (OSError, ValueError, KeyError, TypeError):  # not there, or not as it was left: it is made again
            return None

    def _drop_older(self) -> None:
        """Delete what other versions of the code prepared: nobody asks for it again."""
        for place in self._folder.glob("*-*/"):
            if not place.name.endswith(code_version()):
                shutil.rmtree(place, ignore_errors=True)

    def _seen(self) -> dict[str, str]:
        try:
            seen = json.loads((self._folder / SEEN).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return seen if isinstance(seen, dict) else {}


@cache
def code_version() -> str:
    """A hash of the code that reads and prepares, here and in the libraries: when it changes, all is prepared again."""
    digest = hashlib.sha256(" ".join(map(version, ("numpy", "scikit-learn"))).encode())
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        if path.relative_to(folder).parts[0] not in NOT_OF_PREPARATION:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _key(stamp: Any) -> str:
    return hashlib.sha256(json.dumps([stamp, code_version()], sort_keys=True).encode()).hexdigest()
