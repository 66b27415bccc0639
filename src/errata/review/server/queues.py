"""Who judges which sample next."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from errata.core.random_part import EVERY, random_order, random_positions
from errata.review.server.event_log import Assignment
from errata.review.server.verdict_state import DISAGREEMENT, VerdictState

LEASE = 600.0  # seconds without a sign of life after which a sample is handed to someone else
MOST_VERDICTS = 3  # per sample; a disagreement after these needs an adjudication


@dataclass
class SharedQueue:
    """Hands out samples, so that each is judged by one reviewer, or by two if it is part of the overlap.

    seed: of the random positions and of the overlap. overlap: the share of samples that two reviewers judge.
    random_every: one in `random_every` samples is drawn at random.
    order: all places, most suspicious first; replaced after a re-ranking. random_places: all places in the order in
    which random positions take them. drawn: for each place that was handed out, in the order of handing out, whether
    this was at a random position. handed_after: the number of the last event before that. leases: for each place, until
    when (seconds) each reviewer has it.
    """

    samples: int
    seed: int
    reviewers: list[str]
    overlap: float = 0.0
    random_every: int = EVERY
    order: list[int] = field(default_factory=list)
    random_places: list[int] = field(default_factory=list)
    drawn: dict[int, bool] = field(default_factory=dict)
    handed_after: dict[int, int] = field(default_factory=dict)
    leases: dict[int, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.order = self.order or list(range(self.samples))
        self.random_places = self.random_places or random_order(self.samples, self.seed).tolist()
        self._random = random_positions(self.samples + 1, self.seed, self.random_every).tolist()
        shares = np.random.default_rng([self.seed, 2]).random(self.samples)
        self._twice = (shares < self.overlap) & (len(self.reviewers) > 1)

    def verdicts_needed(self, place: int, state: VerdictState) -> int:
        """One verdict, two in the overlap, and three if two reviewers disagree and there is a third."""
        needed = 2 if self._twice[place] else 1
        if len(state.current.get(place, {})) >= 2 and state.outcome(place).status == DISAGREEMENT:
            needed = MOST_VERDICTS
        return min(needed, max(len(self.reviewers), 1))

    def is_blind(self, place: int, reviewer: str, state: VerdictState) -> bool:
        """Whether a reviewer must not see the verdicts of others: they may still judge this sample themselves."""
        return reviewer not in state.current.get(place, {}) and self.is_hidden(place, state)

    def is_hidden(self, place: int, state: VerdictState) -> bool:
        """Whether another reviewer is to judge a sample of the overlap without seeing the verdicts that it has."""
        if place in state.adjudicated:
            return False
        return bool(self._twice[place]) and len(state.current.get(place, {})) < self.verdicts_needed(place, state)

    def needs_adjudication(self, place: int, state: VerdictState) -> bool:
        """Whether the reviewers disagree and no further reviewer is going to judge the sample."""
        return (
            state.outcome(place).status == DISAGREEMENT
            and len(state.current[place]) >= self.verdicts_needed(place, state)
        )  # fmt: skip

    def open_places(self, reviewer: str, state: VerdictState, now: float) -> list[int]:
        """The places that a reviewer has and has not judged yet, in the order of handing out."""
        held = (place for place, holders in self.leases.items() if holders.get(reviewer, 0) > now)
        return [place for place in held if reviewer not in state.current.get(place, {})]

    def renew(self, reviewer: str, now: float) -> None:
        """Extend the leases of a reviewer whose page is open."""
        for holders in self.leases.values():
            if holders.get(reviewer, 0) > now:
                holders[reviewer] = now + LEASE

    def restore_all(self, assignments: Iterable[Assignment], places: Mapping[str, int], now: float) -> int:
        """Take over what was handed out before a restart. Returns the last number, or 0."""
        number = 0
        for assignment in assignments:
            number, place = assignment.number, places.get(assignment.sample)
            if place is not None:
                self.drawn.setdefault(place, assignment.drawn_at_random)
                self.handed_after.setdefault(place, assignment.after_event)
                self._lease(place, assignment.reviewer, now)
        return number

    def extend(self, reviewer: str, count: int, state: VerdictState, now: float) -> list[int]:
        """Hand out up to `count` more places. Half of them may be second verdicts on samples of other reviewers."""
        taken: list[int] = []
        for place in self._waiting_for(reviewer, state, now)[: max(1, count // 2)]:
            taken.append(place)
            self._lease(place, reviewer, now)
        while len(taken) < count:
            random = self._random[len(self.drawn)]
            free = self._first_free(self.random_places if random else self.order, state, now)
            if free is None:
                break
            self.drawn.setdefault(free, random)
            self.handed_after.setdefault(free, state.last_number)
            self._lease(free, reviewer, now)
            taken.append(free)
        return taken

    def _lease(self, place: int, reviewer: str, now: float) -> None:
        self.leases.setdefault(place, {})[reviewer] = now + LEASE

    def _waiting_for(self, reviewer: str, state: VerdictState, now: float) -> list[int]:
        """Places that others judge or have judged, and that need one more verdict."""
        touched = [*state.current, *(place for place in self.leases if place not in state.current)]
        return [place for place in touched if self._wants(place, reviewer, state, now)]

    def _wants(self, place: int, reviewer: str, state: VerdictState, now: float) -> bool:
        verdicts, holders = state.current.get(place, {}), self.leases.get(place, {})
        live = {name for name, until in holders.items() if until > now}
        if reviewer in verdicts or reviewer in live or place in state.adjudicated or not (verdicts or live):
            return False
        return len(verdicts.keys() | live) < self.verdicts_needed(place, state)

    def _first_free(self, places: list[int], state: VerdictState, now: float) -> int | None:
        """The first place that nobody has judged and nobody has now."""
        for place in places:
            if place in state.current or place in state.adjudicated:
                continue
            if not any(until > now for until in self.leases.get(place, {}).values()):
                return place
        return None
