"""Columns that no model was given, such as names and constants: a reviewer may know a sample by them."""

import reprlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.readers.user_data import UserData
from errata.report.shown_tables import ShownTable, is_number, text_of

if TYPE_CHECKING:
    import pandas as pd

UNLEARNED_SHOWN = 20
LONGEST_UNLEARNED = 500  # characters of one value: what was learned from needs the room
ALL_ALIKE = ("constant", "empty")  # reasons that leave nothing to tell samples apart by


def unlearned_of(data: UserData, places: NDArray[np.int64]) -> ShownTable:
    """What the rows at those places hold in columns that are left out of the training, and why these are.

    Columns whose values differ come first, otherwise in the order of the table.
    """
    reasons = data.left_out
    if not reasons:
        return ShownTable([], ([] for _ in places), [], [])
    names = sorted(reasons, key=lambda name: reasons[name] in ALL_ALIKE)[:UNLEARNED_SHOWN]
    few = f"Shown are {len(names)} of the {len(reasons):,} columns that were not learned from."
    shown = data.inputs[names]
    columns = [
        {"name": name, "text": False, "number": is_number(shown[name]), "unlearned": reasons[name]} for name in names
    ]
    return ShownTable(columns, _glimpses(shown.iloc[places]), [], [few] if len(names) < len(reasons) else [])


def _glimpses(shown: "pd.DataFrame") -> Iterator[list[str]]:
    for row in shown.itertuples(index=False, name=None):
        yield [_glimpse(value) for value in row]


def _glimpse(value: Any) -> str:
    """A value as it is read, a number digit by digit; of lists, objects and bytes the first items."""
    if isinstance(value, list | tuple | set | dict | bytes | np.ndarray):
        value = _FIRST_ITEMS.repr(value)
    return text_of(value, digits=15, longest=LONGEST_UNLEARNED)


class _FirstItems(reprlib.Repr):
    """Nested values, written without ever being written out: an image in a table takes no time."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 2
        self.maxlist = self.maxtuple = self.maxset = self.maxdict = 20
        self.maxstring = self.maxother = 100

    def repr_bytes(self, value: bytes, level: int) -> str:
        """How many there are."""
        return f"{len(value):,} bytes"

    def repr_ndarray(self, value: NDArray[Any], level: int) -> str:
        """As a list."""
        return self.repr_list(np.atleast_1d(value)[: self.maxlist + 1].tolist(), level)


_FIRST_ITEMS = _FirstItems()
