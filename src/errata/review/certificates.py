"""errata.certify: how many labels are wrong and how many of these are found, from the decisions of a review."""

from collections.abc import Container, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from errata.core.certifying import RECALL, SafePrefix, checks_for_prefix, safe_prefix
from errata.core.guarantees import CONFIDENCE, RIGHT, UNSURE, WRONG, Verdicts, check_verdicts
from errata.errors import InputError
from errata.extras import require
from errata.finding.answer import suggested_budget
from errata.finding.found import Found
from errata.readers.label_encoding import spelling
from errata.review.certified_review import CertifiedReview, certified_review
from errata.review.decisions import Decision, Decisions
from errata.review.random_draws import ReviewStep, review_steps
from errata.review.server import DATABASE
from errata.wording import counted, listed, percent

if TYPE_CHECKING:
    import pandas as pd

    from errata.review.server.stored_reviews import StoredReview

FEWEST_FIRST = 200  # samples among which to draw; of fewer, nearly all would have to be checked
OUTCOMES = {"keep": RIGHT, "accept": WRONG, "relabel": WRONG, "skip": UNSURE}


def certify(
    found: Found | str | Path,
    verdicts: "Decisions | pd.DataFrame | str | Path | Sequence[str | Path] | None",
    recall: float = RECALL,
    confidence: float = CONFIDENCE,
    *,
    random: Sequence[object] | None = None,
    fixed: bool = False,
    database: str | Path | None = None,
) -> CertifiedReview:
    """State how many labels are wrong, and whether `recall` of these are found, with `confidence`.

    found: the result of `errata.find`, or the folder it wrote. verdicts: the decisions of the review: a decisions.csv,
    several, or a data frame with its columns; None for those of `errata review`, if the folder has its database, and
    otherwise if there are none yet. keep means right, accept and relabel mean wrong, skip means unsure.
    random: the ids of samples that were drawn at random, in the order of the draw, after all others were judged.
    Default: random-part.csv in the folder, which also states what was judged before a draw; without it, one in ten
    samples in the queue of report.html, up to the first one without a verdict. Only the first ones count,
    up to one without a verdict.
    fixed: the number of random checks was fixed before the first was judged. The statements are then sharper, but hold
    for one look only.
    database: that of `errata review` if it is not in the folder: a path, or postgresql://user@host/name.

    >>> import errata
    >>> import numpy as np
    >>> import pandas as pd
    >>> labels = np.arange(40) % 2
    >>> logits = np.eye(2)[labels ^ (np.arange(40) < 4)]  # the first four labels are wrong
    >>> found = errata.find(errata.Dynamics.from_arrays([logits * 4], labels))
    >>> verdicts = pd.DataFrame({"id": range(40), "label": labels, "decision": "keep", "new_label": ""})
    >>> verdicts.loc[:3, ["decision", "new_label"]] = [["relabel", str(1 - label)] for label in labels[:4]]
    >>> errata.certify(found, verdicts).certificate.found
    4
    """
    if database is not None and (verdicts is not None or random is not None):
        raise InputError("pass either `database=` or a file of decisions, not both")
    result = found if isinstance(found, Found) else Found.open(found)
    if verdicts is None and random is None and not isinstance(found, Found):
        database = database or review_database(Path(found))
    if database is not None:
        if fixed:
            raise InputError(
                "`fixed=` works only with a file of decisions: errata review ranks again after verdicts, and then only "
                "the statements for any number of looks hold"
            )
        review = server_review(result, database)
        return certified_review(review.verdicts, recall, confidence, from_server=True, left_out=review.left_out)
    decisions = as_decisions(verdicts)
    if random is not None:
        steps = [ReviewStep(str(id_)) for id_ in random]
    else:
        ids = [decision.id for decision in decisions]
        steps = [] if isinstance(found, Found) else review_steps(Path(found), result, ids)
    ordered = ordered_verdicts(result, decisions, steps, chosen_first=random is not None)
    judged = {decision.id for decision in decisions}
    pending = sum(step.id not in judged for step in steps if not step.chosen)
    return certified_review(ordered, recall, confidence, fixed=fixed, pending=pending)


def review_database(folder: Path) -> Path | None:
    """The SQLite file of `errata review` in a folder of results, if there is one."""
    return folder / DATABASE if (folder / DATABASE).is_file() else None


def server_review(found: Found, database: str | Path) -> "StoredReview":
    """The verdicts in the database of `errata review`: a path, or postgresql://user@host/name."""
    require("sqlalchemy", "SQLAlchemy", "review", "the database of a review")
    from errata.review.server.stored_reviews import stored_review

    return stored_review(found, database)


def as_decisions(
    verdicts: "Decisions | pd.DataFrame | str | Path | Sequence[str | Path] | None",
) -> tuple[Decision, ...]:
    """The decisions in any of the forms that `certify` takes."""
    if verdicts is None or (isinstance(verdicts, list | tuple) and not verdicts):
        return ()
    return Decisions.of(verdicts).entries


