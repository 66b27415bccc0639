"""The verdicts in the database of a review, read without a server, also while one is running."""

from pathlib import Path

import numpy as np

from errata.core.guarantees import Verdicts
from errata.extras import require
from errata.finding.found import Found
from errata.review.server.database import ReviewDatabase
from errata.review.server.event_log import EventLog
from errata.review.server.panel import judged_verdicts
from errata.review.server.queues import SharedQueue
from errata.review.server.verdict_state import VerdictState


def stored_verdicts(found: Found, path: Path) -> Verdicts:
    """The verdicts on the samples of a ranking. path: the SQLite file of the review."""
    require("sqlalchemy", "SQLAlchemy", "review", "the database of a review")
    ids, labels = (list(map(str, found.ranking[name].tolist())) for name in ("id", "label"))
    places = {id_: place for place, id_ in enumerate(ids)}
    state, queue = VerdictState(places, labels), SharedQueue(len(ids), 0, [])
    database = ReviewDatabase(path, read_only=True)
    try:
        log = EventLog(database)
        for assignment in log.assignments():
            place = places.get(assignment.sample)
            if place is not None:
                queue.restore(place, assignment.reviewer, assignment.drawn_at_random, assignment.after_event, 0.0)
        for event in log.events_after(0):
            state.add(event)
    finally:
        database.close()
    return judged_verdicts(state, queue, found.ranking["p_wrong"].to_numpy(dtype=np.float64))
