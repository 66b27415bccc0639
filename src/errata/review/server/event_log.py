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
        self._imports = database.tables.tables["imports"]

    def events_after(self, number: int) -> list[Event]:
        """The stored events with a higher number, in order."""
        query = select(self._events).where(self._events.c.number > number).order_by(self._events.c.number)
        with self._database.begin() as connection:
            return [Event(**row) for row in connection.execute(query).mappings()]

    def append(self, events: Sequence[Event], uploader: str = "") -> None:
        """Store events, which have numbers. When this returns, they are on disk. uploader: who imported them."""
        with self._database.begin() as connection:
            connection.execute(insert(self._events), [asdict(event) for event in events])
            if uploader:
                row = {"first_event": events[0].number, "last_event": events[-1].number, "uploader": uploader}
                connection.execute(insert(self._imports), {**row, "time": utc_now()})

    def uploaders(self) -> list[tuple[int, int, str]]:
        """The first and the last event of each import, and who loaded the file."""
        columns = [self._imports.c[name] for name in ("first_event", "last_event", "uploader")]
        with self._database.begin() as connection:
            return [tuple(row) for row in connection.execute(select(*columns).order_by(columns[0]))]

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
