"""Numbers in decisions.csv: the number that a text spells, to the digit, or None."""

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from errata.readers.number_columns import LEADING_ZERO, MAX_EXACT_FLOAT, NUMBER

BOOLEANS = {"true": True, "false": False}
_WHOLE = re.compile(r"(0|-?[1-9][0-9]{0,999})(\.0+)?")


def whole_number(text: str) -> int | None:
    """The whole number that a text spells; None for 007, 1_000 and 1e3. pandas writes 3.0 for 3."""
    spelled = _WHOLE.fullmatch(text.strip())
    if spelled is None:
        return None
    number = int(spelled[1])
    return None if spelled[2] and abs(number) >= MAX_EXACT_FLOAT else number


def exact_float(text: str, kind: Callable[[str], Any] = float) -> float | None:
    """The finite float of this kind whose shortest spelling has the value of the text; None if there is none."""
    text = text.strip()
    if not re.fullmatch(NUMBER, text) or re.match(LEADING_ZERO, text):
        return None
    number = kind(text)
    return float(number) if math.isfinite(number) and Decimal(str(number)) == Decimal(text) else None


def number_among(text: str, classes: Sequence[Any]) -> int | float | None:
    """The number that a text spells if all classes are numbers; a whole number if they are all whole."""
    types = {type(value) for value in classes}
    if not types <= {int, float}:
        return None
    whole, number = whole_number(text), exact_float(text)
    if int in types and (whole is not None or types == {int}):
        return whole
    return whole if number is None else number
