"""`errata apply`, `errata export`: what follows the review of a ranking."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from errata.cli.app import ExcelSafe, app
from errata.cli.certify_command import as_share, safe_decisions
from errata.cli.find_command import OUT as FOUND
from errata.errors import InputError
from errata.terminal import print_table, progress_bar
from errata.wording import counted

if TYPE_CHECKING:
    from errata.finding.sources import DataSource
    from errata.readers import UserData
    from errata.review.correction_plan import CorrectionPlan
    from errata.review.decisions import Decisions

SHOWN_CLASSES, SHOWN_CHANGES = 50, 10
STATUSES = ("changed", "kept", "skipped", "changed before", "undecided")


@app.command(name="apply")
def apply_command(
    source: Annotated[Path, typer.Argument(help="The data passed to `errata find`. It is never changed.")],
    label: Annotated[str | None, typer.Option(help="The column with the labels. Default: as for find.")] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="The column with the ids of the samples. Default: as for find.")
    ] = None,
    decisions: Annotated[
        list[Path] | None,
        typer.Option(help="The decisions.csv downloaded from the report. Repeat it to combine several reviewers."),
    ] = None,
    top: Annotated[
        int | None, typer.Option(help="Instead of --decisions: the N most suspicious samples.", min=1)
    ] = None,
    accept_suggested: Annotated[
        bool, typer.Option("--accept-suggested", help="With --top: use the suggested labels without a review.")
    ] = False,
    at_most_wrong: Annotated[
        str | None,
        typer.Option(
            help="Also use the suggested labels of the first samples, as far as random checks in --decisions, or in "
            "the database of `errata review`, show that at most this share of them is wrong: 5%."
        ),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(help="With --at-most-wrong: the database of `errata review`. Default: that in --found."),
    ] = None,
    found: Annotated[
        Path | None,
        typer.Option(
            help="The output folder of `errata find` for this data. Default: errata-out, if it belongs to it."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The path of the copy, or a folder for it.")] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Remove the samples instead of relabelling them.")] = False,
    link: Annotated[bool, typer.Option("--link", help="For images: create hard links instead of copies.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier copy.")] = False,
    skip_stale: Annotated[
        bool,
        typer.Option("--skip-stale", help="Ignore decisions about samples that are gone or whose label has changed."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would change, and write nothing.")] = False,
    excel_safe: ExcelSafe = False,
) -> None:
    """Write a corrected copy of your data from the decisions of a review, with a log of all changes."""
    from errata.review.corrected_copy import copy_path, log_path, write_copy
    from errata.review.correction_plan import plan_corrections

    folder, options = _earlier_find(source, found)
    label, id_column = label or options.get("label"), id_column or options.get("id")
    if at_most_wrong is None and database is not None:
        raise InputError("--database works only with --at-most-wrong")
    if at_most_wrong is None:
        reviewed = _decisions(decisions, top, accept_suggested or drop, folder)
    else:
        reviewed = safe_decisions(decisions, as_share("--at-most-wrong", at_most_wrong), folder or FOUND, database)
    merged = bool(options.get("merge-labels"))
    flags = {"drop": drop, "link": link, "skip_stale": skip_stale, "merge_labels": merged}
    plan = plan_corrections(source, reviewed, label=label, id=id_column, **flags)
    copy = copy_path(plan.writer.path, out)
    _print_counts(plan)
    if dry_run:
        _print_first_changes(plan)
        remarks = plan.remarks
    else:
        with progress_bar("copying", plan.writer.file_count) as progress:
            remarks = write_copy(plan, copy, overwrite=overwrite, excel_safe=excel_safe, progress=progress).remarks
    for remark in remarks:
        print(f"note: {remark}")
    if dry_run:
        print(f"would write {copy} and {log_path(copy)}; nothing was written")
        return
    print(f"wrote {copy} and the log {log_path(copy)}; {plan.writer.path} is unchanged")
    options |= {"label": label, "id": id_column}
    print(f"to find the remaining errors: {_find_command(source, copy, options)}")


def _earlier_find(source: Path, found: Path | None) -> tuple[Path | None, dict[str, Any]]:
    """The output folder of `errata find` for this source, if there is one, and the options of that command."""
    from errata.finding.find_options import changed_options
    from errata.finding.found_files import SUMMARY, read_summary
    from errata.finding.sources import DataSource

    folder = found or FOUND
    summary = read_summary(folder) if (folder / SUMMARY).is_file() else {}
    ranked = DataSource.from_summary(summary, folder)
    if ranked is None or not (ranked.source.exists() and source.exists() and ranked.source.samefile(source)):
        return found, {}
    columns = [ranked.text] if isinstance(ranked.text, str) else ranked.text or []
    options = {"label": ranked.label, "id": ranked.id, "text": columns[0] if len(columns) == 1 else None}
    options["ignore"] = ranked.ignore
    return folder, {
        **options,
        **changed_options(summary.get("settings", {})),
        "skip-bad": ranked.skip_bad,
        "merge-labels": ranked.merge_labels,
    }


def _decisions(paths: list[Path] | None, top: int | None, without_review: bool, found: Path | None) -> "Decisions":
    from errata.finding.found import Found
    from errata.review.decisions import Decisions

    if bool(paths) == (top is not None):
        raise InputError("pass either --decisions FILE, or --top N with --accept-suggested")
    if paths:
        decisions = Decisions.read(*paths)
        return decisions if found is None else decisions.with_ranks(Found.open(found).ranking)
    if not without_review:
        raise InputError("--top uses suggestions that nobody has reviewed. Add --accept-suggested to confirm.")
    folder = found or FOUND
    return Decisions.accept_top(Found.open(folder).ranking, top or 0, str(folder))


def _print_counts(plan: "CorrectionPlan") -> None:
    """The number of samples per decision, and the class sizes that change."""
    counts = plan.counts
    shown = [name for name in STATUSES if counts[name] or name in ("changed", "kept", "undecided")]
    words = {"changed": "removed"} if plan.edits.drop else {}
    text = ", ".join(f"{counts[name]:,} {words.get(name, name)}" for name in shown)
    print(f"{plan.writer.path}: {len(plan.writer.samples.ids):,} samples: {text}")
    stale = counts["unknown id"] + counts["outdated"]
    if stale:
        print(f"ignored: {counted(stale, 'decision')} about samples that are gone or whose label has changed")
    classes = plan.class_counts
    resized = classes[classes["before"] != classes["after"]].head(SHOWN_CLASSES)
    if len(resized):
        print_table(resized, "class sizes that change")


def _print_first_changes(plan: "CorrectionPlan") -> None:
    from errata.review.corrected_copy import change_log

    changes = change_log(plan)[["id", "before", "after"]]
    if plan.edits.drop:
        changes["after"] = "(removed)"
    if len(changes):
        shown = changes.head(SHOWN_CHANGES)
        print_table(shown, f"{len(shown)} of {len(changes):,} changes")


def _find_command(source: Path, copy: Path, options: dict[str, Any]) -> str:
    """The command that ranks the copy."""
    words = ["errata", "find", str(copy)]
    if source.suffix.lower() == ".npy":  # the copy holds only the labels
        words, options = ["errata", "find", str(source)], options | {"label": str(copy)}
    for option, value in {**options, "out": f"{FOUND}-corrected"}.items():
        if value is True:
            words.append(f"--{option}")
        elif value is not None and value is not False:
            for one in value if isinstance(value, list) else [value]:
                words += [f"--{option}", str(one)]
    return shlex.join(words)


@app.command()
def export(
    to: Annotated[
        Literal["label-studio", "fiftyone", "cleanlab"], typer.Option(help="The tool that will read the export.")
    ],
    found: Annotated[Path, typer.Argument(help="The output folder of `errata find`.")] = FOUND,
    data: Annotated[
        Path | None,
        typer.Option(help="The ranked data, for tools that show samples. Default: the path passed to find."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="With --data: the column with the labels.")] = None,
    text: Annotated[str | None, typer.Option(help="With --data: a column to read as text.")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="With --data: the column with the ids.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="With --data: ignore unreadable images.")] = False,
    top: Annotated[
        int | None,
        typer.Option(
            help="Export only the N most suspicious samples (cleanlab: mark N as issues). Default: for label-studio, "
            "as many as find suggests to inspect; for fiftyone, all; for cleanlab, the estimated number of errors.",
            min=1,
        ),
    ] = None,
    images_at: Annotated[
        str | None,
        typer.Option(help="For label-studio: the URL of the image folder, such as http://host/images/."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder to write to. Default: a folder inside FOUND.")] = None,
) -> None:
    """Write the ranking in the format of Label Studio, FiftyOne or cleanlab."""
    from errata.finding.answer import suggested_budget
    from errata.finding.found import Found
    from errata.finding.sources import DataSource
    from errata.review.exports import write_cleanlab, write_fiftyone, write_label_studio

    result = Found.open(found)
    target = found / to if out is None else out
    if images_at is not None and to != "label-studio":
        raise InputError("--images-at works only with --to label-studio")
    if to == "cleanlab":
        write_cleanlab(result, target, top=top)
        print(f"wrote label_issues.csv and label_issues.npz, {len(result.ranking):,} rows each, to {target}")
        return
    source = DataSource.from_summary(result.summary, found)
    if data is not None:
        source = DataSource(data, label, text, id_column, skip_bad)
    if source is None:
        raise InputError(f"{to} shows the samples. Pass the ranked data with --data.")
    samples = _read_samples(source)
    if to == "fiftyone":
        write_fiftyone(result, target, data=samples, top=top)
        print(f"wrote samples.json to {target}. Open it in Python:")
        print(f'fiftyone.Dataset.from_dir(dataset_dir="{target}", dataset_type=fiftyone.types.FiftyOneDataset)')
        return
    count = min(top or suggested_budget(result.expected, len(result.ranking)), len(result.ranking))
    write_label_studio(result, target, data=samples, top=count, images_at=images_at)
    print(f"wrote {count:,} tasks to {target / 'tasks.json'}")
    print(f"create a project with {target / 'config.xml'} as its labelling interface, and import tasks.json")


def _read_samples(source: "DataSource") -> "UserData":
    """The samples. Images in a folder are passed on as files, even if they are small."""
    from errata.readers import UserData
    from errata.readers.saved_datasets import is_saved_dataset

    data, path = source.reopen(), source.path
    if not isinstance(data, UserData):
        raise InputError(f"{path} contains the outputs of a model. Pass the samples with --data.")
    if data.kind == "images" and path is not None and path.is_dir() and not is_saved_dataset(path):
        return replace(data, kind="image files", inputs=data.ids, root=path)
    return data
