"""`errata data`: list, download, check and show the benchmark's datasets, and inspect a user's own data."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from errata.cli.app import IdColumn, IgnoredColumns, LabelColumn, SkipBad, TextColumn, app
from errata.errors import InputError
from errata.extras import require
from errata.terminal import print_table
from errata.wording import counted

if TYPE_CHECKING:
    from rich.progress import Progress

    from errata.datasets.spec import Dataset

data = typer.Typer(help="List, download, check and show the benchmark's datasets.", no_args_is_help=True)
app.add_typer(data, name="data")

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder with one folder per dataset. Default: $ERRATA_DATA, else a cache folder."),
]
Name = Annotated[str, typer.Argument(help="A dataset in `errata data list`.")]


@data.command("list")
def list_datasets(data_dir: DataDir = None) -> None:
    """List all datasets: rows, features before → after preparation, split, classes, licence, and what is on disk."""
    import pandas as pd

    from errata.datasets.locations import data_dir as find_data_dir
    from errata.datasets.registry import datasets

    folder = find_data_dir(data_dir)
    rows = [_row(dataset, folder) for dataset in datasets().values()]
    print_table(pd.DataFrame(rows), f"datasets in {folder}")


def _row(dataset: "Dataset", folder: Path) -> dict[str, Any]:
    from errata.datasets.loading import presence

    on_disk, data = presence(dataset, folder)
    paper, features, sizes = dataset.paper, "", None
    if paper is not None:
        features = " → ".join(dict.fromkeys((paper.features, paper.transformed)))
        sizes = paper.train, paper.test
    elif data is not None:
        features = "×".join(map(str, data.train_inputs.shape[1:]))
        sizes = len(data.train_labels), len(data.test_labels)
    return {
        "dataset": dataset.name,
        "rows": f"{paper.rows:,}" if paper else f"{sum(sizes):,}" if sizes else "",
        "features": features,
        "train / test": "{:,} / {:,}".format(*sizes) if sizes else "",
        "classes": len(dataset.classes),
        "licence": dataset.licence,
        "on disk": on_disk,
    }


@data.command()
def fetch(name: Name, data_dir: DataDir = None) -> None:
    """Download, verify and unpack the official files of a dataset, or print how to obtain them."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from errata.datasets.fetching import fetch as fetch_files
    from errata.datasets.locations import data_dir as find_data_dir
    from errata.datasets.registry import dataset

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        paths = fetch_files(dataset(name), find_data_dir(data_dir), lambda file: _DownloadBar(progress, file))
    print(f"{name}: {', '.join(map(str, paths)) or 'no file is needed'}. Check it with `errata data check {name}`.")


class _DownloadBar:
    """The progress bar of one file, with the interface that pooch expects: it sets `total` at each attempt."""

    def __init__(self, progress: "Progress", file: str) -> None:
        self._progress, self._task = progress, progress.add_task(file, total=None)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "total":
            self._progress.reset(self._task, total=value or None)

    def update(self, size: int) -> None:
        self._progress.advance(self._task, size)

    def reset(self) -> None:
        self._progress.reset(self._task)

    def close(self) -> None:
        self._progress.stop_task(self._task)


@data.command()
def check(
    name: Annotated[str | None, typer.Argument(help="A dataset in `errata data list`.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every dataset.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Check files, content hashes, sizes and class counts against the paper's table; one line per check."""
    from errata.datasets.dataset_checks import check_dataset
    from errata.datasets.locations import data_dir as find_data_dir
    from errata.datasets.registry import dataset, datasets

    if (name is None) != every:
        raise InputError("Name one dataset to check, or use --all")
    folder = find_data_dir(data_dir)
    failed = []
    for one in datasets().values() if name is None else [dataset(name)]:
        print(f"{one.name}: {one.title}")
        for line in check_dataset(one, folder):
            mark = {True: "ok  ", False: "FAIL", None: "-   "}[line.passed]
            print(f"  {mark} {line.what}: {line.value}", flush=True)
            if line.passed is False:
                failed.append(f"{one.name}: {line.what}")
    if failed:
        print(f"{counted(len(failed), 'check')} failed: {'; '.join(failed)}")
        sys.exit(1)
    print("No check failed. - marks values without a reference.")


@data.command()
def show(
    name: Name,
    setting: Annotated[str | None, typer.Option(help="A setting of the dataset. Default: its first setting.")] = None,
    out: Annotated[Path | None, typer.Option(help="The figure, .png or .svg. Default: SETTING-noise.png.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Print the class counts of a dataset and draw the label noise of a setting."""
    from errata.datasets.loading import load_setting
    from errata.datasets.noise_figures import check_figure_path, class_table, noise_figure, save_figure
    from errata.datasets.registry import dataset

    chosen = dataset(name)
    names = [one.name for one in chosen.settings]
    setting_name = setting or names[0]
    if setting_name not in names:
        raise InputError(f"{name} has no setting {setting_name!r}. Its settings: {', '.join(names)}")
    path = out or Path(f"{setting_name}-noise.png")
    check_figure_path(path)
    labelled = load_setting(setting_name, data_dir)
    print_table(class_table(labelled), f"{chosen.title}: training samples by class")
    print(chosen.bibtex)
    for remark in labelled.data.remarks:
        print(f"note: {remark}")
    noise = labelled.noise
    checked = f" of {noise['known']:,} checked labels" if "known" in noise else " labels"
    print(f"{setting_name}: {noise['count']:,}{checked} are wrong ({noise['rate']:.2%})")
    require("matplotlib", "matplotlib", "plot", "the figure")
    save_figure(noise_figure(labelled), path)
    print(f"Wrote {path}")


@data.command()
def inspect(
    source: Annotated[
        Path, typer.Argument(help="Your data: a table, an array file, or a folder with one folder of images per class.")
    ],
    label: LabelColumn = None,
    text: TextColumn = None,
    id_column: IdColumn = None,
    ignore: IgnoredColumns = None,
    skip_bad: SkipBad = False,
) -> None:
    """Show how errata reads your data: samples, classes, column types, and ignored columns."""
    import numpy as np
    import pandas as pd

    from errata.readers import open_data

    data = open_data(source, label, text=text, id=id_column, ignore=ignore, skip_bad=skip_bad)
    print(f"{source}: {data.samples:,} samples in {data.num_classes} classes, {data.kind}")
    counts = np.bincount(data.labels, minlength=data.num_classes)
    print_table(pd.DataFrame({"class": [str(name) for name in data.classes], "samples": counts}), "classes")
    if data.columns:
        print_table(pd.DataFrame(data.columns.items(), columns=["column", "read as"]), "columns")
    for remark in data.remarks:
        print(f"note: {remark}")
