"""What `errata.find` reads: recorded dynamics, or labelled data to train on."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from errata.dynamics.files import MANIFEST
from errata.dynamics.reading import holds_logits, read_npy, read_npz
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.readers import UserData, open_data
from errata.readers.merged_labels import merge_labels


@dataclass(frozen=True, eq=False)
class DataSource:
    """A path or an object in memory, and which of its columns or arrays hold labels, text and ids, or are ignored.

    merge_labels: labels that differ only in spaces and capitals are one class.
    """

    source: Any
    label: Any = None
    text: str | Sequence[str] | None = None
    id: Any = None
    skip_bad: bool = False
    ignore: str | Sequence[str] | None = None
    merge_labels: bool = False

    @classmethod
    def from_summary(cls, summary: dict[str, Any], folder: Path) -> "DataSource | None":
        """The source that a summary.json in `folder` names, or None."""
        stored = summary.get("source")
        if stored is None:
            return None
        columns = {name: stored.get(name) for name in ("label", "text", "id", "ignore")}
        return cls(
            folder / stored["path"],
            skip_bad=stored["skip_bad"],
            merge_labels=stored.get("merge_labels", False),
            **columns,
        )

    @property
    def path(self) -> Path | None:
        """The path of a file or folder; None for objects in memory."""
        return Path(self.source).expanduser() if isinstance(self.source, str | Path) else None

    def for_summary(self, folder: Path) -> dict[str, Any] | None:
        """The entry for summary.json, with the path relative to `folder`; None unless all parts are names."""
        if self.path is None or not all(isinstance(name, str | None) for name in (self.label, self.id)):
            return None
        text, ignore = (names if isinstance(names, str | None) else list(names) for names in (self.text, self.ignore))
        names = {"label": self.label, "text": text, "id": self.id, "ignore": ignore}
        return {
            "path": os.path.relpath(self.path, folder),
            **names,
            "skip_bad": self.skip_bad,
            "merge_labels": self.merge_labels,
        }

    def open(self) -> UserData | Dynamics:
        """Dynamics if the source holds recorded logits, otherwise labelled data."""
        recorded = self.source if isinstance(self.source, Dynamics) else None
        if recorded is None and self.path is not None:
            recorded = self._logits_in_file(self.path)
        if recorded is not None:
            if self.merge_labels:
                raise InputError("`merge_labels=` needs data to train on: the classes of recorded logits are fixed")
            return recorded
        data = open_data(
            self.source, self.label, text=self.text, id=self.id, ignore=self.ignore, skip_bad=self.skip_bad
        )
        return merge_labels(data) if self.merge_labels else data

    def _logits_in_file(self, path: Path) -> Dynamics | None:
        """The recorded logits; None if the file or folder holds inputs, as the shapes in a .npy file show."""
        if (path / MANIFEST).is_file():
            return Dynamics.open(path)
        if path.suffix.lower() == ".npz" and path.is_file() and holds_logits(path):
            return read_npz(path)
        if path.suffix.lower() != ".npy" or not path.is_file() or self.label is None:
            return None
        if isinstance(self.label, str | Path) and not Path(self.label).is_file():
            return None
        return read_npy(path, self.label)

    def reopen(self) -> UserData | Dynamics:
        """Read the data of an earlier run again."""
        if self.path is not None and not self.path.exists():
            raise InputError(f"the data were read from {self.path}, which no longer exists: pass `data=`")
        return self.open()
