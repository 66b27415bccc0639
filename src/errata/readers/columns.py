"""The types of the columns of a table: number, date, category, text, or left out."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from errata.readers.label_encoding import is_missing
from errata.readers.number_columns import as_float
from errata.wording import counted, listed

if TYPE_CHECKING:
    import pandas as pd

Treatment = Literal["number", "yes/no", "date", "category", "text", "left out"]

MIN_ROWS = 20  # with fewer rows, distinct or consecutive values do not suggest an id
ID_SHARE = 0.9  # of distinct values among short texts: names, since a category would hardly ever occur twice
SAMPLED_TEXTS = 10_000  # values whose words are counted
MIN_WORDS = 3  # per value of a text, on average
MIN_UNSPACED_LETTERS = 6  # per value of a text, in scripts without spaces between words
MANY_VALUES = 1000  # a column with this many distinct values can be text even if each occurs often
LARGEST = 1e120  # squares of larger numbers overflow in sums
ID_WORDS = frozenset({"id", "ids", "uid", "uuid", "guid", "index", "idx", "rowid", "unnamed"})
ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
# Reasons to leave out a column, for one column and for several.
REASONS = {
    "constant": ("is constant", "are constant"),
    "empty": ("has no values", "have no values"),
    "like an id": (
        "has another value in nearly every row, like an id",
        "have another value in nearly every row, like ids",
    ),
    "nested": ("holds lists, objects or bytes", "hold lists, objects or bytes"),
    "like the label": ("repeats the label", "repeat the label"),
    "ignored": ("was named by `ignore`", "were named by `ignore`"),
}


@dataclass(frozen=True)
class Column:
    """A column and its treatment. note: the reason if it is left out, a key of `REASONS`."""

    name: str
    treatment: Treatment
    note: str = ""

    def __str__(self) -> str:
        return f"{self.treatment}: {self.note}" if self.note else self.treatment


def inspect_columns(
    frame: "pd.DataFrame", text: Collection[str] = (), ignored: Collection[str] = ()
) -> tuple[Column, ...]:
    """The treatment of each column. text: columns that are text in any case. ignored: columns to leave out."""
    return tuple(
        Column(name, "left out", "ignored") if name in ignored else _inspect(name, series, name in text)
        for name, series in ((str(name), series) for name, series in frame.items())
    )


def column_remarks(columns: Sequence[Column], frame: "pd.DataFrame") -> list[str]:
    """Remarks on columns that are left out, and on numbers that are infinite or too large."""
    remarks = []
    for reason, (singular, plural) in REASONS.items():
        names = [column.name for column in columns if column.treatment == "left out" and column.note == reason]
        if len(names) == 1:
            hint = f". To use it as the sample id, pass --id {names[0]}" if reason == "like an id" else ""
            remarks.append(f"column {names[0]!r} {singular} and is left out{hint}")
        elif names:
            remarks.append(f"columns {listed(names)} {plural} and are left out")
    for column in columns:
        if column.treatment == "number":
            too_large = int((np.abs(as_numbers(frame[column.name], keep_infinite=True)) > LARGEST).sum())
            if too_large:
                values = counted(too_large, "value is", "values are")
                remarks.append(f"column {column.name!r}: {values} infinite or too large and counted as missing")
    return remarks


def as_numbers(series: "pd.Series[Any]", *, keep_infinite: bool = False) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Numbers, booleans or time spans as float64 (N,), NaN where missing or too large."""
    if series.dtype.kind == "m":
        values = series.dt.total_seconds().to_numpy(dtype=np.float64)
    elif series.dtype == object:
        seconds = (value.total_seconds() if hasattr(value, "total_seconds") else value for value in series)
        present = zip(is_missing(series).tolist(), seconds, strict=True)
        values = np.array([np.nan if absent else as_float(value) for absent, value in present], dtype=np.float64)
    else:
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
    return values if keep_infinite else np.where(np.abs(values) > LARGEST, np.nan, values)


