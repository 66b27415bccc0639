"""A table as it is shown, apart from how it is rendered; the unrounded numbers go with it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

MISSING = "–"
INCOMPLETE = "†"


@dataclass(frozen=True)
class Entry:
    """One entry of a table: its text, and the number to sort by, if there is one."""

    text: str
    value: float | None = None
    bold: bool = False
    underline: bool = False


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of entries under named columns.

    numbers: what is behind it, tidy and not rounded. labels: how many of the first columns name a row. rules: the rows
    that begin a group. notes: what a reader has to know, such as why an entry is missing.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    numbers: "pd.DataFrame"
    labels: int = 1
    rules: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()

    @property
    def frame(self) -> "pd.DataFrame":
        """The texts, as wide as the table."""
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
) -> Table:
    """A table of plain values; `digits` after the point of the columns that are fractional, an `Entry` stays itself."""
    precise = digits or {}
    rows = tuple(
        tuple(_entry(value, precise.get(str(column))) for column, value in zip(frame.columns, row, strict=True))
        for row in frame.itertuples(index=False)
    )
    return Table(
        title=title,
        columns=tuple(map(str, frame.columns)),
        rows=rows,
        numbers=frame if numbers is None else numbers,
        labels=labels,
        rules=frozenset(rules),
        notes=tuple(notes),
    )


def _entry(value: Any, digits: int | None) -> Entry:
    import pandas as pd

    if isinstance(value, Entry):
        return value
    if isinstance(value, str):
        return Entry(value)
    if pd.isna(value):
        return Entry(MISSING)
    if pd.api.types.is_bool(value):
        return Entry("yes" if value else "no", float(value))
    if pd.api.types.is_integer(value):
        return Entry(f"{value:,}", float(value))
    return Entry(f"{value:g}" if digits is None else f"{value:z.{digits}f}", float(value))


def group_starts(values: Iterable[object]) -> list[int]:
    """The rows, but for the first, whose value is not that of the row before."""
    listed = list(values)
    return [row for row in range(1, len(listed)) if listed[row] != listed[row - 1]]
