"""Counts and agreement for the panel on the page, and the arrays for statistics of the verdicts.

This is the one place where the log becomes statistics: `judged_arrays` for estimates, `panel` for the page.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.review.agreement import Kappa, cohen_kappa, fleiss_kappa
from errata.review.server.events import IMPORT, SKIP
from errata.review.server.queues import SharedQueue
from errata.review.server.verdict_state import DECIDED, DISAGREEMENT, VerdictState


@dataclass(frozen=True, eq=False)
class JudgedArrays:
    """The decided samples, in the order of their first verdict.

    rows (n,): places in the ranking, from 0. wrong (n,): True if the given label is wrong. drawn_at_random (n,): True
    if the sample was handed out at a random position: the first one of `queues.random_order` that was not judged yet.
    Skipped samples and open disagreements are left out.
    """

    rows: NDArray[np.int64]
    wrong: NDArray[np.bool_]
    drawn_at_random: NDArray[np.bool_]


def judged_arrays(state: VerdictState, queue: SharedQueue) -> JudgedArrays:
    """The decided samples as arrays."""
    decided = []
    for place in state.judged_places():
        outcome = state.outcome(place)
        if outcome.status == DECIDED:
            first = min(event.number for event in outcome.events)
            decided.append((first, place, outcome.chosen != state.labels[place], queue.drawn.get(place, False)))
    decided.sort()
    return JudgedArrays(
        rows=np.array([place for _, place, _, _ in decided], dtype=np.int64),
        wrong=np.array([wrong for _, _, wrong, _ in decided], dtype=np.bool_),
        drawn_at_random=np.array([drawn for _, _, _, drawn in decided], dtype=np.bool_),
    )


def agreement(state: VerdictState) -> Kappa | None:
    """The agreement on samples that two reviewers judged: Cohen's kappa for one pair of reviewers, otherwise Fleiss'.

    Only the first two verdicts of a sample count, which were given without seeing each other. The categories are the
    chosen labels.
    """
    pairs = []
    for verdicts in state.current.values():
        given = [event for event in verdicts.values() if event.verdict != SKIP and event.kind != IMPORT]
        if len(given) >= 2:
            first = sorted(sorted(given, key=lambda event: event.number)[:2], key=lambda event: event.reviewer)
            pairs.append((first[0], first[1]))
    if not pairs:
        return None
    chosen = [(one.chosen, other.chosen) for one, other in pairs]
    if len({(one.reviewer, other.reviewer) for one, other in pairs}) > 1:
        return fleiss_kappa(chosen)
    return cohen_kappa([one for one, _ in chosen], [other for _, other in chosen])


def panel(state: VerdictState, queue: SharedQueue) -> dict[str, Any]:
    """What the panel of the page shows, for JSON."""
    judged = judged_arrays(state, queue)
    per_reviewer = Counter(name for verdicts in state.current.values() for name in verdicts)
    kappa = agreement(state)
    disagreements = [place for place in state.current if state.outcome(place).status == DISAGREEMENT]
    return {
        "judged": len(judged.rows),
        "wrong": int(judged.wrong.sum()),
        "random": int(judged.drawn_at_random.sum()),
        "randomWrong": int(judged.wrong[judged.drawn_at_random].sum()),
        "reviewers": {name: per_reviewer[name] for name in sorted({*queue.reviewers, *per_reviewer})},
        "disagreements": len(disagreements),
        "kappa": None if kappa is None else _as_json(kappa),
        "stale": state.stale,
    }


def _as_json(kappa: Kappa) -> dict[str, Any]:
    numbers = {name: getattr(kappa, name) for name in ("value", "low", "high")}
    rounded = {name: None if number is None else round(number, 3) for name, number in numbers.items()}
    return {**rounded, "name": kappa.name, "samples": kappa.samples, "agreed": kappa.agreed}
