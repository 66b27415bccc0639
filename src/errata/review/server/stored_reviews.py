"""The verdicts in the database of a review, read without a server, also while one is running."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from errata.core.guarantees import Verdicts
from errata.finding.found import Found
from errata.review.decisions import Decision
from errata.review.server.database import ReviewDatabase
from errata.review.server.event_log import EventLog
from errata.review.server.panel import judged_verdicts
from errata.review.server.queues import SharedQueue
from errata.review.server.verdict_state import VerdictState


class StoredReview(NamedTuple):
    """The verdicts as arrays, and the decision about each judged sample; a disagreement is a skip.

    left_out: a sentence about verdicts on samples that are gone or have another label now; empty without any.
    """

    verdicts: Verdicts
    decisions: tuple[Decision, ...]
    left_out: str


def stored_review(found: Found, address: str | Path) -> StoredReview:
    """The verdicts on the samples of a ranking. address: the SQLite file of the review, or postgresql://..."""
    ids, labels = (list(map(str, found.ranking[name].tolist())) for name in ("id", "label"))
    places = {id_: place for place, id_ in enumerate(ids)}
    state, queue = VerdictState(places, labels), SharedQueue(len(ids), 0, [])
    database = ReviewDatabase(address, read_only=True)
    try:
        log = EventLog(database)
        queue.restore_all(log.assignments(), places, 0.0)
        for event in log.events_after(0):
            state.add(event)
    finally:
        database.close()
    verdicts = judged_verdicts(state, queue, found.ranking["p_wrong"].to_numpy(dtype=np.float64))
    decisions = []
    for place in sorted(state.judged_places()):
        chosen = state.outcome(place).chosen
        verdict = "skip" if chosen is None else "keep" if chosen == labels[place] else "relabel"
        new_label = chosen if chosen is not None and verdict == "relabel" else ""
        decisions.append(Decision(ids[place], labels[place], verdict, new_label, database.name, f"rank {place + 1}"))
    return StoredReview(verdicts, tuple(decisions), state.left_out())
