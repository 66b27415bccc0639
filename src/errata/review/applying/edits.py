"""The samples of a source as `errata find` knows them, and what is to be done to its rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.review.applying.decisions import Decision

Advance = Callable[[int], object]


@dataclass(frozen=True, eq=False)
class Samples:
    """N labelled samples. ids (N,) as text, labels (N,) as given, rows (N,): the row of the source that each is."""

    ids: list[str]
    labels: list[Any]
    rows: list[int]
    classes: tuple[Any, ...]


@dataclass(frozen=True)
class Change:
    """A row that gets another label.

    donor: a row that has the new label already, so that it can be written the same way; None for a class that is new.
    """

    row: int
    before: Any
    after: Any
    donor: int | None
    decision: Decision


@dataclass(frozen=True)
class Edits:
    """What is done to the rows of a source: those that change get another label, or are left out with `drop`."""

    changes: tuple[Change, ...]
    drop: bool

    @property
    def relabelled(self) -> dict[int, Change]:
        """The rows that get another label."""
        return {} if self.drop else {change.row: change for change in self.changes}

    @property
    def dropped(self) -> frozenset[int]:
        """The rows that are left out."""
        return frozenset(change.row for change in self.changes) if self.drop else frozenset()

    @property
    def fresh(self) -> list[Any]:
        """The classes that are new, each once."""
        return list(dict.fromkeys(change.after for change in self.relabelled.values() if change.donor is None))

    def kept(self, rows: int) -> NDArray[np.bool_]:
        """Where (rows,) a row stays."""
        mask = np.ones(rows, dtype=np.bool_)
        mask[list(self.dropped)] = False
        return mask

    def taken(self, rows: int) -> NDArray[np.int64]:
        """Whose label each row (rows,) has from now on: its own, a donor's, or beyond `rows` one of the new classes."""
        beyond = {value: rows + place for place, value in enumerate(self.fresh)}
        places = np.arange(rows)
        for row, change in self.relabelled.items():
            places[row] = beyond[change.after] if change.donor is None else change.donor
        return places


@dataclass(frozen=True, eq=False)
class Original(ABC):
    """A source that can be copied with other labels. path: what is copied, and what the copy is named after."""

    path: Path
    samples: Samples

    @abstractmethod
    def check(self, edits: Edits) -> None:
        """Refuse what cannot be written, before anything is."""

    @abstractmethod
    def write(self, edits: Edits, target: Path, advance: Advance) -> list[str]:
        """Write the copy to `target`, whole or not at all; returns what should be known of it."""

    @property
    def files(self) -> int:
        """How many files are copied; where there are several, `advance` is told of each."""
        return 1

    def new_ids(self, edits: Edits) -> dict[str, str]:
        """The ids that samples have in the copy, where these are others than before."""
        return {}
