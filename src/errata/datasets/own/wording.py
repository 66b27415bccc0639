"""How counts and names are put into the sentences a user reads."""

import difflib
from collections.abc import Iterable, Sequence
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


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name that a misspelt one was most likely meant to be, whatever its capitals."""
    folded = {other.casefold(): other for other in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def gigabytes(size: float) -> str:
    """`1.5 GB`."""
    return f"{size / 1e9:,.1f} GB"
