"""Parts of messages: counts, lists of names, and the error messages of other libraries."""

import difflib
from collections.abc import Iterable
from typing import Any

LONGEST = 160  # characters of another library's error message
MOST_NAMED = 5  # names in a list


def one_line(error: BaseException | str) -> str:
    """The first line of an error message or of another text, shortened; if it is empty, the name of its type."""
    lines = (" ".join(line.split()) for line in str(error).splitlines())
    first = next((line for line in lines if line), "").rstrip(" :") or type(error).__name__
    return first if len(first) <= LONGEST else f"{first[:LONGEST]} ..."


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to a misspelt one, ignoring case; None if no name is similar."""
    folded = {other.casefold(): other for other in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 row`, `1,200 rows`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listed(names: Iterable[Any], most: int = MOST_NAMED) -> str:
    """`'a', 'b' and 'c'`; long lists end in `and 12 others`."""
    shown = [repr(name) for name in names]
    if len(shown) > most + 1:
        return f"{', '.join(shown[:most])} and {len(shown) - most:,} others"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def gigabytes(size: float) -> str:
    """`1.5 GB`."""
    return f"{size / 1e9:,.1f} GB"


def percent(share: float) -> str:
    """`20 %`, or with one decimal below ten percent: `4.3 %`."""
    value = 100 * share
    return f"{value:.0f} %" if value == 0 or round(value, 1) >= 10 else f"{value:.1f} %"
