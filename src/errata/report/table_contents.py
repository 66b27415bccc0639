"""Rows of tables and texts for the page: first the columns used for training, then the excluded ones."""

import reprlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from errata.readers.user_data import UserData

if TYPE_CHECKING:
    import pandas as pd

MOST_COLUMNS = 30  # shown
COLUMNS_RANKED = 1_000  # columns and rows from which the most informative columns are chosen
ROWS_RANKED = 5_000
BINS = 10  # of a number column, to measure its mutual information with the label
MOST_CLASSES = 200  # with more, typical values per class are not included
LONGEST = 20_000  # characters of one value
DIGITS = 6
MOST_EXCLUDED = 20  # excluded columns shown
LONGEST_EXCLUDED = 500  # characters of one value of an excluded column
SAME_IN_ALL = ("constant", "empty")  # reasons of columns that do not distinguish samples


class ShownTable(NamedTuple):
    """Rows as lists of text, one item per column. `typical` has one row per class, or none with too many classes."""

    columns: list[dict[str, Any]]
    rows: Iterator[list[str]]
    typical: list[list[str]]
    notes: list[str]


class TableView:
    """The columns of a table that the page shows: those used for training, the most informative first, then others.

    A reviewer may recognise a sample by excluded columns. Those that differ between samples come first.
    """

    def __init__(self, data: UserData) -> None:
        self.shown, self.used = _most_informative(data)
        self.reasons = data.left_out
        self.names = sorted(self.reasons, key=lambda name: self.reasons[name] in SAME_IN_ALL)[:MOST_EXCLUDED]
        self.excluded = {name: data.inputs[name] for name in self.names}
        self.columns: list[dict[str, Any]] = [
            {"name": str(name), "text": data.columns.get(str(name)) == "text", "number": is_number(self.shown[name])}
            for name in self.shown.columns
        ]
        self.columns += [
            {"name": name, "text": False, "number": is_number(self.excluded[name]), "excluded": self.reasons[name]}
            for name in self.names
        ]

    def rows(self, places: NDArray[np.int64]) -> Iterator[list[str]]:
        """The texts of the rows `places` (n,), one item per column."""
        training = (map(as_text, self.shown[name].iloc[places].tolist()) for name in self.shown.columns)
        excluded = (map(_excerpt, column.iloc[places].tolist()) for column in self.excluded.values())
        return map(list, zip(*training, *excluded, strict=True))


def table_contents(data: UserData, places: NDArray[np.int64], classes: Sequence[str]) -> ShownTable:
    """The columns at the rows `places` (n,), with typical values of the classes and notes on what is not shown."""
    view = TableView(data)
    notes = []
    if view.shown.shape[1] < view.used:
        notes.append(f"The {view.shown.shape[1]} most informative of {view.used:,} columns are shown.")
    if len(view.names) < len(view.reasons):
        notes.append(f"{len(view.names)} of the {len(view.reasons):,} columns not used for training are shown.")
    typical = _typical(view.shown, data, classes) if len(classes) <= MOST_CLASSES else []
    padded = [[*row, *("" for _ in view.names)] for row in typical]
    return ShownTable(view.columns, view.rows(places), padded, notes)


def _most_informative(data: UserData) -> "tuple[pd.DataFrame, int]":
    """The columns used for training, at most MOST_COLUMNS, the most informative first; and how many are used in all."""
    if hasattr(data.inputs, "columns"):
        left_out = data.left_out
        used = np.flatnonzero([name not in left_out and data.columns[name] != "id" for name in data.inputs.columns])
    else:
        used = np.arange(data.inputs.shape[1])
    candidates = _densest(data.inputs, used)
    rows = np.unique(np.linspace(0, data.samples - 1, min(ROWS_RANKED, data.samples)).astype(np.int64))
    order = _by_information(_frame(data.inputs, rows, candidates), data.labels[rows], data.columns)
    return _frame(data.inputs, np.arange(data.samples), candidates[order[:MOST_COLUMNS]]), len(used)


