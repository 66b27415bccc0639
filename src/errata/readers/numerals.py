"""Numbers that stand in a table as text: with a decimal comma, or beside a few cells that are none."""

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

WHOLE = r"^[+-]?[0-9]+$"
NUMBER = r"(?i)^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?)$"
LEADING_ZERO = r"^[+-]?0[0-9]"  # of a code, as in a postal code
MISSING_NUMBERS = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None", "-", "?")
NEARLY_ALL = 0.95  # of the values must be numbers; the others are then slips
ENOUGH_VALUES = 20
FIRST_LOOK = 100  # values that are tried before all are
LONGEST_WHOLE = 18  # digits; what is longer is a code
EXACT = 2.0**53  # whole numbers up to here are themselves as float64

_PATTERNS = {".": re.compile(NUMBER), ",": re.compile(NUMBER.replace(r"\.", ","))}
_SIGN = "[$€£¥%]?"
_WITH_SIGNS = re.compile(rf"{_SIGN}\s*[+-]?(?:\d{{1,3}}(?:[,. '\u00a0]\d{{3}})+|\d+)(?:[.,]\d+)?\s*{_SIGN}")
_CODE = re.compile(rf"{LEADING_ZERO}|^[+-]?[0-9]{{{LONGEST_WHOLE + 1},}}$")


@dataclass(frozen=True, eq=False)
class Numerals:
    """The numbers (n,) of a column, NaN where there is none.

    comma: some of them have a decimal comma. others: the values that are there and no numbers.
    """

    numbers: NDArray[np.float64]
    comma: bool
    others: list[Any]


def with_numerals(
    frame: "pd.DataFrame", passed_over: Collection[str], decimal_comma: bool
) -> tuple["pd.DataFrame", list[str]]:
    """The table with columns of text that are numbers, or nearly all numbers, as such; and remarks on them.

    passed_over: columns that stay as they are. decimal_comma: whether `1,5` may be a number. Text that is nothing but
    plain numbers stays as well: whoever reads a table has decided on that.
    """
    candidates = [name for name in frame.columns if name not in passed_over and _may_hold_text(frame[name])]
    read = {name: _numerals(frame[name], decimal_comma) for name in candidates}
    known = {name: numerals for name, numerals in read.items() if numerals is not None}
    unread = [_on_signs(name, frame[name]) for name in candidates if name not in known]
    numbers_read = {name: _column(numerals.numbers) for name, numerals in known.items()}
    return frame.assign(**numbers_read), [*_remarks(known), *filter(None, unread)]


def _may_hold_text(series: "pd.Series[Any]") -> bool:
    return bool(series.dtype == object or series.dtype == "string")


def _numerals(series: "pd.Series[Any]", decimal_comma: bool) -> Numerals | None:
    """The numbers of a column, or None where it is not to be taken as such."""
    there = series[~is_missing(series)]
    some = _some(there)
    marks = ".," if decimal_comma else "."
    if not any(_is_numeric(_parsed(some, mark), some) for mark in marks):
        return None
    values = there.tolist()
    parsed, mark = max(((_parsed(values, mark), mark) for mark in marks), key=lambda pair: _count(pair[0]))
    others = [value for value, number in zip(values, parsed.tolist(), strict=True) if math.isnan(number)]
    comma = mark == "," and any(isinstance(value, str) and mark in value for value in values)
    in_doubt = bool(others) and len(values) - _said_missing(values) < ENOUGH_VALUES
    plain = not comma and (not others or not any(isinstance(value, str) for value in values))
    if plain or in_doubt or not _is_numeric(parsed, values) or any(map(_is_code, values)):
        return None
    everywhere = np.full(len(series), np.nan)
    everywhere[there.index.to_numpy()] = parsed
    return Numerals(everywhere, comma, others)


def _some(there: "pd.Series[Any]") -> list[Any]:
    return there.iloc[:: max(1, len(there) // FIRST_LOOK)].tolist()


def _parsed(values: Sequence[Any], mark: str) -> NDArray[np.float64]:
    return np.array([_number(value, mark) for value in values], dtype=np.float64)


def _number(value: Any, mark: str) -> float:
    """The number that a value is or says, with that decimal mark; NaN of anything else."""
    if isinstance(value, str):
        text = value.strip()
        return float(text.replace(mark, ".")) if _PATTERNS[mark].match(text) else math.nan
    plain = isinstance(value, numbers.Real | Decimal) and not isinstance(value, bool)
    return float(value) if plain else math.nan


def _is_numeric(parsed: NDArray[np.float64], values: Sequence[Any]) -> bool:
    """Whether nearly all values are numbers, but for those that say that one is missing."""
    return _count(parsed) >= max(1, NEARLY_ALL * (len(values) - _said_missing(values)))


def _count(parsed: NDArray[np.float64]) -> int:
    return len(parsed) - int(np.isnan(parsed).sum())


def _said_missing(values: Sequence[Any]) -> int:
    return sum(isinstance(value, str) and value.strip() in MISSING_NUMBERS for value in values)


def _is_code(value: Any) -> bool:
    return isinstance(value, str) and _CODE.match(value.strip()) is not None


def _column(values: NDArray[np.float64]) -> "pd.Series[Any]":
    """Whole numbers as such, others as fractions."""
    import pandas as pd

    present = values[~np.isnan(values)]
    whole = bool((np.abs(present) < EXACT).all() and (present == np.floor(present)).all())
    return pd.Series(values).astype("Int64") if whole else pd.Series(values)


def _remarks(known: "dict[str, Numerals]") -> list[str]:
    commas = [name for name, numerals in known.items() if numerals.comma]
    remarks = []
    if commas:
        columns = f"column{'s' if len(commas) > 1 else ''} {listed(commas)}"
        remarks.append(f"numbers in {columns} are read with a decimal comma: 1,5 is one and a half")
    for name, numerals in known.items():
        if numerals.others:
            remarks.append(_on_others(name, numerals))
    return remarks


def _on_others(name: str, numerals: Numerals) -> str:
    others, found = len(numerals.others), _count(numerals.numbers)
    odd = next((value for value in numerals.others if str(value).strip() not in MISSING_NUMBERS), numerals.others[0])
    such = f"1 other ({odd!r}) counts" if others == 1 else f"{others:,} others (such as {odd!r}) count"
    return (
        f"column {name!r}: {found:,} of {counted(found + others, 'value is', 'values are')} numbers; {such} as missing"
    )


def _on_signs(name: str, series: "pd.Series[Any]") -> str:
    """A remark on a column that looks like numbers to people alone, as `$1,065` or `12 %`; else nothing."""
    some = [value.strip() for value in _some(series[~is_missing(series)]) if isinstance(value, str)]
    with_signs = [value for value in some if not _PATTERNS["."].match(value) and _WITH_SIGNS.fullmatch(value)]
    if len(some) < ENOUGH_VALUES or len(with_signs) < len(some) / 2:
        return ""
    such = f"(such as {with_signs[0]!r})"
    return f"column {name!r} looks like numbers with signs or commas {such}, which are not read as numbers"
