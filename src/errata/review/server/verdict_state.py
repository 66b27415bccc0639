"""What follows from the events: the verdict of each reviewer on each sample, and the outcome per sample."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from errata.review.server.events import ADJUDICATION, BLIND, CLEAR, SKIP, UNDO, Event
from errata.wording import counted

OPEN, DECIDED, SKIPPED, DISAGREEMENT = "open", "decided", "skipped", "disagreement"


@dataclass(frozen=True)
class Outcome:
    """The result for one sample: open, decided, skipped or disagreement, and the events that it rests on."""

    status: str
    events: tuple[Event, ...] = ()

    @property
    def chosen(self) -> str | None:
        """The label that the sample has, if it is decided."""
        return self.events[0].chosen if self.status == DECIDED else None


NO_VERDICT = Outcome(OPEN)


@dataclass
class VerdictState:
    """All events of a log, folded in their order. Places are positions in the ranking, from 0.

    places: the place of each id. labels: the given label at each place. Events about samples that are gone or whose
    label has changed stay in the log without effect; `stale` counts their verdicts. last_number: that of the last
    event.
    """

    places: Mapping[str, int]
    labels: list[str]
    by_key: dict[str, Event] = field(default_factory=dict)
    undone: set[str] = field(default_factory=set)
    last_number: int = 0
    current: dict[int, dict[str, Event]] = field(default_factory=dict)
    adjudicated: dict[int, Event] = field(default_factory=dict)
    _of_place: dict[int, list[Event]] = field(default_factory=dict)
    _outcomes: dict[int, Outcome] = field(default_factory=dict)
    _stale: dict[tuple[str, str], list[Event]] = field(default_factory=dict)

    def place_of(self, event: Event) -> int | None:
        """The place of the sample of an event; None if it is gone or has another label now."""
        place = self.places.get(event.sample)
        return place if place is not None and self.labels[place] == event.label else None

    def add(self, event: Event) -> int | None:
        """Take in the next event; returns the place that it changes."""
        self.by_key[event.key] = event
        self.last_number = event.number
        place = self.place_of(event)
        if event.verdict == UNDO:
            self.undone.add(event.undoes)
        if place is None:
            self._stale.setdefault((event.sample, event.label), []).append(event)
            return None
        self._of_place.setdefault(place, []).append(event)
        self._fold(place)
        return place

    def _fold(self, place: int) -> None:
        """Compute the verdicts on one sample anew."""
        verdicts, adjudicated = self._in_force(self._of_place[place])
        _set_or_delete(self.current, place, verdicts or None)
        _set_or_delete(self.adjudicated, place, adjudicated)
        self._outcomes[place] = _outcome_of(verdicts.values() if adjudicated is None else [adjudicated])

    def _in_force(self, events: Iterable[Event]) -> tuple[dict[str, Event], Event | None]:
        """The verdict of each reviewer after all events of one sample, and the adjudication.

        A clear withdraws one's own verdict, or else those of all. A blind one withdraws only one's own: the others are
        hidden.
        """
        verdicts: dict[str, Event] = {}
        adjudicated = None
        for event in events:
            if event.key in self.undone or event.verdict == UNDO:
                continue
            if event.verdict == CLEAR:
                adjudicated = None
                own = None if event.kind == ADJUDICATION else verdicts.pop(event.reviewer, None)
                if own is None and event.kind != BLIND:
                    verdicts.clear()
            elif event.kind == ADJUDICATION:
                adjudicated = event
            else:
                verdicts.pop(event.reviewer, None)  # the newest is the last in the order
                verdicts[event.reviewer] = event
        return verdicts, adjudicated

    @property
    def stale(self) -> int:
        """How many verdicts are about samples that are gone or have another label now."""
        return sum(self._stale_counts())

    def _stale_counts(self) -> tuple[int, int]:
        """The verdicts about samples that are gone, and about labels that have changed."""
        counts = [0, 0]
        for (sample, _), events in self._stale.items():
            verdicts, adjudicated = self._in_force(events)
            counts[sample in self.places] += len(verdicts) + (adjudicated is not None)
        return counts[0], counts[1]

    def left_out(self) -> str:
        """A sentence about the verdicts without effect; empty if there are none."""
        gone, changed = self._stale_counts()
        reasons = ((gone, "on samples that are gone"), (changed, "on labels that have changed since"))
        parts = " and ".join(f"{count:,} {why}" for count, why in reasons if count)
        return f"Left out: {counted(gone + changed, 'verdict')}, {parts}." if parts else ""

    def outcome(self, place: int) -> Outcome:
        """An adjudication, or else the label that all reviewers or more than half of them chose. Skips do not count."""
        return self._outcomes.get(place, NO_VERDICT)

    def judged_places(self) -> set[int]:
        """The places with any verdict."""
        return self.current.keys() | self.adjudicated.keys()

    def last_time(self, place: int, reviewer: str) -> str:
        """When a reviewer's verdict on a sample was last given, changed or cleared; empty if it never was."""
        events = self._of_place.get(place, [])
        return max((event.time for event in events if event.reviewer == reviewer or event.verdict == CLEAR), default="")

    def first_number(self, place: int) -> int | None:
        """The number of the first event about a sample, withdrawn or not; None without one."""
        events = self._of_place.get(place)
        return events[0].number if events else None

    def blind_verdicts(self) -> Iterator[list[Event]]:
        """For each sample, the first verdicts of reviewers who had not seen another one, also if changed later."""
        for events in self._of_place.values():
            first: dict[str, Event] = {}
            for event in events:
                first.setdefault(event.reviewer, event)
            yield [event for event in first.values() if event.kind == BLIND and event.chosen is not None]

    def own_events(self, reviewer: str) -> list[tuple[int, Event]]:
        """The events of a reviewer that are not undone, in order, with their places."""
        own = (event for event in self.by_key.values() if event.reviewer == reviewer and event.verdict != UNDO)
        placed = ((self.place_of(event), event) for event in own if event.key not in self.undone)
        return [(place, event) for place, event in placed if place is not None]


def _outcome_of(events: Iterable[Event]) -> Outcome:
    verdicts = tuple(events)
    deciding = tuple(event for event in verdicts if event.verdict != SKIP)
    if not deciding:
        return Outcome(SKIPPED, verdicts) if verdicts else NO_VERDICT
    votes = Counter(event.chosen for event in deciding)
    label, count = votes.most_common(1)[0]
    if 2 * count > len(deciding):
        return Outcome(DECIDED, tuple(event for event in deciding if event.chosen == label))
    return Outcome(DISAGREEMENT, deciding)


def _set_or_delete(mapping: dict[int, Any], place: int, value: Any) -> None:
    if value is None:
        mapping.pop(place, None)
    else:
        mapping[place] = value
