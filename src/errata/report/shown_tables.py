"""Rows of a table or texts as they were learned from, the columns that tell most about the label first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.readers.user_data import UserData

if TYPE_CHECKING:
    import pandas as pd

COLUMNS_SHOWN = 30
COLUMNS_LOOKED_AT = 1_000
ROWS_LOOKED_AT = 5_000
PARTS = 10  # that numbers are cut into, to see what they tell about the label
MOST_CLASSES = 200  # beyond which what is typical of each is not in the page
LONGEST = 20_000  # characters of one value
DIGITS = 6


@dataclass(frozen=True)
class ShownTable:
    """Rows as lists of text, one item a column; `typical` has a row a class, or none where there are too many."""

    columns: list[dict[str, Any]]
    rows: Iterator[list[str]]
    typical: list[list[str]]
    notes: list[str]

    def beside(self, other: "ShownTable") -> "ShownTable":
        """The same rows with the columns of another table behind their own, of which nothing is typical."""
        rows = ([*own, *others] for own, others in zip(self.rows, other.rows, strict=True))
        typical = [[*row, *("" for _ in other.columns)] for row in self.typical]
        return ShownTable([*self.columns, *other.columns], rows, typical, [*self.notes, *other.notes])


def table_of(data: UserData, places: NDArray[np.int64], classes: Sequence[str]) -> ShownTable:
    """What was learned from of the rows at those places, in as many columns as are worth a look."""
    labels = np.array([str(name) for name in data.classes])[data.labels]
    looked_at = np.unique(np.linspace(0, data.samples - 1, min(ROWS_LOOKED_AT, data.samples)).astype(np.int64))
    learned = _learned(data)
    candidates = _fullest(data.inputs, learned)
    order = _most_telling_first(_frame(data.inputs, looked_at, candidates), data.labels[looked_at], data.columns)
    shown = _frame(data.inputs, np.arange(data.samples), candidates[order[:COLUMNS_SHOWN]])
    columns = [
        {"name": str(name), "text": data.columns.get(str(name)) == "text", "number": is_number(shown[name])}
        for name in shown.columns
    ]
    wide = len(learned)
    notes = [] if len(columns) == wide else [f"Shown are the {len(columns)} most telling of {wide:,} columns."]
    typical = _typical(shown, labels, classes) if len(classes) <= MOST_CLASSES else []
    return ShownTable(columns, _as_text(shown.iloc[places]), typical, notes)


def _learned(data: UserData) -> NDArray[np.int64]:
    """The columns that a model was given."""
    if not hasattr(data.inputs, "columns"):
        return np.arange(data.inputs.shape[1])
    given = [name not in data.left_out and data.columns[name] != "id" for name in data.inputs.columns]
    return np.flatnonzero(given)


def _fullest(inputs: Any, columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """The columns worth measuring: all, or of very many those with most values other than 0."""
    if len(columns) <= COLUMNS_LOOKED_AT or hasattr(inputs, "columns"):
        return columns[:COLUMNS_LOOKED_AT]
    filled = np.count_nonzero(inputs, axis=0) if isinstance(inputs, np.ndarray) else inputs.getnnz(axis=0)
    return np.sort(np.argsort(-filled, kind="stable")[:COLUMNS_LOOKED_AT])


def _frame(inputs: Any, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> "pd.DataFrame":
    """Some rows and columns of any inputs as a data frame."""
    import pandas as pd

    if isinstance(inputs, pd.DataFrame):
        return inputs.iloc[rows, columns]
    chosen = inputs[:, columns][rows]
    dense = chosen if isinstance(chosen, np.ndarray) else chosen.toarray()
    return pd.DataFrame(dense, columns=[f"column {number}" for number in columns.tolist()])


def _most_telling_first(frame: "pd.DataFrame", labels: NDArray[np.int64], treatments: dict[str, str]) -> list[int]:
    """Texts first, then columns by their mutual information with the given labels."""

    def place(number: int) -> tuple[int, float]:
        if treatments.get(str(frame.columns[number])) == "text":
            return 0, 0.0
        return 1, -mutual_information(in_parts(frame.iloc[:, number]), labels)

    return sorted(range(frame.shape[1]), key=place)


def mutual_information(parts: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    """What two partitions of n samples, numbers from 0 each, tell about each other, in nats."""
    wide = int(labels.max()) + 1
    joint = np.bincount(parts * wide + labels, minlength=(int(parts.max()) + 1) * wide).reshape(-1, wide) / len(labels)
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    there = joint > 0
    return float((joint[there] * np.log(joint[there] / apart[there])).sum())


def in_parts(column: "pd.Series[Any]") -> NDArray[np.int64]:
    """A part number a row: tenths of numbers, the most frequent values of anything else; what is missing is one too."""
    import pandas as pd

    if not is_number(column):
        texts = column.astype(str)
        frequent = texts.value_counts().index[: 2 * PARTS]
        return np.asarray(frequent.get_indexer(pd.Index(texts)), dtype=np.int64) + 1
    numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    missing = np.isnan(numbers)
    if missing.all():
        return np.zeros(len(numbers), dtype=np.int64)
    edges = np.quantile(numbers[~missing], np.arange(1, PARTS) / PARTS)
    return np.where(missing, PARTS, np.searchsorted(edges, numbers))


def is_number(column: "pd.Series[Any]") -> bool:
    """Whether a column holds numbers, truth values aside."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    return bool(is_numeric_dtype(column.dtype)) and not is_bool_dtype(column.dtype)


def _typical(shown: "pd.DataFrame", labels: NDArray[Any], classes: Sequence[str]) -> list[list[str]]:
    """A row a class: the median of numbers, the value that more than half have of others, "" where there is none."""
    columns = [shown[name].groupby(labels).agg(_middle).reindex(list(classes), fill_value="") for name in shown.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _middle(column: "pd.Series[Any]") -> str:
    present = column.dropna()
    if not len(present):
        return ""
    if is_number(column):
        return text_of(np.median(present.to_numpy(dtype=np.float64)))
    counts = present.astype(str).value_counts()
    return text_of(counts.index[0]) if 2 * counts.iloc[0] > len(present) else ""


def _as_text(shown: "pd.DataFrame") -> Iterator[list[str]]:
    for row in zip(*(shown[name].tolist() for name in shown.columns), strict=True):
        yield [text_of(value) for value in row]


def text_of(value: Any, digits: int = DIGITS, longest: int = LONGEST) -> str:
    """A value as it is read; "" for what is missing, and the head of what is very long."""
    import pandas as pd

    if value is None or (not hasattr(value, "__len__") and pd.isna(value)):
        return ""
    if isinstance(value, float | np.floating):
        return f"{value:.{digits}g}"
    text = str(value)
    return text if len(text) <= longest else f"{text[:longest]} … ({len(text):,} characters in all)"