def ordered_verdicts(
    found: Found, decisions: Sequence[Decision], steps: Sequence[ReviewStep], *, chosen_first: bool = False
) -> Verdicts:
    """The verdicts on ranks 0..N-1 in the order of the steps, then all others; with `chosen_first`, these come first.

    Random draws count as such up to the first without a decision: leaving out hard ones would bias the rest.
    """
    ranks = _ranks(found, decisions)
    outcomes = {decision.id: OUTCOMES[decision.decision] for decision in decisions}
    drawn = _judged_in_order([step for step in steps if step.first is None], outcomes)
    listed_ids = [step.id for step in steps if step.id in outcomes]
    others = [id_ for id_ in outcomes if id_ not in set(listed_ids)]
    order = [*others, *dict.fromkeys(listed_ids)] if chosen_first else [*dict.fromkeys(listed_ids), *others]
    return check_verdicts(
        found.ranking["p_wrong"].to_numpy(dtype=np.float64),
        np.array([ranks[id_] for id_ in order], dtype=np.int64),
        np.array([outcomes[id_] for id_ in order], dtype=np.int64),
        np.array([id_ in drawn for id_ in order], dtype=np.bool_),
    )


def with_safe_suggestions(
    found: Found, decisions: Sequence[Decision], steps: Sequence[ReviewStep], limit: float, origin: str
) -> tuple[Decisions, SafePrefix]:
    """The decisions, and the suggested labels of all other samples in the safe part of the ranking.

    limit: the largest share of these suggestions that may be wrong, with 95 % confidence. If the last draw was from
    the first K samples, only these K are considered, and earlier draws from fewer samples do not count as random.
    """
    ranks, ranking = _ranks(found, decisions), found.ranking
    ids, labels, suggested = (list(map(str, ranking[name].tolist())) for name in ("id", "label", "suggested"))
    known, checked, wrong = (np.zeros(len(ids), dtype=np.bool_) for _ in range(3))
    horizon = (steps[-1].first if steps else None) or len(ids)
    drawn = _judged_in_order(
        [step for step in steps if (step.first or len(ids)) >= horizon], {decision.id for decision in decisions}
    )
    for decision in decisions:
        rank = ranks[decision.id]
        checked[rank], known[rank] = decision.id in drawn, decision.id not in drawn
        wrong[rank] = not (decision.changes_label and decision.new_label == suggested[rank])
    known[: _first_fair_rank(ranks, decisions, steps, drawn)] = True
    checked &= ~known
    changes = np.array(labels, dtype=object) != np.array(suggested, dtype=object)
    safe = safe_prefix(changes[:horizon], known[:horizon], checked[:horizon], wrong[:horizon], limit=limit)
    if not safe.length:
        first = min(max(suggested_budget(found.expected, len(ids)), FEWEST_FIRST), len(ids))
        unseen = int((changes & ~known)[:first].sum())
        if not unseen:
            raise InputError(f"nothing is left to accept: the first {first:,} suggestions have a verdict")
        checks = checks_for_prefix(unseen, limit)
        raise InputError(
            f"for no part of the ranking is it known that at most {percent(limit)} of the changes are wrong. If the "
            f"suggestions are right, {checks} random checks show it for the first {first:,}: "
            f"errata certify {origin} --decisions decisions.csv --draw {checks} --first {first} (for decisions on a "
            f"server: errata review {origin} --export decisions.csv)"
        )
    accepted = tuple(
        Decision(ids[rank], labels[rank], "accept", suggested[rank], f"{origin}, accepted unseen", f"rank {rank + 1}")
        for rank in np.flatnonzero((changes & ~known & ~checked)[: safe.length]).tolist()
    )
    return Decisions((*decisions, *accepted), f"{origin}, the first {safe.length:,}").with_ranks(ranking), safe


def _judged_in_order(steps: Sequence[ReviewStep], judged: Container[str]) -> set[str]:
    """The ids that were drawn at random, up to the first that is not judged."""
    draws = (step for step in steps if not step.chosen)
    return {step.id for step in takewhile(lambda step: step.id in judged, draws)}


def _first_fair_rank(
    ranks: dict[str, int], decisions: Sequence[Decision], steps: Sequence[ReviewStep], drawn: set[str]
) -> int:
    """The rank below all samples that were chosen after the first random draw, see `fair_part`."""
    before = {step.id for step in takewhile(lambda step: step.id not in drawn, steps)}
    later = [ranks[decision.id] for decision in decisions if decision.id not in before | drawn]
    return max(later) + 1 if later and drawn else 0


def _ranks(found: Found, decisions: Sequence[Decision]) -> dict[str, int]:
    """The rank of each id, from 0. Refuses decisions about samples that are gone or whose label has changed."""
    ids, labels = (list(map(str, found.ranking[name].tolist())) for name in ("id", "label"))
    ranks = {id_: rank for rank, id_ in enumerate(ids)}
    unknown = [decision.id for decision in decisions if decision.id not in ranks]
    if unknown:
        raise InputError(f"the ranking has no sample {listed(unknown)}: the decisions belong to other data")
    source = found.summary.get("source") or {}
    fold = spelling if source.get("merge_labels") else str
    changed = [decision for decision in decisions if fold(labels[ranks[decision.id]]) != fold(decision.label)]
    if changed:
        label = labels[ranks[changed[0].id]]
        raise InputError(
            f"{changed[0].place}: the label of {changed[0].id!r} was {changed[0].label!r}, and is {label!r} in the "
            f"ranking ({counted(len(changed), 'such decision')}). Use the ranking that was reviewed."
        )
    return ranks
