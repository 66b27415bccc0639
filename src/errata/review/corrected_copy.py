"""errata.apply: write a corrected copy of the data, and a log of all changes, next to the original."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.errors import DataError, InputError, StoreError
from errata.readers.file_types import file_suffix
from errata.readers.whole_rows import rows_by_line
from errata.review.correction_plan import CorrectionPlan, plan_corrections
from errata.review.decisions import Decisions
from errata.review.staged_copy import move_into_place, same_contents, staging_folder
from errata.review.writers.label_writer import Progress
from errata.terminal import write_table

if TYPE_CHECKING:
    import pandas as pd

COPY_SUFFIX, LOG_SUFFIX = ".corrected", ".log.csv"


@dataclass(frozen=True, eq=False)
class Applied:
    """The result of `apply`. copy, log: the written files. changes: the log as a table. remarks: notes for the user."""

    plan: CorrectionPlan
    copy: Path
    log: Path
    changes: "pd.DataFrame"
    remarks: tuple[str, ...]


def apply(
    source: str | Path,
    decisions: "Decisions | pd.DataFrame | str | Path | Sequence[str | Path]",
    *,
    label: Any = None,
    id: Any = None,  # noqa: A002
    out: str | Path | None = None,
    drop: bool = False,
    link: bool = False,
    overwrite: bool = False,
    skip_stale: bool = False,
    merge_labels: bool = False,
    excel_safe: bool = False,
) -> Applied:
    """Write a corrected copy of the data. The data itself is never changed.

    source: a table, arrays, a folder of images in class folders, or a folder saved by Hugging Face `datasets`.
    decisions: a decisions.csv of the report, a list of such files by several reviewers, or a data frame with its
    columns: id, label, decision (keep, accept, relabel or skip) and new_label.
    label, id: the column names passed to `errata.find`.
    out: the path of the copy, or a folder for it. Default: data.csv becomes data.corrected.csv.
    drop: remove the samples instead of relabelling them.
    link: create hard links to the image files instead of copying them.
    overwrite: replace an earlier copy.
    skip_stale: ignore decisions about samples that are gone or whose label has changed since.
    merge_labels: as passed to `errata.find`; labels that differ only in spelling count as equal and stay as they are.
    excel_safe: text in the log that spreadsheets would run as a formula gets an apostrophe in front. The copy stays
    as decided.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import errata
    >>> import pandas as pd
    >>> path = Path(tempfile.mkdtemp()) / "flowers.csv"
    >>> pd.DataFrame({"size": [1, 2, 9], "species": ["rose", "rose", "lily"]}).to_csv(path, index=False)
    >>> decisions = pd.DataFrame({"id": [1], "label": ["rose"], "decision": ["relabel"], "new_label": ["lily"]})
    >>> applied = errata.apply(path, decisions, label="species")
    >>> pd.read_csv(path.with_name("flowers.corrected.csv"))["species"].tolist()
    ['rose', 'lily', 'lily']
    """
    flags = {"drop": drop, "link": link, "skip_stale": skip_stale, "merge_labels": merge_labels}
    plan = plan_corrections(source, decisions, label=label, id=id, **flags)
    return write_copy(plan, copy_path(plan.writer.path, out), overwrite=overwrite, excel_safe=excel_safe)


def copy_path(original: Path, out: str | Path | None) -> Path:
    """The path of the copy: never the data itself or inside it, and with the same suffix."""
    suffix = "" if original.is_dir() else file_suffix(original)
    copy = original.with_name(_copy_name(original.name, suffix)) if out is None else Path(out).expanduser()
    if out is not None and copy.is_dir() and suffix:
        copy = copy / _copy_name(original.name, suffix)
    log = log_path(copy)
    for path in (copy, log):
        if path.exists() and path.samefile(original):
            raise InputError(f"{path} is the data itself, which errata never overwrites. Choose another `out=`.")
    if suffix and not copy.name.lower().endswith(suffix):
        raise InputError(f"{copy} must end in {suffix}: the copy has the format of {original.name}")
    if not copy.parent.is_dir():
        raise InputError(f"the folder {copy.parent} does not exist")
    if not suffix and original.resolve() in copy.resolve().parents:
        raise InputError(f"{copy} is inside {original}. Choose a place outside it.")
    return copy


def log_path(copy: Path) -> Path:
    """The log of changes in a copy. data.csv and data.parquet have different logs."""
    return copy.with_name(copy.name + LOG_SUFFIX)


def _copy_name(name: str, suffix: str) -> str:
    """`data.csv` becomes `data.corrected.csv`, and that becomes `data.corrected-2.csv`."""
    stem, suffix = name[: len(name) - len(suffix)], name[len(name) - len(suffix) :]
    again = re.fullmatch(rf"(.*){re.escape(COPY_SUFFIX)}(?:-(\d+))?", stem)
    return f"{again[1]}{COPY_SUFFIX}-{int(again[2] or 1) + 1}{suffix}" if again else f"{stem}{COPY_SUFFIX}{suffix}"


def write_copy(
    plan: CorrectionPlan,
    copy: Path,
    *,
    overwrite: bool = False,
    excel_safe: bool = False,
    progress: Progress = lambda files: None,
) -> Applied:
    """Write the copy and its log, both or none. If an interrupted run wrote the same copy before, it is kept.

    `progress` is called with the number of files copied since the last call.
    """
    changes, log = change_log(plan), log_path(copy)
    with staging_folder(copy) as staging:
        write_table(changes, staging / log.name, excel_safe=excel_safe)
        written_before = copy.exists() and _changes_in(log) == _changes_in(staging / log.name)
        if not written_before:
            _refuse_existing(copy, overwrite)
        remarks = plan.writer.write(plan.edits, staging / copy.name, progress)
        if written_before and same_contents(copy, staging / copy.name):
            remarks = [*remarks, f"{copy} was written before, from the same data and decisions"]
        else:
            _refuse_existing(copy, overwrite)
            move_into_place(copy, log)
    return Applied(plan, copy, log, changes, (*plan.remarks, *remarks))


def _refuse_existing(copy: Path, overwrite: bool) -> None:
    """Refuse existing files, unless `overwrite` is set and the file is an earlier copy."""
    log = log_path(copy)
    existing = [path for path in (copy, log) if path.exists()]
    if existing and not overwrite:
        raise StoreError(f"{existing[0]} already exists. Choose another `out=`, or replace it with `overwrite=True`.")
    if existing and copy.is_dir():
        raise StoreError(
            f"{copy} is a folder, and `overwrite=True` replaces files only. Delete it or choose another `out=`."
        )
    if existing and not log.is_file():
        raise StoreError(f"{copy} was not written by errata (there is no {log.name}). Choose another `out=`.")


def _changes_in(log: Path) -> list[list[str]] | None:
    """The rows of a log without the time; None if it is missing or not a log."""
    try:
        header, rows = rows_by_line(log)
    except DataError:
        return None
    kept = [column for column, name in enumerate(header) if name != "when"]
    return [[row[column] for column in kept] for row in (header, *rows.values())]


def change_log(plan: CorrectionPlan) -> "pd.DataFrame":
    """One row per change: id, before, after, decision, rank, score, new_id, when, decisions.

    after and new_id are empty for removed samples; rank and score are empty if unknown.
    """
    import pandas as pd

    edits, drop = plan.edits.entries, plan.edits.drop
    ids = [edit.decision.id for edit in edits]
    ranks = [plan.decisions.ranks.get(id_, (None, None)) for id_ in ids]
    new_ids = plan.writer.new_ids(plan.edits)
    return pd.DataFrame(
        {
            "id": ids,
            "before": [str(edit.before) for edit in edits],
            "after": ["" if drop else str(edit.after) for edit in edits],
            "decision": ["drop" if drop else edit.decision.decision for edit in edits],
            "rank": pd.array([rank for rank, _ in ranks], dtype="Int64"),
            "score": pd.array([score for _, score in ranks], dtype="Float64"),
            "new_id": ["" if drop else new_ids.get(id_, id_) for id_ in ids],
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "decisions": [edit.decision.origin or plan.decisions.origin for edit in edits],
        }
    )
