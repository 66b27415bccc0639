"""How counts and names are put into the sentences a user reads."""

from collections.abc import Iterable
from typing import Any

MOST_NAMED = 5


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 row`, `1,200 rows`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listed(names: Iterable[Any], most: int = MOST_NAMED) -> str:
    """`'a', 'b' and 'c'`; of many, the first few and how many more there are."""
    shown = [repr(name) for name in names]
    if len(shown) > most + 1:
        return f"{', '.join(shown[:most])} and {len(shown) - most:,} others"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def gigabytes(size: float) -> str:
    """`1.5 GB`."""
    return f"{size / 1e9:,.1f} GB"
