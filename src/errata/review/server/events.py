"""One verdict of a reviewer, as it is stored for ever."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from errata.errors import InputError
from errata.wording import one_line

KEEP, ACCEPT, RELABEL, SKIP, CLEAR, UNDO = "keep", "accept", "relabel", "skip", "clear", "undo"
VERDICTS = (KEEP, ACCEPT, RELABEL, SKIP, CLEAR, UNDO)
REVIEW, BLIND, ADJUDICATION, IMPORT = "review", "blind", "adjudication", "import"
KEY = re.compile(r"[0-9a-zA-Z-]{16,80}")
LONGEST_LABEL = 10_000  # characters
LONGEST_TIME = 86_400.0  # seconds for one verdict; a page may stay open over night


@dataclass(frozen=True)
class Event:
    """A verdict about one sample, or its withdrawal.

    key: made by the page, so that an event that is sent twice counts once. time: when the server received it (UTC);
    that of the file for an import.
    sample, label: the id and the given label, as text. rank, suggestion: as shown to the reviewer. verdict: keep,
    accept, relabel, skip, clear or undo. new_label: empty unless accept or relabel. undoes: the key of the event that
    an undo withdraws. seconds: how long the sample was shown. drawn_at_random: True if the sample was handed out at a
    random position of a queue. kind: review, blind (a review while the verdicts of others were hidden), adjudication
    (settles a disagreement) or import. number: its place in the log.
    """

    key: str
    reviewer: str
    time: str
    sample: str
    label: str
    rank: int
    suggestion: str
    verdict: str
    new_label: str = ""
    undoes: str = ""
    seconds: float = 0.0
    drawn_at_random: bool = False
    kind: str = REVIEW
    number: int = 0

    @property
    def chosen(self) -> str | None:
        """The label that the sample has according to this verdict; None for skip."""
        if self.verdict == KEEP:
            return self.label
        return self.new_label if self.verdict in (ACCEPT, RELABEL) else None


def utc_now() -> str:
    """The time as text: `2026-01-31T12:00:00.000Z`."""
    return _as_text(datetime.now(UTC))


def utc_time(text: str) -> str:
    """A time in a file as `utc_now` writes it: UTC without a zone, and not after now. Empty if it is no time."""
    try:
        moment = datetime.fromisoformat(text.strip())
        utc = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    return min(_as_text(utc), utc_now())


def _as_text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_event(sent: Any, reviewer: str) -> Event:
    """An event as a page sends it. A sentence says what is wrong with another one."""
    if not isinstance(sent, Mapping):
        raise InputError("an event must be an object")
    texts = _texts(sent)
    if not KEY.fullmatch(texts["key"]):
        raise InputError("key of an event must be 16 to 80 letters, digits and hyphens")
    verdict, kind = sent.get("verdict"), sent.get("kind", REVIEW)
    if verdict not in VERDICTS:
        raise InputError(f"verdict must be one of {', '.join(VERDICTS)}, not {one_line(repr(verdict))}")
    if kind not in (REVIEW, ADJUDICATION):
        raise InputError(f"kind must be review or adjudication, not {one_line(repr(kind))}")
    if verdict in (ACCEPT, RELABEL) and not texts["new_label"].strip():
        raise InputError(f"the verdict is {verdict}, but new_label is empty")
    if verdict not in (ACCEPT, RELABEL):
        texts["new_label"] = ""
    if (verdict == UNDO) != bool(texts["undoes"]):
        raise InputError("undoes must be the key of an event if the verdict is undo, and empty otherwise")
    rank = _number(sent, "rank", 0)
    if not 0 <= rank < 2**53:
        raise InputError("rank of an event must be a whole number")
    seconds = min(max(_number(sent, "seconds", 0.0), 0.0), LONGEST_TIME)
    return Event(
        key=texts["key"],
        reviewer=reviewer,
        time=utc_now(),
        sample=texts["sample"],
        label=texts["label"],
        rank=int(rank),
        suggestion=texts["suggestion"],
        verdict=verdict,
        new_label=texts["new_label"],
        undoes=texts["undoes"],
        seconds=seconds,
        kind=kind,
    )


def _texts(sent: Mapping[str, Any]) -> dict[str, str]:
    texts = {name: sent.get(name, "") for name in ("key", "sample", "label", "suggestion", "new_label", "undoes")}
    for name, text in texts.items():
        if not isinstance(text, str) or len(text) > LONGEST_LABEL or not _can_be_stored(text):
            raise InputError(f"{name} of an event must be a text of at most {LONGEST_LABEL:,} characters")
    return texts


def _number(sent: Mapping[str, Any], name: str, default: float) -> float:
    value = sent.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{name} of an event must be a number")
    return value


def _can_be_stored(text: str) -> bool:
    """False for half of a character and for NUL, which PostgreSQL does not store."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
