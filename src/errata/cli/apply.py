"""`errata apply`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from errata.cli.app import app
from errata.errors import InputError
from errata.terminal import print_table, progress_bar

if TYPE_CHECKING:
    from errata.finding.sources import DataSource
    from errata.review.correction_plan import CorrectionPlan
    from errata.review.decisions import Decisions

FOUND = Path("errata-out")
SHOWN_CLASSES, SHOWN_CHANGES = 50, 10


@app.command(name="apply")
def apply_command(
    source: Annotated[
        Path, typer.Argument(help="The data that `errata find` was given; it is read, and never changed.")
    ],
    label: Annotated[str | None, typer.Option(help="The column with the labels. Default: as given to find.")] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="The column that names the samples. Default: as given to find.")
    ] = None,
    decisions: Annotated[Path | None, typer.Option(help="The decisions.csv that the report has written.")] = None,
    top: Annotated[int | None, typer.Option(help="Instead: the so many most suspicious samples.", min=1)] = None,
    accept_suggested: Annotated[
        bool, typer.Option("--accept-suggested", help="With --top: give them the suggested labels, unseen.")
    ] = False,
    found: Annotated[
        Path | None,
        typer.Option(help="The folder that find has written about this data. Default: errata-out, if it is about it."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The copy, or a folder for it.")] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Leave samples out instead of relabelling them.")] = False,
    link: Annotated[bool, typer.Option("--link", help="Of images: share the files instead of copying them.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a copy that was made before.")] = False,
    skip_stale: Annotated[
        bool, typer.Option("--skip-stale", help="Pass over samples that are gone or have another label by now.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and write nothing.")] = False,
) -> None:
    """Write a corrected copy of your data beside it, from decisions made in the report, with a log of every change."""
    from errata.review.corrected_copy import copy_path, log_path, write_copy
    from errata.review.correction_plan import plan_corrections

    folder, named, settings = _of_find(source, found)
    if named is not None:
        label, id_column = label or named.label, id_column or named.id
    made = _decisions(decisions, top, accept_suggested or drop, folder)
    planned = plan_corrections(source, made, label=label, id=id_column, drop=drop, link=link, skip_stale=skip_stale)
    copy = copy_path(planned.writer.path, out, overwrite or dry_run)
    _show(planned)
    if dry_run:
        _show_changes(planned)
        for remark in planned.remarks:
            print(f"note: {remark}")
        print(f"would write {copy} and {log_path(copy)}; nothing was written")
        return
    with progress_bar("copying", planned.writer.file_count) as advance:
        applied = write_copy(planned, copy, advance)
    for remark in applied.remarks:
        print(f"note: {remark}")
    print(f"wrote {applied.copy}, and every change to {applied.log}; {planned.writer.path} is as it was")
    options = {"label": label, "id": id_column, **_said_to_find(named, settings)}
    print(f"to see what is left: {_find_again(source, applied.copy, options)}")


def _of_find(source: Path, found: Path | None) -> "tuple[Path | None, DataSource | None, dict[str, Any]]":
    """The folder that find has written about this source, if it is named or lies here, and what find was told."""
    from errata.finding.found import SUMMARY, read_summary
    from errata.finding.sources import DataSource

    folder = found or FOUND
    if not (folder / SUMMARY).is_file():
        return found, None, {}
    summary = read_summary(folder)
    named = DataSource.from_summary(summary, folder)
    path = None if named is None else named.path
    if path is not None and path.exists() and source.exists() and path.samefile(source):
        return folder, named, summary["settings"]
    return found, None, {}


def _decisions(path: Path | None, top: int | None, unseen: bool, found: Path | None) -> "Decisions":
    from errata.finding.found import Found
    from errata.review.decisions import Decisions

    if (path is None) == (top is None):
        raise InputError("give either --decisions FILE, or --top N with --accept-suggested")
    if path is not None:
        decisions = Decisions.read(path)
        return decisions if found is None else decisions.with_ranks(Found.open(found).ranking)
    if not unseen:
        raise InputError("--top takes suggestions that nobody has looked at: add --accept-suggested if that is meant")
    folder = found or FOUND
    return Decisions.accept_top(Found.open(folder).ranking, top or 0, str(folder))


def _show(planned: "CorrectionPlan") -> None:
    """How many samples of each kind there are, and what becomes of the classes."""
    from errata.wording import counted

    counts = {
        "left out" if planned.edits.drop else "changed": planned.changed,
        "kept": planned.kept,
        "skipped": planned.skipped,
        "changed before": planned.already_applied,
        "undecided": planned.undecided,
    }
    told = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count or name in ("kept", "undecided"))
    print(f"{planned.writer.path}: of {len(planned.writer.samples.ids):,} samples {told}")
    if planned.stale:
        passed = counted(planned.stale, "decision")
        print(f"passed over: {passed} on samples that are gone or have another label by now")
    classes = planned.class_counts()
    moved = classes[classes["before"] != classes["after"]].head(SHOWN_CLASSES)
    if len(moved):
        print_table(moved, "class sizes that change")


def _show_changes(planned: "CorrectionPlan") -> None:
    import pandas as pd

    first = planned.edits.entries[:SHOWN_CHANGES]
    if first:
        table = pd.DataFrame(
            {"id": [change.decision.id for change in first], "label": [change.before for change in first]}
        )
        table["becomes"] = ["(left out)" if planned.edits.drop else change.after for change in first]
        print_table(table, f"{len(first)} of {planned.changed:,} changes")


def _said_to_find(named: "DataSource | None", settings: dict[str, Any]) -> dict[str, Any]:
    """What else find was told than where labels and ids are, by option, as far as a command line can say it."""
    from errata.finding.model_training import changed_options

    if named is None:
        return {}
    columns = [named.text] if isinstance(named.text, str) else named.text or []
    return {"text": columns[0] if len(columns) == 1 else None, **changed_options(settings), "skip-bad": named.skip_bad}


def _find_again(source: Path, copy: Path, options: dict[str, Any]) -> str:
    """The command that looks for errors in the copy."""
    words = ["errata", "find", str(copy)]
    if source.suffix.lower() == ".npy":  # whose labels are the copy
        words, options = ["errata", "find", str(source)], options | {"label": str(copy)}
    for option, value in {**options, "out": f"{FOUND}-corrected"}.items():
        if value is True:
            words.append(f"--{option}")
        elif value is not None and value is not False:
            words += [f"--{option}", str(value)]
    return shlex.join(words)
