"""errata.apply: decisions about labels become a corrected copy of the data, with a log of every change."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.review.applying.decisions import Decisions
from errata.review.applying.edits import Advance
from errata.review.applying.planning import Plan, plan
from errata.review.applying.targets import Target, target_for
from errata.terminal import write_table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Applied:
    """What was done. copy, log: the files that were written; changes: the log as a table; remarks: what to know."""

    plan: Plan
    copy: Path
    log: Path
    changes: "pd.DataFrame"
    remarks: tuple[str, ...]


def apply(
    source: str | Path,
    decisions: "Decisions | pd.DataFrame | str | Path",
    *,
    label: Any = None,
    id: Any = None,  # noqa: A002
    out: str | Path | None = None,
    drop: bool = False,
    link: bool = False,
    overwrite: bool = False,
    skip_stale: bool = False,
) -> Applied:
    """Write a corrected copy of the data beside it; the data itself is never changed.

    source: a table, arrays, a folder of images in class folders or one saved by Hugging Face datasets, with `label` and
    `id` as they were given to `errata.find`. decisions: a decisions.csv of the report, or a data frame with its columns
    id, label, decision (keep, accept, relabel or skip) and new_label.
    out: the copy, or a folder for it; by default data.csv becomes data.corrected.csv. drop: leave out the samples that
    would be relabelled. link: share the image files with the original instead of copying them. overwrite: replace a
    copy that was made before. skip_stale: leave out decisions on samples that are gone or have another label by now.
    """
    planned = plan(source, decisions, label=label, id=id, drop=drop, link=link, skip_stale=skip_stale)
    return carry_out(planned, target_for(planned.original.path, out, overwrite))


def carry_out(planned: Plan, target: Target, advance: Advance = lambda files: None) -> Applied:
    """Write the copy and its log; `advance` is told of files as they are copied."""
    changes = log_of(planned, datetime.now(UTC))
    remarks = planned.original.write(planned.edits, target.copy, advance)
    write_table(changes, target.log)
    return Applied(planned, target.copy, target.log, changes, (*planned.remarks, *remarks))


def log_of(planned: Plan, when: datetime) -> "pd.DataFrame":
    """Every change: id, before, after, decision, rank, score, new_id, when, decisions.

    after and new_id are blank for samples that are left out, rank and score where they are not known.
    """
    import pandas as pd

    changes, drop = planned.edits.changes, planned.edits.drop
    decisions = [change.decision for change in changes]
    ids = [decision.id for decision in decisions]
    moved = planned.original.new_ids(planned.edits)
    return pd.DataFrame(
        {
            "id": ids,
            "before": [str(change.before) for change in changes],
            "after": ["" if drop else str(change.after) for change in changes],
            "decision": ["drop" if drop else decision.decision for decision in decisions],
            "rank": pd.array([decision.rank for decision in decisions], dtype="Int64"),
            "score": pd.array([decision.score for decision in decisions], dtype="Float64"),
            "new_id": ["" if drop else moved.get(id_, id_) for id_ in ids],
            "when": when.isoformat(timespec="seconds"),
            "decisions": planned.origin,
        }
    )
