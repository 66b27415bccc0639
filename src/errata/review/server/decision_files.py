"""decisions.csv out of a review and into it."""

import csv
import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from errata.review.decisions import COLUMNS, OPTIONAL_COLUMNS, Decision
from errata.review.server.events import ACCEPT, IMPORT, KEEP, RELABEL, Event, utc_now, utc_time
from errata.review.server.review_session import ReviewSession
from errata.wording import counted, listed

MOST_REPLACED = 20  # verdicts in a message


@dataclass
class ImportResult:
    """What became of the rows of a file: how many were stored, and how many were ignored for which reason.

    replaced: the verdicts that were replaced by newer ones. refused: rows of other reviewers, by name.
    """

    stored: int = 0
    known: int = 0
    older: int = 0
    unlisted: int = 0
    relabelled: int = 0
    replaced: list[str] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        ignored = {
            "known already": self.known,
            "not newer than the verdict or the clear here": self.older,
            "for samples not in these results": self.unlisted,
            "for samples with another label here": self.relabelled,
        }
        parts = [f"{count:,} {why}" for why, count in ignored.items() if count]
        sentences = [f"Loaded {counted(self.stored, 'decision')}."]
        if self.replaced:
            more = f" and {len(self.replaced) - MOST_REPLACED:,} more" if len(self.replaced) > MOST_REPLACED else ""
            shown = ", ".join(self.replaced[:MOST_REPLACED])
            sentences.append(f"Replaced {counted(len(self.replaced), 'older verdict')}: {shown}{more}.")
        if parts:
            sentences.append(f"Ignored: {'; '.join(parts)}.")
        if self.refused:
            sentences.append(
                f"Refused: {counted(sum(self.refused.values()), 'row')} of {listed(self.refused)}. A link takes only "
                "its reviewer's own verdicts; whoever runs the server can load those of others: errata review --import."
            )
        return " ".join(sentences)


def decisions_csv(session: ReviewSession, reviewer: str | None = None) -> str:
    """One row per verdict that counts, in the order of the ranking.

    Two rows for one sample agree, unless its reviewers disagree and nobody has settled it: `errata apply` lists these.
    reviewer: who gets the file, without the verdicts that they must not see yet; None for all verdicts.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *OPTIONAL_COLUMNS])
    with session.lock:
        writer.writerows(_rows(session, reviewer))
    return text.getvalue()


def _rows(session: ReviewSession, reviewer: str | None) -> Iterator[list[str]]:
    for place in sorted(session.state.judged_places()):
        if reviewer is not None and session.queue.is_blind(place, reviewer, session.state):
            continue
        for event in session.state.outcome(place).events:
            drawn = "yes" if event.drawn_at_random else ""
            yield [event.sample, event.label, event.verdict, event.new_label, event.reviewer, event.time, drawn]


def import_decisions(
    session: ReviewSession, decisions: Sequence[Decision], reviewer: str, *, uploader: str, of_all: bool = False
) -> tuple[ImportResult, list[int]]:
    """Store the decisions of a file that are newer than the log. Returns what became of them, and the changed places.

    A row counts for the reviewer that it names, or else for `reviewer`. One without a time is stored only where the log
    has nothing of its reviewer. uploader: who loads the file, for the log. of_all: whether rows of others are taken.
    """
    result = ImportResult()
    own = []
    for decision in decisions:
        if of_all or decision.reviewer in ("", reviewer):
            own.append(decision)
        else:
            result.refused[decision.reviewer] = result.refused.get(decision.reviewer, 0) + 1
    changed = session.append_imported(lambda: _newer_events(session, own, reviewer, result), uploader)
    return result, changed


def _newer_events(
    session: ReviewSession, decisions: Sequence[Decision], reviewer: str, result: ImportResult
) -> list[Event]:
    """The events to store, at most one per sample and reviewer; counts the other rows in `result`."""
    newest: dict[tuple[int, str], Event] = {}
    for decision in decisions:
        place = session.samples.places.get(decision.id)
        if place is None:
            result.unlisted += 1
        elif session.samples.labels[place] != decision.label:
            result.relabelled += 1
        else:
            event = _event(decision, place, decision.reviewer or reviewer, session)
            whose = place, event.reviewer
            before = newest.get(whose) or session.state.current.get(place, {}).get(event.reviewer)
            last = newest[whose].time if whose in newest else session.state.last_time(place, event.reviewer)
            if event.key in session.state.by_key or (before is not None and before.chosen == event.chosen):
                result.known += 1
            elif last and utc_time(decision.time) <= last:
                result.older += 1
            else:
                result.older += whose in newest
                newest[whose] = event
    for (place, name), event in newest.items():
        current = session.state.current.get(place, {}).get(name)
        if current is not None and current.chosen != event.chosen:
            result.replaced.append(f"sample {event.sample} of {name} ({_words(current)}, now {_words(event)})")
    result.stored = len(newest)
    return list(newest.values())


def _words(event: Event) -> str:
    """`keep`, `skip` or `accept dog`."""
    return f"{event.verdict} {event.new_label}".strip()


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
        time=utc_time(decision.time) or utc_now(),
        sample=decision.id,
        label=decision.label,
        rank=place + 1,
        suggestion=suggestion,
        verdict=verdict,
        new_label=new_label if verdict in (ACCEPT, RELABEL) else "",
        drawn_at_random=session.queue.drawn.get(place, False),
        kind=IMPORT,
    )