def as_texts(series: "pd.Series[Any]") -> list[str | None]:
    """Values as text, None where missing."""
    missing = is_missing(series).tolist()
    return [None if absent else str(value) for absent, value in zip(missing, series.tolist(), strict=True)]


def as_dates(series: "pd.Series[Any]") -> "pd.Series[pd.Timestamp]":
    """Times in UTC, NaT where missing."""
    import pandas as pd

    if series.dtype.kind == "M":
        return pd.to_datetime(series, utc=True)
    return pd.to_datetime(pd.Series(as_texts(series), dtype=object), utc=True, format="ISO8601", errors="coerce")


def _inspect(name: str, series: "pd.Series[Any]", is_text: bool) -> Column:
    missing = is_missing(series)
    present = series[~missing] if missing.any() else series
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
        return Column(name, "left out", "like an id") if _is_row_number(name, series) else Column(name, "number")
    if treatment == "category" and series.dtype != "category":
        treatment = _of_texts(name, series, present.astype(str))
    if treatment == "category" and len(series) >= MIN_ROWS and present.nunique() >= ID_SHARE * len(series):
        treatment = None
    return Column(name, "left out", "like an id") if treatment is None else Column(name, treatment)


def _by_type(present: "pd.Series[Any]") -> Treatment | None:
    """The treatment that the type of the values suggests; None if the type is not supported."""
    import pandas as pd

    kind = present.dtype.kind
    if kind in "cV":
        return None
    if kind != "O" or isinstance(present.dtype, pd.CategoricalDtype | pd.StringDtype):
        by_kind: dict[str, Treatment] = {"b": "yes/no", "i": "number", "u": "number", "f": "number", "m": "number"}
        return by_kind.get(kind, "date" if kind == "M" else "category")
    if any(isinstance(value, list | dict | set | tuple | bytes | complex | np.ndarray) for value in present):
        return None
    inferred = pd.api.types.infer_dtype(present)
    if inferred in ("integer", "floating", "mixed-integer-float", "decimal", "timedelta", "timedelta64"):
        return "number"
    if inferred in ("date", "datetime", "datetime64") and as_dates(present).notna().all():
        return "date"
    return "yes/no" if inferred == "boolean" else "category"


def _is_row_number(name: str, series: "pd.Series[Any]") -> bool:
    """Whether the values are distinct whole numbers that are consecutive or named like an id."""
    values = as_numbers(series, keep_infinite=True)
    if len(values) < MIN_ROWS or np.isnan(values).any() or (values != np.floor(values)).any():
        return False
    if len(np.unique(values)) < len(values):
        return False
    return _named_like_id(name) or values.max() - values.min() == len(values) - 1


def _of_texts(name: str, series: "pd.Series[Any]", present: "pd.Series[Any]") -> Treatment | None:
    """Whether texts are dates, text to learn from, or categories; None if they are ids."""
    if present.str.fullmatch(ISO_DATE).all() and as_dates(present).notna().all():
        return "date"
    distinct = present.nunique()
    sample = present.iloc[:: max(1, len(present) // SAMPLED_TEXTS)]
    spaced = sample.str.contains(r"\s").mean() > 0
    unspaced_script = not spaced and sample.str.contains(r"[^\x00-\x7f]").mean() > 0.5
    all_different = distinct == len(series) >= MIN_ROWS
    if all_different and not unspaced_script and (not spaced or _named_like_id(name)):
        return None
    long_enough = sample.str.count(r"\S+").mean() >= MIN_WORDS or (
        unspaced_script and sample.str.len().mean() >= MIN_UNSPACED_LETTERS
    )
    many = 2 * distinct >= len(present) or distinct >= MANY_VALUES
    return "text" if long_enough and many else "category"


def _named_like_id(name: str) -> bool:
    words = [word.casefold() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)]
    return bool(words) and (words[0] in ID_WORDS or words[-1] in ID_WORDS)
