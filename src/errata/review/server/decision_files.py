"""decisions.csv out of a review and into it."""

import csv
import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from errata.review.decisions import COLUMNS, OPTIONAL_COLUMNS, Decision
from errata.review.server.events import ACCEPT, IMPORT, KEEP, RELABEL, SKIP, Event, utc_now
from errata.review.server.review_session import ReviewSession
from errata.wording import counted


@dataclass(frozen=True)
class ImportCounts:
    """What became of the rows of a file."""

    stored: int
    known: int
    unlisted: int
    relabelled: int

    def __str__(self) -> str:
        ignored = {
            "known already": self.known,
            "for samples not in these results": self.unlisted,
            "for samples with another label here": self.relabelled,
        }
        parts = [f"{count:,} {why}" for why, count in ignored.items() if count]
        return f"Loaded {counted(self.stored, 'decision')}." + (f" Ignored: {'; '.join(parts)}." if parts else "")


def decisions_csv(session: ReviewSession) -> str:
    """One row per verdict that counts, in the order of the ranking.

    Two rows for one sample agree, unless its reviewers disagree and nobody has settled it: `errata apply` lists these.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *OPTIONAL_COLUMNS])
    writer.writerows(_rows(session))
    return text.getvalue()


def _rows(session: ReviewSession) -> Iterator[list[str]]:
    for place in sorted(session.state.judged_places()):
        for event in session.state.outcome(place).events:
            drawn = "yes" if event.drawn_at_random else ""
            yield [event.sample, event.label, event.verdict, event.new_label, event.reviewer, event.time, drawn]


def import_decisions(
    session: ReviewSession, decisions: Sequence[Decision], reviewer: str
) -> tuple[ImportCounts, list[int]]:
    """Store the decisions of a file as events, each once however often it is imported. Returns the changed places.

    reviewer: who is named in the log for rows that name nobody.
    """
    events, known, unlisted, relabelled = [], 0, 0, 0
    for decision in decisions:
        place = session.samples.places.get(decision.id)
        if place is None:
            unlisted += 1
        elif session.samples.labels[place] != decision.label:
            relabelled += 1
        else:
            event = _event(decision, place, decision.reviewer or reviewer, session)
            before = session.state.current.get(place, {}).get(event.reviewer)
            if before is not None and (before.chosen, before.verdict == SKIP) == (event.chosen, event.verdict == SKIP):
                known += 1
            else:
                events.append(event)
    stored, changed = session.append_imported(events)
    return ImportCounts(stored, known + len(events) - stored, unlisted, relabelled), changed


def _event(decision: Decision, place: int, reviewer: str, session: ReviewSession) -> Event:
    """Choosing the given label means keep; choosing the suggested label means accept."""
    suggestion, verdict, new_label = session.samples.suggested[place], decision.decision, decision.new_label
    if verdict in (ACCEPT, RELABEL):
        verdict = KEEP if new_label == decision.label else ACCEPT if new_label == suggestion else RELABEL
    parts = (reviewer, decision.time, decision.id, verdict, new_label)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return Event(
        key=f"import-{digest[:40]}",
        reviewer=reviewer,
        time=decision.time or utc_now(),
        sample=decision.id,
        label=decision.label,
        rank=place + 1,
        suggestion=suggestion,
        verdict=verdict,
        new_label=new_label if verdict in (ACCEPT, RELABEL) else "",
        drawn_at_random=session.queue.drawn.get(place, False),
        kind=IMPORT,
    )
