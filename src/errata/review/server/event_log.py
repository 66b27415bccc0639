"""The append-only log of events, and the samples that were handed out."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import insert, select

from errata.review.server.database import ReviewDatabase
from errata.review.server.events import Event, utc_now


@dataclass(frozen=True)
class Assignment:
    """A sample that was handed out to a reviewer, and whether at a random position of the queue.

    after_event: the number of the last event before that, 0 if there was none.
    """

    number: int
    sample: str
    reviewer: str
    drawn_at_random: bool
    after_event: int


class EventLog:
    """Appends events and assignments, each call in one transaction. Nothing is ever changed or deleted."""

    def __init__(self, database: ReviewDatabase) -> None:
        self._database = database
        self._events = database.tables.tables["events"]
        self._assignments = database.tables.tables["assignments"]

    def events_after(self, number: int) -> list[Event]:
        """The stored events with a higher number, in order."""
        query = select(self._events).where(self._events.c.number > number).order_by(self._events.c.number)
        with self._database.begin() as connection:
            return [Event(**row) for row in connection.execute(query).mappings()]

    def append(self, events: Sequence[Event]) -> None:
        """Store events, which have numbers. When this returns, they are on disk."""
        with self._database.begin() as connection:
            connection.execute(insert(self._events), [asdict(event) for event in events])

    def assignments(self) -> list[Assignment]:
        """All assignments, in order."""
        columns = [
            self._assignments.c[name] for name in ("number", "sample", "reviewer", "drawn_at_random", "after_event")
        ]
        query = select(*columns).order_by(self._assignments.c.number)
        with self._database.begin() as connection:
            return [Assignment(**row) for row in connection.execute(query).mappings()]

    def assign(self, assignments: Iterable[Assignment]) -> None:
        """Store assignments."""
        rows = [{**asdict(assignment), "time": utc_now()} for assignment in assignments]
        if rows:
            with self._database.begin() as connection:
                connection.execute(insert(self._assignments), rows)
