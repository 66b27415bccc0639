"""How errors of libraries and misspelt names are put into one sentence."""

import difflib
from collections.abc import Iterable

LONGEST = 160  # characters of what a library says


def one_line(error: BaseException) -> str:
    """What a library says went wrong: the first line of it, without the page that may follow; never nothing."""
    lines = (" ".join(line.split()) for line in str(error).splitlines())
    said = next((line for line in lines if line), "").rstrip(" :") or type(error).__name__
    return said if len(said) <= LONGEST else f"{said[:LONGEST]} ..."


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a misspelt one was most likely meant to be, whatever its capitals."""
    folded = {other.casefold(): other for other in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None
