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


@dataclass(frozen=True, eq=False)
class DataSource:
    """A path or an object in memory, and which of its columns or arrays hold labels, text and ids."""

    source: Any
    label: Any = None
    text: str | Sequence[str] | None = None
    id: Any = None
    skip_bad: bool = False

    @classmethod
    def from_summary(cls, summary: dict[str, Any], folder: Path) -> "DataSource | None":
        """The source that a summary.json in `folder` names, or None."""
        stored = summary.get("source")
        if stored is None:
            return None
        return cls(folder / stored["path"], stored["label"], stored["text"], stored["id"], stored["skip_bad"])

    @property
    def path(self) -> Path | None:
        """The path of a file or folder; None for objects in memory."""
        return Path(self.source).expanduser() if isinstance(self.source, str | Path) else None

    def for_summary(self, folder: Path) -> dict[str, Any] | None:
        """The entry for summary.json, with the path relative to `folder`; None unless all parts are names."""
        if self.path is None or not all(isinstance(name, str | None) for name in (self.label, self.id)):
            return None
        text = self.text if isinstance(self.text, str | None) else list(self.text)
        path = os.path.relpath(self.path, folder)
        return {"path": path, "label": self.label, "text": text, "id": self.id, "skip_bad": self.skip_bad}

    def open(self) -> UserData | Dynamics:
        """Read the data or the dynamics."""
        return open_source(self.source, self.label, self.text, self.id, self.skip_bad)

    def reopen(self) -> UserData | Dynamics:
        """Read the data of an earlier run again."""
        if self.path is not None and not self.path.exists():
            raise InputError(f"the data were read from {self.path}, which no longer exists: pass `data=`")
        return self.open()


def open_source(
    source: Any,
    label: Any = None,
    text: Any = None,
    id: Any = None,  # noqa: A002
    skip_bad: bool = False,
) -> UserData | Dynamics:
    """Dynamics if the source holds recorded logits, otherwise labelled data."""
    if isinstance(source, Dynamics):
        return source
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        if (path / MANIFEST).is_file():
            return Dynamics.open(path)
        if path.suffix.lower() == ".npz" and path.is_file() and holds_logits(path):
            return read_npz(path)
        logits = _logits_in_npy(path, label)
        if logits is not None:
            return logits
    return open_data(source, label, text=text, id=id, skip_bad=skip_bad)


def _logits_in_npy(path: Path, label: Any) -> Dynamics | None:
    """The logits in a .npy file with their labels in another; None if the shapes show that the file holds inputs."""
    if path.suffix.lower() != ".npy" or not path.is_file() or label is None:
        return None
    if isinstance(label, str | Path) and not Path(label).is_file():
        return None
    return read_npy(path, label)
