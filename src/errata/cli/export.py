"""`errata export`."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from errata.cli.app import app
from errata.errors import InputError

if TYPE_CHECKING:
    from errata.finding.sources import DataSource
    from errata.readers import UserData


class ExportTool(StrEnum):
    """The tool that reads the export."""

    LABEL_STUDIO = "label-studio"
    FIFTYONE = "fiftyone"
    CLEANLAB = "cleanlab"


@app.command()
def export(
    to: Annotated[ExportTool, typer.Option(help="The tool that will read the export.")],
    found: Annotated[Path, typer.Argument(help="The output folder of `errata find`.")] = Path("errata-out"),
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
    if images_at is not None and to is not ExportTool.LABEL_STUDIO:
        raise InputError("--images-at works only with --to label-studio")
    if to is ExportTool.CLEANLAB:
        write_cleanlab(result, target, top=top)
        print(f"wrote label_issues.csv and label_issues.npz, {len(result.ranking):,} rows each, to {target}")
        return
    source = DataSource.from_summary(result.summary, found)
    if data is not None:
        source = DataSource(data, label, text, id_column, skip_bad)
    if source is None:
        raise InputError(f"{to} shows the samples. Pass the ranked data with --data.")
    samples = _read_samples(source)
    if to is ExportTool.FIFTYONE:
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
