"""Prepared arrays kept as .npy files, so that a dataset is parsed and prepared once.

`seen.json` says which content the files on disk hold, by their names, sizes and times; the arrays lie in a folder named
by that content and by the code that prepared them.
"""

import contextlib
import hashlib
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from errata.datasets.spec import Arrays
from errata.datasets.where import cache_dir
from errata.dynamics.files import replace_atomically

SEEN, ABOUT = "seen.json", "about.json"


class PreparedCache:
    """What was prepared of one dataset before."""

    def __init__(self, name: str) -> None:
        self._folder = cache_dir() / "prepared" / name

    def content_of(self, stamp: Any) -> str | None:
        """The content hash of files with that stamp, if they were read before by this code."""
        seen = self._seen()
        return seen.get(_key(stamp))

    def load(self, content: str) -> tuple[Arrays, dict[str, Any]] | None:
        """The arrays of that content, memory-mapped, and what is said about them; None if they are not kept."""
        folder = self._place(content)
        try:
            about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
            arrays = {name: np.load(folder / file, mmap_mode="r") for name, file in about["arrays"].items()}
        except (OSError, ValueError, KeyError, TypeError):  # not as it was left: it is made again
            return None
        return arrays, about

    def save(self, stamp: Any, content: str, arrays: Arrays, about: dict[str, Any]) -> None:
        """Keep arrays, whole or not at all."""
        self._folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            files = {name: f"{name.replace(':', '-')}.npy" for name in arrays}
            for name, file in files.items():
                np.save(scratch / file, arrays[name], allow_pickle=False)
            (scratch / ABOUT).write_text(json.dumps(about | {"arrays": files}), encoding="utf-8")
            place = self._place(content)
            shutil.rmtree(place, ignore_errors=True)
            with contextlib.suppress(OSError):  # somebody else was faster: theirs is the same
                scratch.rename(place)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        seen = self._seen() | {_key(stamp): content}
        replace_atomically(self._folder / SEEN, lambda file: file.write(json.dumps(seen, indent=1).encode()))

    def _place(self, content: str) -> Path:
        return self._folder / f"{content[:24]}-{code_version()}"

    def _seen(self) -> dict[str, str]:
        try:
            seen: dict[str, str] = json.loads((self._folder / SEEN).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return seen


@cache
def code_version() -> str:
    """A hash of the code that reads and prepares: when it changes, everything is prepared again."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _key(stamp: Any) -> str:
    return hashlib.sha256(json.dumps([stamp, code_version()]).encode()).hexdigest()
