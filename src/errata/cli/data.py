"""`errata data`: which datasets there are, fetch them, check them, look at their noise."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from errata.cli.app import app
from errata.errors import InputError
from errata.extras import require
from errata.terminal import print_table

if TYPE_CHECKING:
    from rich.progress import TaskID

    from errata.datasets.spec import Dataset
    from errata.datasets.transfer import Arrived

data = typer.Typer(help="The benchmark's datasets: list, fetch, check and show them.", no_args_is_help=True)
app.add_typer(data, name="data")

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder with a folder a dataset. Default: $ERRATA_DATA, else the user's cache."),
]
Name = Annotated[str, typer.Argument(help="A dataset; `errata data list` lists them.")]


@data.command("list")
def list_datasets(data_dir: DataDir = None) -> None:
    """List every dataset: size, features before → after preparation, split, licence, and whether it is there."""
    import pandas as pd

    from errata.datasets.registry import datasets
    from errata.datasets.where import data_dir as find_data_dir

    folder = find_data_dir(data_dir)
    print_table(
        pd.DataFrame([_row(dataset, folder) for dataset in datasets().values()]), f"datasets, looked for in {folder}"
    )


def _row(dataset: "Dataset", folder: Path) -> dict[str, Any]:
    from errata.datasets.loading import presence

    there, data = presence(dataset, folder)
    paper = dataset.paper
    row = {"rows": "", "features": "", "train / test": ""}
    if paper is not None:
        row = {
            "rows": f"{paper.rows:,}",
            "features": " → ".join(dict.fromkeys((paper.features, paper.transformed))),
            "train / test": f"{paper.train:,} / {paper.test:,}",
        }
    elif data is not None:
        shape = "×".join(map(str, data.train_inputs.shape[1:]))
        sizes = len(data.train_labels), len(data.test_labels)
        row = {"rows": f"{sum(sizes):,}", "features": shape, "train / test": "{:,} / {:,}".format(*sizes)}
    return {"dataset": dataset.name, **row, "classes": len(dataset.classes), "licence": dataset.licence, "there": there}


@data.command()
def fetch(name: Name, data_dir: DataDir = None) -> None:
    """Download the official files, resume where it was cut, verify and unpack them; or say how to get them by hand."""
    from errata.datasets.download import fetch as fetch_files
    from errata.datasets.registry import dataset
    from errata.datasets.where import data_dir as find_data_dir

    with _Downloads() as downloads:
        paths = fetch_files(dataset(name), find_data_dir(data_dir), downloads.report)
    print(f"{name} is there: {', '.join(map(str, paths)) or 'it needs no file'}; `errata data check {name}` says more")


class _Downloads:
    """A bar a file on standard error, if that is a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._bar = Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "_Downloads":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def report(self, arrived: "Arrived") -> None:
        """So much of a file is here."""
        if arrived.name not in self._tasks:
            self._tasks[arrived.name] = self._bar.add_task(arrived.name, total=arrived.total)
        self._bar.update(self._tasks[arrived.name], completed=arrived.bytes, total=arrived.total)


@data.command()
def check(
    name: Annotated[str | None, typer.Argument(help="A dataset; `errata data list` lists them.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every dataset.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Check files, content hashes, sizes and class counts against the paper's table, a line each."""
    from errata.datasets.checks import check_dataset
    from errata.datasets.registry import dataset, datasets
    from errata.datasets.where import data_dir as find_data_dir

    if (name is None) != every:
        raise InputError("name one dataset to check, or say --all")
    folder = find_data_dir(data_dir)
    failed = []
    for one in datasets().values() if name is None else [dataset(name)]:
        print(f"{one.name}: {one.title}")
        for line in check_dataset(one, folder):
            mark = {True: "ok  ", False: "FAIL", None: "-   "}[line.passed]
            print(f"  {mark} {line.what}: {line.found}", flush=True)
            if line.passed is False:
                failed.append(f"{one.name}: {line.what}")
    if failed:
        print(f"{len(failed)} {'check' if len(failed) == 1 else 'checks'} failed: {'; '.join(failed)}")
        sys.exit(1)
    print("nothing failed; - marks what could not be compared")


@data.command()
def show(
    name: Name,
    setting: Annotated[str | None, typer.Option(help="One of its settings. Default: the first.")] = None,
    out: Annotated[Path | None, typer.Option(help="The picture: .png or .svg. Default: SETTING-noise.png.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Print the class counts of a dataset and draw which classes the noise of a setting confuses."""
    from errata.datasets.labelled import load_setting
    from errata.datasets.pictures import check_picture, class_table, noise_picture, save_picture
    from errata.datasets.registry import dataset

    chosen = dataset(name)
    known = {one.name: one for one in chosen.settings}
    wanted = setting or next(iter(known))
    if wanted not in known:
        raise InputError(f"{name} has no setting named {wanted!r}; it has {', '.join(known)}")
    picture = out or Path(f"{wanted}-noise.png")
    check_picture(picture)
    labelled = load_setting(wanted, data_dir)
    print_table(class_table(labelled), f"{chosen.title}: training samples by class")
    print(chosen.bibtex)
    for remark in labelled.data.remarks:
        print(f"note: {remark}")
    noise = labelled.noise
    known_part = f" of {noise['known']:,} that were checked" if "known" in noise else ""
    print(f"{wanted}: {noise['count']:,} labels{known_part} are wrong ({noise['rate']:.2%})")
    require("matplotlib", "matplotlib", "plot", "the picture")
    save_picture(noise_picture(labelled), picture)
    print(f"wrote {picture}")


@data.command()
def inspect(
    source: Annotated[
        Path, typer.Argument(help="Your own data: a table, an .npz, or a folder of images in class folders.")
    ],
    label: Annotated[str | None, typer.Option(help="The column with the labels, where there are columns.")] = None,
    text: Annotated[str | None, typer.Option(help="A column to be taken as text.")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="The column that names the samples.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out images that cannot be read.")] = False,
) -> None:
    """Say what errata understands of your own data: samples, classes, columns, and what it leaves out."""
    import numpy as np
    import pandas as pd

    from errata.readers import open_data

    own = open_data(source, label, text=text, id=id_column, skip_bad=skip_bad)
    print(f"{source}: {own.samples:,} samples in {own.num_classes} classes, {own.kind}")
    counts = np.bincount(own.labels, minlength=own.num_classes)
    print_table(pd.DataFrame({"class": [str(name) for name in own.classes], "samples": counts}), "classes")
    if own.columns:
        print_table(pd.DataFrame(own.columns.items(), columns=["column", "taken as"]), "columns")
    for remark in own.remarks:
        print(f"note: {remark}")
