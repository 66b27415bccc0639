"""`errata export`."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from errata.cli.app import app
from errata.errors import InputError

if TYPE_CHECKING:
    from errata.finding.found import Found
    from errata.finding.sources import DataSource
    from errata.readers import UserData


class Tool(StrEnum):
    """Who is to read the export."""

    LABEL_STUDIO = "label-studio"
    FIFTYONE = "fiftyone"
    CLEANLAB = "cleanlab"


@app.command()
def export(
    to: Annotated[Tool, typer.Option(help="The tool that is to read it.")],
    found: Annotated[Path, typer.Argument(help="The folder that `errata find` has written.")] = Path("errata-out"),
    data: Annotated[
        Path | None,
        typer.Option(help="The data that were ranked, for tools that show them. Default: where find read them."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="The column with the labels, as given to `errata find`.")] = None,
    text: Annotated[str | None, typer.Option(help="A column taken as text, as given to `errata find`.")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="The column that names the samples.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out images that cannot be read.")] = False,
    top: Annotated[
        int | None,
        typer.Option(
            help="How many of the most suspicious. Default: label-studio as many as the answer says to look at, "
            "fiftyone all, cleanlab as many as are estimated to be wrong.",
            min=1,
        ),
    ] = None,
    images_at: Annotated[
        str | None,
        typer.Option(help="The address that the folder of images has for Label Studio, such as http://host/images/."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write to. Default: one inside FOUND.")] = None,
) -> None:
    """Write what was found in the format of Label Studio, FiftyOne or cleanlab."""
    from errata.finding.found import Found
    from errata.finding.sources import DataSource
    from errata.review.exports import write_cleanlab, write_fiftyone, write_label_studio

    opened = Found.open(found)
    target = found / to if out is None else out
    if images_at is not None and to is not Tool.LABEL_STUDIO:
        raise InputError("--images-at goes with --to label-studio")
    if to is Tool.CLEANLAB:
        write_cleanlab(opened, target, top=top)
        print(f"wrote label_issues.csv and label_issues.npz, {len(opened.ranking):,} rows each, to {target}")
        return
    named = DataSource.from_summary(opened.summary, found)
    if data is not None:
        named = DataSource(data, label, text, id_column, skip_bad)
    if named is None:
        raise InputError(f"{to} shows the samples themselves: name the data that were ranked with --data")
    samples = _open(named)
    if to is Tool.FIFTYONE:
        write_fiftyone(opened, target, data=samples, top=top)
        print(f"wrote samples.json to {target}; in Python:")
        print(f'fiftyone.Dataset.from_dir(dataset_dir="{target}", dataset_type=fiftyone.types.FiftyOneDataset)')
        return
    first = top or _worth_a_look(opened)
    write_label_studio(opened, target, data=samples, top=first, images_at=images_at)
    print(f"wrote {min(first, len(opened.ranking)):,} tasks to {target / 'tasks.json'}")
    print(f"in a project whose labelling interface is {target / 'config.xml'}, import that file")


def _open(named: "DataSource") -> "UserData":
    from errata.finding.sources import is_saved_dataset
    from errata.readers import UserData

    opened, path = named.reopen(), named.path
    if not isinstance(opened, UserData):
        raise InputError(f"{path} holds what a model said of samples, not the samples themselves")
    if opened.kind == "images" and path is not None and path.is_dir() and not is_saved_dataset(path):
        return replace(opened, kind="image files", inputs=opened.ids, root=path)  # the files are there to be shown
    return opened


def _worth_a_look(found: "Found") -> int:
    from errata.finding.answer import suggested_budget

    return suggested_budget(found.expected, len(found.ranking))
