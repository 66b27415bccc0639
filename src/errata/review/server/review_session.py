"""A running review: samples, log, verdicts and queues together, one call at a time."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from errata.core.random_part import EVERY
from errata.errors import InputError, StoreError
from errata.readers.file_access import file_errors
from errata.review.reranking import JudgedLabels, reranked
from errata.review.server.database import ReviewDatabase
from errata.review.server.event_log import Assignment, EventLog
from errata.review.server.events import ACCEPT, ADJUDICATION, BLIND, CLEAR, RELABEL, REVIEW, UNDO, Event, read_event
from errata.review.server.panel import judged_verdicts, panel, statements
from errata.review.server.queues import SharedQueue
from errata.review.server.review_samples import ReviewSamples
from errata.review.server.verdict_state import VerdictState
from errata.wording import nearest, one_line

BATCH = 10  # samples handed out at once
RERANK_AFTER = 10  # verdicts
RETRAINED = "retrained.parquet"  # in the folder of results: id, p_wrong, verified (judged before), run


@dataclass
class Reply:
    """The answer to events that were sent: which are stored, and which are refused, with the reason."""

    acknowledged: list[str] = field(default_factory=list)
    refused: list[dict[str, str]] = field(default_factory=list)


class ReviewSession:
    """Everything that the server does, without the web. Methods may be called from several threads."""

    def __init__(
        self,
        samples: ReviewSamples,
        database: ReviewDatabase,
        reviewers: list[str],
        overlap: float = 0.0,
        random_every: int = EVERY,
    ) -> None:
        """overlap, random_every: see `SharedQueue`. `lock` is held while verdicts change."""
        self.samples, self.database, self.reviewers = samples, database, reviewers
        self.log = EventLog(database)
        self.state = VerdictState(samples.places, samples.labels)
        self.queue = SharedQueue(
            len(samples.ids), samples.seed, reviewers, overlap, random_every, random_places=samples.random_places
        )
        self.lock, self._panel_lock = threading.RLock(), threading.Lock()
        self.panel: dict[str, Any] = {}  # for the page
        self.disagreements: list[int] = []
        self.training = ""  # how a training went
        self._p_wrong, self._trained_on = samples.p_wrong, set[int]()
        self._rankings, self._panel_of = 0, (-1, 0)  # the last event and the ranking that the panel rests on
        self.last_number = 0
        self._read_new_events()
        self._since_reranked = self.last_number
        self._assigned = self.queue.restore_all(self.log.assignments(), samples.places, time.monotonic())
        if (samples.folder / RETRAINED).is_file():
            self.rank_by_retrained()

    def _read_new_events(self) -> list[int]:
        """Take in events that are stored but not yet known: at the start, and after a commit of unknown result."""
        changed = []
        for event in self.log.events_after(self.last_number):
            self.last_number = event.number
            changed.append(self.state.add(event))
        self._uncertain = False
        return [place for place in changed if place is not None]

    def record(self, sent: Sequence[tuple[str, Sequence[Any]]]) -> tuple[list[Reply], list[int]]:
        """Check and store what several reviewers sent, in one transaction. Returns their replies and changed places.

        A StoreError means that nothing was acknowledged. The page then sends the same events again.
        """
        with self.lock:
            changed = self._read_new_events() if self._uncertain else []
            new: dict[str, Event] = {}
            replies = [self._check_all(reviewer, events, new) for reviewer, events in sent]
            if new:
                changed += self._append(list(new.values()))
            return replies, changed

    def _append(self, events: list[Event], uploader: str = "") -> list[int]:
        numbered = [replace(event, number=self.last_number + 1 + at) for at, event in enumerate(events)]
        self._uncertain = True  # until the commit is known to have succeeded
        self.log.append(numbered, uploader)
        self._uncertain = False
        self.last_number += len(numbered)
        self._since_reranked += len(numbered)
        places = [self.state.add(event) for event in numbered]
        return [place for place in places if place is not None]

    def _check_all(self, reviewer: str, events: Sequence[Any], new: dict[str, Event]) -> Reply:
        reply = Reply()
        for sent in events:
            key = str(sent.get("key", "")) if isinstance(sent, dict) else ""
            try:
                event = read_event(sent, reviewer)
                known = self.state.by_key.get(key) or new.get(key)
                if known is None:
                    new[key] = self._checked(event, new, bool(sent.get("new_class")))
                elif known.reviewer != reviewer:
                    raise InputError("another reviewer has sent an event with this key")
                reply.acknowledged.append(key)
            except InputError as error:
                reply.refused.append({"key": key[:80], "reason": str(error)})
        return reply

    def _checked(self, event: Event, new: dict[str, Event], new_class: bool) -> Event:
        """The event with what the server knows. Refuses what does not fit the samples."""
        place = self.samples.places.get(event.sample)
        name = one_line(repr(event.sample))
        if place is None:
            raise InputError(f"there is no sample {name} in these results")
        if self.samples.labels[place] != event.label:
            raise InputError(
                f"the label of sample {name} is {self.samples.labels[place]!r} now, not {one_line(repr(event.label))}: "
                "the data have changed since the page was opened. Reload it"
            )
        if event.verdict == ACCEPT and event.new_label != self.samples.suggested[place]:
            raise InputError(f"the suggestion for sample {name} is {self.samples.suggested[place]!r}")
        if event.verdict == RELABEL and event.new_label not in self.samples.class_codes and not new_class:
            similar = nearest(event.new_label, self.samples.classes)
            hint = f"; did you mean {similar!r}?" if similar else ""
            raise InputError(f"there is no class {one_line(repr(event.new_label))}{hint}")
        if event.verdict == UNDO:
            self._check_undo(event, new)
        elif event.kind == ADJUDICATION and not self._may_be_settled(place):
            raise InputError(f"the reviewers do not disagree on sample {name}")
        elif event.kind == REVIEW and self.queue.is_blind(place, event.reviewer, self.state):
            mine = (other for other in new.values() if other.reviewer == event.reviewer)
            if event.verdict == CLEAR and all(other.sample != event.sample for other in mine):
                raise InputError(
                    f"you have no verdict on sample {name} to clear, and those of others are hidden until you judge it"
                )
            event = replace(event, kind=BLIND)
        return replace(event, drawn_at_random=self.queue.drawn.get(place, False))

    def _may_be_settled(self, place: int) -> bool:
        return place in self.state.adjudicated or self.queue.needs_adjudication(place, self.state)

    def _check_undo(self, event: Event, new: dict[str, Event]) -> None:
        undone = self.state.by_key.get(event.undoes) or new.get(event.undoes)
        if undone is None or undone.reviewer != event.reviewer or undone.verdict == UNDO:
            raise InputError("only an own verdict can be undone")
        if undone.sample != event.sample:
            raise InputError("the event to undo is about another sample")
        if event.undoes in self.state.undone or any(other.undoes == event.undoes for other in new.values()):
            raise InputError("this verdict is undone already")

    def append_imported(self, choose: Callable[[], list[Event]], uploader: str) -> list[int]:
        """Store the imported events that `choose` returns, with no verdict in between. Returns the changed places."""
        with self.lock:
            changed = self._read_new_events() if self._uncertain else []
            events = choose()
            return changed + (self._append(events, uploader) if events else [])

    def next_places(self, reviewer: str) -> list[int]:
        """The places that a reviewer is to judge now, topped up to a full batch."""
        with self.lock:
            now = time.monotonic()
            self.queue.renew(reviewer, now)
            held = self.queue.open_places(reviewer, self.state, now)
            new = self.queue.extend(reviewer, max(0, BATCH - len(held)), self.state, now) if len(held) < BATCH else []
            assignments = [
                Assignment(
                    number=self._assigned + 1 + at,
                    sample=self.samples.ids[place],
                    reviewer=reviewer,
                    drawn_at_random=self.queue.drawn.get(place, False),
                    after_event=self.queue.handed_after.get(place, self.last_number),
                )
                for at, place in enumerate(new)
            ]
            try:
                self.log.assign(assignments)
            except StoreError:
                for place in new:
                    del self.queue.leases[place][reviewer]
                if not held:
                    raise
                return held
            self._assigned += len(assignments)
            return held + new

    def still_here(self, reviewer: str) -> None:
        """The page of a reviewer is open: others do not get their samples."""
        with self.lock:
            self.queue.renew(reviewer, time.monotonic())

    def snapshot(self, reviewer: str) -> dict[str, Any]:
        """All that a page needs after it was opened: own events, visible verdicts of others, queue and panel."""
        queue = self.next_places(reviewer)
        self.update_panel()
        with self.lock:
            events = self.state.own_events(reviewer)
            own = [[event.key, place, event.verdict, event.new_label, event.kind] for place, event in events]
            places = self.state.judged_places() | {place for place, _ in events}
            return {
                "run": self.samples.run,
                "number": self.last_number,
                "own": own,
                "queue": queue,
                **self.changes(reviewer, sorted(places)),
            }

    def changes(self, reviewer: str, places: Iterable[int]) -> dict[str, Any]:
        """What a reviewer may see of some samples, the disagreements and the panel."""
        with self.lock:
            return {
                "number": self.last_number,
                "samples": [self._visible(place, reviewer) for place in dict.fromkeys(places)],
                "disagreements": self.disagreements,
                "panel": {**self.panel, "training": self.training},
            }

    def _visible(self, place: int, reviewer: str) -> dict[str, Any]:
        adjudicated, mine = self.state.adjudicated.get(place), self.state.current.get(place, {}).get(reviewer)
        verdicts = (
            [] if self.queue.is_blind(place, reviewer, self.state) else self.state.current.get(place, {}).values()
        )
        return {
            "place": place,
            "mine": mine and [mine.verdict, mine.new_label],
            "others": [
                [event.reviewer, event.verdict, event.new_label] for event in verdicts if event.reviewer != reviewer
            ],
            "adjudicated": adjudicated and [adjudicated.reviewer, adjudicated.verdict, adjudicated.new_label],
        }

    def update_panel(self) -> None:
        """Compute the panel and the disagreements, if there are new verdicts. Verdicts can be stored meanwhile."""
        with self._panel_lock:
            with self.lock:
                current, state, queue = (self.last_number, self._rankings), self.state, self.queue
                if current == self._panel_of:
                    return
                order, verdicts = queue.order, judged_verdicts(state, queue, self.samples.p_wrong)
                disagreements = sorted(place for place in state.current if queue.needs_adjudication(place, state))
                counts = panel(state, queue)
            shown = {**counts, "statements": statements(verdicts, order)}
            with self.lock:
                self.panel, self.disagreements, self._panel_of = shown, disagreements, current

    def rerank_if_due(self) -> bool:
        """Rank the samples again if enough verdicts have arrived since the last time."""
        with self.lock:
            if self._since_reranked < RERANK_AFTER:
                return False
            self._since_reranked = 0
            judged, before = self._judged_labels(), self._p_wrong
        p_wrong = reranked(before, self.samples.label_codes, judged, self.samples.near)
        order = np.argsort(-p_wrong, kind="stable").tolist()
        with self.lock:
            self.queue.order = order
            self._rankings += 1
        return True

    def verified_labels(self) -> dict[str, str]:
        """The label of each sample whose reviewers agree, by id."""
        with self.lock:
            outcomes = {place: self.state.outcome(place).chosen for place in sorted(self.state.judged_places())}
        return {self.samples.ids[place]: label for place, label in outcomes.items() if label is not None}

    def rank_by_retrained(self) -> None:
        """Rank by the model that was trained on verified labels, if it is one of these results.

        The verdicts that it was trained on say nothing about its p_wrong, so re-ranking leaves them out.
        """
        import pandas as pd

        path = self.samples.folder / RETRAINED
        with file_errors(path, "is not a complete Parquet file", (OSError, ValueError)):
            table = pd.read_parquet(path, columns=["id", "p_wrong", "verified", "run"]).set_index("id")
        if set(table["run"]) != {self.samples.run}:
            return  # of earlier results in this folder
        table = table.reindex(self.samples.ids)
        with self.lock:
            self._p_wrong = table["p_wrong"].to_numpy(dtype=np.float64)
            self._trained_on = set(np.flatnonzero(table["verified"].to_numpy()).tolist())
            self._since_reranked = RERANK_AFTER
        self.rerank_if_due()

    def _judged_labels(self) -> JudgedLabels:
        codes = dict(self.samples.class_codes)
        rows, classes = [], []
        for place in self.state.judged_places() - self._trained_on:
            chosen = self.state.outcome(place).chosen
            if chosen is not None:
                rows.append(place)
                classes.append(codes.setdefault(chosen, len(codes)))
        return JudgedLabels(np.array(rows, dtype=np.int64), np.array(classes, dtype=np.int64))
