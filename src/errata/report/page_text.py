"""The sentences and facts at the head of the page."""

from typing import TYPE_CHECKING

from errata.finding.answer import answer

if TYPE_CHECKING:
    from errata.finding.found import Found

FACTS = (
    ("samples", "samples"),
    ("classes", "classes"),
    ("kind", "data"),
    ("model", "model"),
    ("method", "ranked by"),
    ("seconds", "seconds taken"),
)


def answer_of(found: "Found") -> tuple[str, list[str]]:
    """How many labels are wrong, which heads the page; how far to look, what was assumed, how that was estimated."""
    first, *others = answer(found)
    head, stop, how = first.partition(". ")
    return head + stop.strip(), [*others, how] if how else others


def remarks_of(found: "Found") -> list[str]:
    """What else a user should know of the data and the run."""
    said = answer(found)
    return [sentence for sentence in found.summary["notes"] if sentence not in said]


def facts_of(found: "Found") -> list[tuple[str, str]]:
    """What the run was, as pairs of a name and a value."""
    return [(title, _shown(found.summary[key])) for key, title in FACTS if found.summary.get(key) is not None]


def _shown(value: object) -> str:
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)
