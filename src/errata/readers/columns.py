"""What the columns of a table are: numbers, dates, categories, text, or nothing to learn from."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from errata.readers.label_encoding import is_missing
from errata.wording import counted, listed

if TYPE_CHECKING:
    import pandas as pd

Treatment = Literal["number", "yes/no", "date", "category", "text", "left out"]

ENOUGH_ROWS = 20  # in fewer, values that are all different, or in sequence, say nothing
LOOKED_AT = 10_000  # values whose length and words are measured
SHORTEST_TEXT = 3  # words a value, on average
SHORTEST_UNSPACED_TEXT = 6  # letters a value, in scripts that put no space between words
MANY_VALUES = 1000  # a column with as many different values is text even where each occurs often
LARGEST = 1e120  # the square of a number beyond overflows when many are added up
ID_WORDS = frozenset({"id", "ids", "uid", "uuid", "guid", "index", "idx", "rowid", "unnamed"})
ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
# Why a column is left out, said of one and of many.
REASONS = {
    "constant": ("is constant", "are constant"),
    "empty": ("has no values", "have no values"),
    "like an id": ("is different in every row, like an id", "are different in every row, like ids"),
    "nested": ("holds lists, objects or bytes", "hold lists, objects or bytes"),
    "like the label": ("says the same as the label", "say the same as the label"),
}


@dataclass(frozen=True)
class Column:
    """A column and how it is treated; `note` is why it is left out, one of `REASONS`."""

    name: str
    treatment: Treatment
    note: str = ""

    def __str__(self) -> str:
        return f"{self.treatment}: {self.note}" if self.note else self.treatment


def inspect_columns(frame: "pd.DataFrame", text: Collection[str] = ()) -> tuple[Column, ...]:
    """How each column is treated; those named in `text` are text whatever they look like."""
    return tuple(_inspect(str(name), frame[name], str(name) in text) for name in frame.columns)


def column_remarks(columns: Sequence[Column], frame: "pd.DataFrame") -> list[str]:
    """Sentences about columns that are left out, and numbers that cannot be computed with."""
    remarks = []
    for reason, (of_one, of_many) in REASONS.items():
        names = [column.name for column in columns if column.treatment == "left out" and column.note == reason]
        if len(names) == 1:
            named = f"; --id {names[0]} names the samples by it" if reason == "like an id" else ""
            remarks.append(f"column {names[0]!r} {of_one}: it is left out{named}")
        elif names:
            remarks.append(f"columns {listed(names)} {of_many}: they are left out")
    for column in columns:
        if column.treatment == "number":
            values = as_numbers(frame[column.name], keep_infinite=True)
            beyond = int((np.abs(values) > LARGEST).sum())
            if beyond:
                what = counted(beyond, "value is infinite or too large", "values are infinite or too large")
                remarks.append(f"in column {column.name!r} {what}, and taken as missing")
    return remarks


def as_numbers(series: "pd.Series[Any]", *, keep_infinite: bool = False) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """A column of numbers, truth values or spans of time as float64 (N,), NaN where there is none."""
    import pandas as pd

    if series.dtype.kind == "m":
        values = series.dt.total_seconds().to_numpy(dtype=np.float64)
    elif series.dtype == object:
        spans = (value.total_seconds() if hasattr(value, "total_seconds") else value for value in series)
        values = np.array([np.nan if pd.isna(value) else float(value) for value in spans], dtype=np.float64)
    else:
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
    return values if keep_infinite else np.where(np.abs(values) > LARGEST, np.nan, values)


def as_texts(series: "pd.Series[Any]") -> list[str | None]:
    """Values as text, None where there is none."""
    missing = is_missing(series)
    return [None if gone else str(value) for gone, value in zip(missing.tolist(), series.tolist(), strict=True)]


def as_dates(series: "pd.Series[Any]") -> "pd.Series[pd.Timestamp]":
    """Times in UTC, NaT where there is none."""
    import pandas as pd

    if series.dtype.kind == "M":
        return pd.to_datetime(series, utc=True)
    return pd.to_datetime(pd.Series(as_texts(series), dtype=object), utc=True, format="ISO8601", errors="coerce")


def _inspect(name: str, series: "pd.Series[Any]", is_text: bool) -> Column:
    present = series[~is_missing(series)]
    if not len(present):
        return Column(name, "left out", "empty")
    if is_text:
        return Column(name, "text")
    treatment = _by_type(present)
    if treatment is None:
        return Column(name, "left out", "nested")
    if len(present) == len(series) and present.nunique() == 1:
        return Column(name, "left out", "constant")
    if treatment == "number":
        return Column(name, "left out", "like an id") if _counts_rows(name, series) else Column(name, "number")
    if treatment == "category" and series.dtype != "category":
        return _of_words(name, series, present.astype(str))
    return Column(name, treatment)


def _by_type(present: "pd.Series[Any]") -> Treatment | None:
    """By the type of the values alone; None where they are nothing to learn from."""
    import pandas as pd

    if present.dtype.kind in "O" and not isinstance(present.dtype, pd.CategoricalDtype | pd.StringDtype):
        return _by_objects(present)
    by_kind: dict[str, Treatment] = {"b": "yes/no", "i": "number", "u": "number", "f": "number", "m": "number"}
    if present.dtype.kind in "cV":
        return None
    return by_kind.get(present.dtype.kind, "date" if present.dtype.kind == "M" else "category")


def _by_objects(present: "pd.Series[Any]") -> Treatment | None:
    import pandas as pd

    if any(isinstance(value, list | dict | set | tuple | bytes | complex | np.ndarray) for value in present):
        return None
    inferred = pd.api.types.infer_dtype(present)
    if inferred in ("integer", "floating", "mixed-integer-float", "decimal", "timedelta", "timedelta64"):
        return "number"
    if inferred in ("date", "datetime", "datetime64") and as_dates(present).notna().all():
        return "date"
    return "yes/no" if inferred == "boolean" else "category"


def _counts_rows(name: str, series: "pd.Series[Any]") -> bool:
    """Whether whole numbers are all different and either go by the name of an id or leave no gap."""
    values = as_numbers(series, keep_infinite=True)
    if len(values) < ENOUGH_ROWS or np.isnan(values).any() or (values != np.floor(values)).any():
        return False
    if len(np.unique(values)) < len(values):
        return False
    return _named_like_id(name) or values.max() - values.min() == len(values) - 1


def _of_words(name: str, series: "pd.Series[Any]", present: "pd.Series[Any]") -> Column:
    """A date, an id, text or a category, by what the values look like."""
    if present.str.fullmatch(ISO_DATE).all() and as_dates(present).notna().all():
        return Column(name, "date")
    distinct = present.nunique()
    seen = present.iloc[:: max(1, len(present) // LOOKED_AT)]
    spaced = seen.str.contains(r"\s").mean() > 0
    unspaced_script = not spaced and seen.str.contains(r"[^\x00-\x7f]").mean() > 0.5
    all_different = distinct == len(series) >= ENOUGH_ROWS
    if all_different and not unspaced_script and (not spaced or _named_like_id(name)):
        return Column(name, "left out", "like an id")
    long_enough = seen.str.count(r"\S+").mean() >= SHORTEST_TEXT or (
        unspaced_script and seen.str.len().mean() >= SHORTEST_UNSPACED_TEXT
    )
    many = 2 * distinct >= len(present) or distinct >= MANY_VALUES
    return Column(name, "text" if long_enough and many else "category")


def _named_like_id(name: str) -> bool:
    words = [word.casefold() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)]
    return bool(words) and (words[0] in ID_WORDS or words[-1] in ID_WORDS)
