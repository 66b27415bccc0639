"""The base class of all writers, and the edits that they apply."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.review.decisions import Decision

Progress = Callable[[int], object]
LabelKey = tuple[type, Any]


def label_key(label: Any) -> LabelKey:
    """A key for dictionaries in which 1, 1.0 and True are different labels."""
    return type(label), label


@dataclass(frozen=True, eq=False)
class LabelledSamples:
    """N labelled samples: ids (N,) as text, labels (N,) in their own type, rows (N,) of the source, and the classes."""

    ids: list[str]
    labels: list[Any]
    rows: list[int]
    classes: tuple[Any, ...]


@dataclass(frozen=True)
class LabelEdit:
    """A row whose label changes.

    example: a row that has the new label already, so that the label is written in the same way. None for a new class.
    """

    row: int
    before: Any
    after: Any
    example: int | None
    decision: Decision

    @property
    def label_key(self) -> "LabelKey":
        """Identifies the new label: 1, 1.0 and True are equal, but different labels."""
        return label_key(self.after)


@dataclass(frozen=True)
class LabelEdits:
    """All edits of a source. drop: the rows are removed instead of relabelled."""

    entries: tuple[LabelEdit, ...]
    drop: bool

    @property
    def relabelled(self) -> tuple[LabelEdit, ...]:
        """The edits that write a new label: none with `drop`."""
        return () if self.drop else self.entries

    @property
    def with_new_class(self) -> list[LabelEdit]:
        """The first edit of each class that no sample had before."""
        return list({edit.label_key: edit for edit in reversed(self.relabelled) if edit.example is None}.values())[::-1]

    @property
    def new_classes(self) -> list[Any]:
        """The labels that no sample had before, without repetition."""
        return [edit.after for edit in self.with_new_class]

    def rows_to_keep(self, rows: int) -> NDArray[np.bool_]:
        """Mask (rows,) of the rows that the copy contains."""
        mask = np.ones(rows, dtype=np.bool_)
        mask[[edit.row for edit in self.entries if self.drop]] = False
        return mask

    def label_rows(self, rows: int) -> NDArray[np.int64]:
        """The row (rows,) from which each row takes its label. From `rows` on, they index `new_classes`."""
        new_rows = {edit.label_key: rows + number for number, edit in enumerate(self.with_new_class)}
        label_rows = np.arange(rows)
        for edit in self.relabelled:
            label_rows[edit.row] = new_rows[edit.label_key] if edit.example is None else edit.example
        return label_rows


@dataclass(frozen=True, eq=False)
class LabelWriter(ABC):
    """Copies one file or folder with changed labels. path: the original, which is only read."""

    path: Path
    samples: LabelledSamples

    @property
    def file_count(self) -> int:
        """How many files are copied."""
        return 1

    @property
    def labels_are(self) -> str:
        """Where the labels are, and their type: `column 'kind' of data.parquet has the type int64`."""
        return f"{self.path} contains text"

    def read_label(self, text: str) -> Any:
        """The label that a text in decisions.csv stands for, in the type of the labels; None if they cannot hold it."""
        return text

    def check(self, edits: LabelEdits) -> None:  # noqa: B027
        """Raise InputError if the copy cannot be written with these edits. Writes nothing."""

    @abstractmethod
    def write(self, edits: LabelEdits, target: Path, progress: Progress) -> list[str]:
        """Write the copy to `target`, in a folder that is deleted if this fails. Returns remarks for the user."""

    def new_ids(self, edits: LabelEdits) -> dict[str, str]:
        """The ids that differ in the copy, by the id in the original."""
        return {}


# A class or function that returns the writer for a file. Arguments: the path, the samples, and the name of the column
# or array with the labels (None if the user did not pass one).
WriterFactory = Callable[[Path, LabelledSamples, Any], LabelWriter]
