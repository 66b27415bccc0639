"""A table for display, independent of the output format, together with its unrounded numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

MISSING = "–"
INCOMPLETE = "†"


@dataclass(frozen=True)
class TableEntry:
    """One entry of a table: its text, and the number to sort by, if there is one."""

    text: str
    value: float | None = None
    bold: bool = False
    underline: bool = False


@dataclass(frozen=True, eq=False)
class ResultTable:
    """Rows of entries under named columns.

    numbers: the unrounded values in tidy form. labels: how many of the first columns name a row. rules: rows that start
    a group. notes: lines below the table, such as why entries are missing.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[TableEntry, ...], ...]
    numbers: "pd.DataFrame"
    labels: int = 1
    rules: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()

    @property
    def frame(self) -> "pd.DataFrame":
        """The texts of the entries."""
        import pandas as pd

        return pd.DataFrame([[entry.text for entry in row] for row in self.rows], columns=list(self.columns))


def from_frame(
    frame: "pd.DataFrame",
    title: str,
    *,
    labels: int = 1,
    digits: Mapping[str, int] | None = None,
    rules: Iterable[int] = (),
    notes: Sequence[str] = (),
    numbers: "pd.DataFrame | None" = None,
) -> ResultTable:
    """A table of plain values or entries. digits: by column, the number of decimal places."""
    decimals = digits or {}
    rows = tuple(
        tuple(_entry(value, decimals.get(str(column))) for column, value in zip(frame.columns, row, strict=True))
        for row in frame.itertuples(index=False)
    )
    return ResultTable(
        title=title,
        columns=tuple(map(str, frame.columns)),
        rows=rows,
        numbers=frame if numbers is None else numbers,
        labels=labels,
        rules=frozenset(rules),
        notes=tuple(notes),
    )


def _entry(value: Any, digits: int | None) -> TableEntry:
    import pandas as pd

    if isinstance(value, TableEntry):
        return value
    if isinstance(value, str):
        return TableEntry(value)
    if pd.isna(value):
        return TableEntry(MISSING)
    if pd.api.types.is_bool(value):
        return TableEntry("yes" if value else "no", float(value))
    if pd.api.types.is_integer(value):
        return TableEntry(f"{value:,}", float(value))
    return TableEntry(f"{value:g}" if digits is None else f"{value:z.{digits}f}", float(value))


def mark_incomplete(text: str, complete: bool) -> str:
    """The text, with a dagger if the data was incomplete."""
    return text if complete else f"{text} {INCOMPLETE}"


def group_starts(values: Iterable[object]) -> list[int]:
    """The rows, without the first, whose value differs from the row before."""
    listed = list(values)
    return [row for row in range(1, len(listed)) if listed[row] != listed[row - 1]]