def _densest(inputs: Any, columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """At most COLUMNS_RANKED columns; of wide arrays, those with the most values other than 0."""
    if len(columns) <= COLUMNS_RANKED or hasattr(inputs, "columns"):
        return columns[:COLUMNS_RANKED]
    filled = np.count_nonzero(inputs, axis=0) if isinstance(inputs, np.ndarray) else inputs.getnnz(axis=0)
    return np.sort(np.argsort(-filled, kind="stable")[:COLUMNS_RANKED])


def _frame(inputs: Any, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> "pd.DataFrame":
    """Some rows and columns of a data frame, an array or a sparse matrix as a data frame."""
    import pandas as pd

    if isinstance(inputs, pd.DataFrame):
        return inputs.iloc[rows, columns]
    chosen = inputs[:, columns][rows]
    dense = chosen if isinstance(chosen, np.ndarray) else chosen.toarray()
    return pd.DataFrame(dense, columns=[f"column {number}" for number in columns.tolist()])


def _by_information(frame: "pd.DataFrame", labels: NDArray[np.int64], treatments: dict[str, str]) -> list[int]:
    """Column positions: texts first, then by mutual information with the given labels, highest first."""
    from sklearn.metrics import mutual_info_score

    def sort_key(number: int) -> tuple[int, float]:
        if treatments.get(str(frame.columns[number])) == "text":
            return 0, 0.0
        return 1, -float(mutual_info_score(labels, binned(frame.iloc[:, number])))

    return sorted(range(frame.shape[1]), key=sort_key)


def binned(column: "pd.Series[Any]") -> NDArray[np.int64]:
    """A bin number per row: deciles of numbers, the most frequent values otherwise. Missing values have their own."""
    import pandas as pd

    if not is_number(column):
        texts = column.astype(str)
        frequent = texts.value_counts().index[: 2 * BINS]
        return np.asarray(frequent.get_indexer(pd.Index(texts)), dtype=np.int64) + 1
    numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    missing = np.isnan(numbers)
    if missing.all():
        return np.zeros(len(numbers), dtype=np.int64)
    edges = np.quantile(numbers[~missing], np.arange(1, BINS) / BINS)
    return np.where(missing, BINS, np.searchsorted(edges, numbers))


def is_number(column: "pd.Series[Any]") -> bool:
    """True for number columns; booleans are not numbers."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    return bool(is_numeric_dtype(column.dtype)) and not is_bool_dtype(column.dtype)


def _typical(shown: "pd.DataFrame", data: UserData, classes: Sequence[str]) -> list[list[str]]:
    """One row per class: the median of numbers, otherwise the value of more than half of its samples, or ""."""
    labels = np.array([str(name) for name in data.classes])[data.labels]
    columns = [
        shown[name].groupby(labels).agg(_typical_value).reindex(list(classes), fill_value="") for name in shown.columns
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _typical_value(column: "pd.Series[Any]") -> str:
    present = column.dropna()
    if not len(present):
        return ""
    if is_number(column):
        return as_text(np.median(present.to_numpy(dtype=np.float64)))
    counts = present.astype(str).value_counts()
    return as_text(counts.index[0]) if 2 * counts.iloc[0] > len(present) else ""


def as_text(value: Any, digits: int = DIGITS, longest: int = LONGEST) -> str:
    """A value as text: "" if it is missing, shortened if it is very long."""
    import pandas as pd

    if value is None or (not hasattr(value, "__len__") and pd.isna(value)):
        return ""
    if isinstance(value, float | np.floating):
        return f"{value:.{digits}g}"
    text = str(value)
    return text if len(text) <= longest else f"{text[:longest]} … ({len(text):,} characters in all)"


def _excerpt(value: Any) -> str:
    """A value of an excluded column: numbers with all digits; the first items of lists, objects and bytes."""
    if isinstance(value, list | tuple | set | dict | bytes | np.ndarray):
        value = _FIRST_ITEMS.repr(value)
    return as_text(value, digits=15, longest=LONGEST_EXCLUDED)


class _FirstItems(reprlib.Repr):
    """Formats the first items of nested values, so that an image stored in a table takes no time."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 2
        self.maxlist = self.maxtuple = self.maxset = self.maxdict = 20
        self.maxstring = self.maxother = 100

    def repr_bytes(self, value: bytes, level: int) -> str:
        """The number of bytes."""
        return f"{len(value):,} bytes"

    def repr_ndarray(self, value: NDArray[Any], level: int) -> str:
        """The same format as for a list."""
        return self.repr_list(np.atleast_1d(value)[: self.maxlist + 1].tolist(), level)


_FIRST_ITEMS = _FirstItems()
