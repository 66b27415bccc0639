"""Numbers stored as text in a table: with decimal commas, or in a column with a few other values."""

import math
import numbers
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.readers.label_encoding import is_missing
from errata.wording import counted, listed

if TYPE_CHECKING:
    import pandas as pd

WHOLE_NUMBER = r"^[+-]?[0-9]+$"
NUMBER = r"(?i)^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?)$"
LEADING_ZERO = r"^[+-]?0[0-9]"  # a code, such as a postal code
MISSING_NUMBERS = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None", "-", "?")
MIN_NUMBER_SHARE = 0.95  # of the values in a column; the others then count as missing
MIN_VALUES = 20
SAMPLED_VALUES = 100  # values that are tested before the whole column
MAX_DIGITS = 18  # longer whole numbers are codes
MAX_EXACT_FLOAT = 2.0**53  # smaller whole numbers are exact as float64

_PATTERNS = {".": re.compile(NUMBER), ",": re.compile(NUMBER.replace(r"\.", ","))}
_SIGN = "[$€£¥%]?"
_FORMATTED = re.compile(rf"{_SIGN}\s*[+-]?(?:\d{{1,3}}(?:[,. '\u00a0]\d{{3}})+|\d+)(?:[.,]\d+)?\s*{_SIGN}")
_CODE = re.compile(rf"{LEADING_ZERO}|^[+-]?[0-9]{{{MAX_DIGITS + 1},}}$")


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """The numbers (n,) of a text column, NaN where missing.

    comma: whether some have a decimal comma. others: values that are not numbers.
    """

    numbers: NDArray[np.float64]
    comma: bool
    others: list[Any]


def parse_number_columns(
    frame: "pd.DataFrame", unchanged: Collection[str], decimal_comma: bool
) -> tuple["pd.DataFrame", list[str]]:
    """Convert text columns with (nearly) only numbers, and return remarks on them.

    unchanged: columns to leave as they are. decimal_comma: whether `1,5` can be a number. Columns with plain numbers
    only stay text, since the reader of the file decided so.
    """
    candidates = [
        name for name in frame.columns if name not in unchanged and frame[name].dtype in (np.dtype(object), "string")
    ]
    parsed = {name: _parse_column(frame[name], decimal_comma) for name in candidates}
    converted = {name: column for name, column in parsed.items() if column is not None}
    formatted = [_formatted_remark(name, frame[name]) for name in candidates if name not in converted]
    series = {name: _as_series(column.numbers) for name, column in converted.items()}
    return frame.assign(**series), [*_remarks(converted), *filter(None, formatted)]


def as_float(value: Any) -> float:
    """A number as a float, infinite if it is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _parse_column(series: "pd.Series[Any]", decimal_comma: bool) -> NumberColumn | None:
    """The numbers of a column, or None if it is not to be converted."""
    present = series[~is_missing(series)]
    marks = ".," if decimal_comma else "."
    sample = _sample(present)
    if not any(_is_numeric(_parse(sample, mark), sample) for mark in marks):
        return None
    values = present.tolist()
    parsed, mark = max(((_parse(values, mark), mark) for mark in marks), key=lambda pair: _count(pair[0]))
    texts = [value.strip() for value in values if isinstance(value, str)]
    others = [value for value, number in zip(values, parsed.tolist(), strict=True) if math.isnan(number)]
    comma = mark == "," and any(mark in text for text in texts)
    too_few = bool(others) and len(values) - _count_missing(values) < MIN_VALUES
    plain = not comma and (not others or not texts)
    if plain or too_few or not _is_numeric(parsed, values) or any(map(_CODE.match, texts)):
        return None
    all_rows = np.full(len(series), np.nan)
    all_rows[present.index.to_numpy()] = parsed
    return NumberColumn(all_rows, comma, others)


def _sample(present: "pd.Series[Any]") -> list[Any]:
    return present.iloc[:: max(1, len(present) // SAMPLED_VALUES)].tolist()


def _parse(values: Sequence[Any], mark: str) -> NDArray[np.float64]:
    """The values (n,) as numbers with that decimal mark; NaN for values that are not numbers."""
    parsed = np.full(len(values), np.nan)
    for place, value in enumerate(values):
        if isinstance(value, str):
            text = value.strip()
            if _PATTERNS[mark].match(text):
                parsed[place] = float(text.replace(mark, "."))
        elif isinstance(value, numbers.Real | Decimal) and not isinstance(value, bool):
            parsed[place] = as_float(value)
    return parsed


def _is_numeric(parsed: NDArray[np.float64], values: Sequence[Any]) -> bool:
    """Whether nearly all values are numbers, not counting words for missing numbers."""
    return _count(parsed) >= max(1, MIN_NUMBER_SHARE * (len(values) - _count_missing(values)))


def _count(parsed: NDArray[np.float64]) -> int:
    return len(parsed) - int(np.isnan(parsed).sum())


def _count_missing(values: Sequence[Any]) -> int:
    return sum(isinstance(value, str) and value.strip() in MISSING_NUMBERS for value in values)


def _as_series(values: NDArray[np.float64]) -> "pd.Series[Any]":
    """Whole numbers as integers with gaps, others as floats."""
    import pandas as pd

    present = values[~np.isnan(values)]
    whole = bool((np.abs(present) < MAX_EXACT_FLOAT).all() and (present == np.floor(present)).all())
    return pd.Series(values).astype("Int64") if whole else pd.Series(values)


def _remarks(converted: "dict[str, NumberColumn]") -> list[str]:
    remarks = []
    commas = [name for name, column in converted.items() if column.comma]
    if commas:
        columns = f"column{'s' if len(commas) > 1 else ''} {listed(commas)}"
        remarks.append(f"numbers in {columns} are read with a decimal comma: 1,5 is one and a half")
    for name, column in converted.items():
        if column.others:
            others, count = len(column.others), _count(column.numbers)
            # an unusual value as the example, if there is one
            example = min(column.others, key=lambda value: str(value).strip() in MISSING_NUMBERS)
            rest = f"1 other ({example!r}) counts" if others == 1 else f"{others:,} others (such as {example!r}) count"
            values = counted(count + others, "value is", "values are")
            remarks.append(f"column {name!r}: {count:,} of {values} numbers; {rest} as missing")
    return remarks


def _formatted_remark(name: str, series: "pd.Series[Any]") -> str:
    """A remark on a column with formatted numbers such as `$1,065` or `12 %`; else empty."""
    sample = [value.strip() for value in _sample(series[~is_missing(series)]) if isinstance(value, str)]
    formatted = [value for value in sample if not _PATTERNS["."].match(value) and _FORMATTED.fullmatch(value)]
    if len(sample) < MIN_VALUES or len(formatted) < len(sample) / 2:
        return ""
    example = f"(such as {formatted[0]!r})"
    return f"column {name!r} looks like numbers with signs or commas {example}, which are not read as numbers"
