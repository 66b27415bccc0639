"""Counts, agreement and statements for the panel on the page, and the arrays for statistics of the verdicts.

This is the one place where the log becomes statistics: `judged_verdicts` for estimates, `panel` for the page.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.guarantees import RIGHT, UNSURE, WRONG, Verdicts, check_verdicts
from errata.review.agreement import Kappa, cohen_kappa, fleiss_kappa
from errata.review.certified_review import certified_review, sentences
from errata.review.server.queues import SharedQueue
from errata.review.server.verdict_state import DECIDED, OPEN, VerdictState

FEWEST_CHECKS = 10  # random verdicts; with fewer, nothing is stated
LEFT_BEHIND = 100  # samples handed out after one without a verdict, from which on that is unsure


def judged_verdicts(state: VerdictState, queue: SharedQueue, p_wrong: NDArray[np.float64]) -> Verdicts:
    """The verdicts for `errata.core.guarantees`. Rows are places in the ranking, and p_wrong (N,) is in its order.

    A skipped sample and an open disagreement are unsure, and so is one whose verdict must not show before another
    reviewer has judged it too: the statements on the page would give it away. The order is that of handing out, because
    a random draw is uniform among the samples that were not handed out before. A sample that was judged without being
    handed out (from the list, or imported) counts from its first event. A draw counts as random if all samples before
    it have a verdict: otherwise reviewers could choose what counts by leaving samples out. A sample that is left behind
    is unsure.
    """
    handed = {place: at for at, place in enumerate(queue.drawn)}
    touched = sorted(_step(place, handed, state, queue) for place in handed.keys() | state.judged_places())
    rows, wrong, at_random, complete = [], [], [], True
    for _, handed_out, _, place in touched:
        outcome = state.outcome(place)
        if outcome.status == OPEN and len(handed) - handed[place] <= LEFT_BEHIND:
            complete = False
            continue
        is_wrong = outcome.chosen != state.labels[place]
        rows.append(place)
        unsure = outcome.chosen is None or queue.is_hidden(place, state)
        wrong.append(UNSURE if unsure else WRONG if is_wrong else RIGHT)
        at_random.append(complete and handed_out and queue.drawn[place])
    return check_verdicts(
        p_wrong, np.array(rows, dtype=np.int64), np.array(wrong, dtype=np.int64), np.array(at_random, dtype=np.bool_)
    )


def _step(place: int, handed: Mapping[int, int], state: VerdictState, queue: SharedQueue) -> tuple[int, bool, int, int]:
    """When a sample was handed out, or judged without that, as a key to sort by; and its place."""
    first = state.first_number(place)
    if place not in handed or (first is not None and first <= queue.handed_after[place]):
        return first or 0, False, 0, place
    return queue.handed_after[place], True, handed[place], place


def statements(verdicts: Verdicts, order: Sequence[int]) -> list[str]:
    """What the verdicts say about all labels, in sentences that hold however often someone looks.

    order: all places in the order in which they are handed out. With few random verdicts, one sentence says so.
    """
    if verdicts.checks < FEWEST_CHECKS:
        so_far = f"{verdicts.checks} {'counts' if verdicts.checks == 1 else 'count'} so far"
        return [f"How many labels are wrong is stated after {FEWEST_CHECKS} random samples; {so_far}."]
    return sentences(certified_review(verdicts, from_server=True, order=order))[1:]


def agreement(state: VerdictState) -> Kappa | None:
    """The agreement on samples that two reviewers judged: Cohen's kappa for one pair of reviewers, otherwise Fleiss'.

    The first verdict of each of the first two reviewers counts, if neither had seen another verdict on the sample. What
    they change later, perhaps after seeing the other verdict, does not. The categories are the chosen labels.
    """
    blind = [sorted(given[:2], key=lambda event: event.reviewer) for given in state.blind_verdicts()]
    pairs = [(given[0], given[1]) for given in blind if len(given) == 2]
    if not pairs:
        return None
    chosen = [(one.chosen, other.chosen) for one, other in pairs]
    if len({(one.reviewer, other.reviewer) for one, other in pairs}) > 1:
        return fleiss_kappa(chosen)
    return cohen_kappa([one for one, _ in chosen], [other for _, other in chosen])


def panel(state: VerdictState, queue: SharedQueue) -> dict[str, Any]:
    """What the panel of the page shows, for JSON. A sample of the overlap counts after its second verdict."""
    judged = (place for place in state.judged_places() if not queue.is_hidden(place, state))
    decided = [place for place in judged if state.outcome(place).status == DECIDED]
    wrong = [place for place in decided if state.outcome(place).chosen != state.labels[place]]
    per_reviewer = Counter(name for verdicts in state.current.values() for name in verdicts)
    kappa = agreement(state)
    return {
        "judged": len(decided),
        "wrong": len(wrong),
        "random": sum(queue.drawn.get(place, False) for place in decided),
        "randomWrong": sum(queue.drawn.get(place, False) for place in wrong),
        "reviewers": {name: per_reviewer[name] for name in sorted({*queue.reviewers, *per_reviewer})},
        "kappa": None if kappa is None else _as_json(kappa),
        "stale": state.stale,
    }


def _as_json(kappa: Kappa) -> dict[str, Any]:
    numbers = {name: getattr(kappa, name) for name in ("value", "low", "high", "share_low", "share_high")}
    rounded = {name: None if number is None else round(number, 3) for name, number in numbers.items()}
    return {**rounded, "name": kappa.name, "samples": kappa.samples, "agreed": kappa.agreed}
