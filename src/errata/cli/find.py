"""`errata find`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from errata.cli.app import app
from errata.cli.shown import TrainingBar
from errata.errors import InputError
from errata.terminal import print_table

if TYPE_CHECKING:
    from errata.datasets.own import OwnData
    from errata.finding.found import Found

SHOWN_CLASSES = 20
SHOWN = ("rank", "id", "label", "suggested", "p_wrong", "agree", "mean_loss")


@app.command()
def find(
    source: Annotated[
        Path,
        typer.Argument(
            help="A table (.csv .tsv .parquet .jsonl), a folder of images in class folders, arrays or saved logits "
            "(.npz), a dynamics folder, or a folder saved by Hugging Face datasets."
        ),
    ],
    label: Annotated[str | None, typer.Option(help="The column with the labels, where there are columns.")] = None,
    text: Annotated[str | None, typer.Option(help="A column to be taken as text.")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="The column that names the samples.")] = None,
    embed: Annotated[
        Path | None,
        typer.Option(help="Embed texts by the sentence-transformers model saved in this folder, instead of by TF-IDF."),
    ] = None,
    model: Annotated[str, typer.Option(help="`auto`, `boosting`, `mlp`, `cnn4`, `cnn9` or `resnet18`.")] = "auto",
    folds: Annotated[
        int | None, typer.Option(help="Train once a fold and judge every sample out-of-sample.", min=2)
    ] = None,
    device: Annotated[str, typer.Option(help="`auto`, `cpu` or `cuda`.")] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the training.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the ranking and the report.")] = Path("errata-out"),
    top: Annotated[int, typer.Option(help="How many of the ranking to print.", min=0)] = 10,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out images that cannot be read.")] = False,
) -> None:
    """Train once on your own data and list the labels that are probably wrong, with a report to review them in."""
    from errata.dynamics.store import Dynamics
    from errata.finding.find import find_in_data, find_in_dynamics, is_begun
    from errata.finding.models import Wanted
    from errata.finding.sources import Named, open_source

    opened = open_source(source, label, text, id_column, skip_bad)
    if isinstance(opened, Dynamics):
        if embed is not None:
            raise InputError(f"--embed is for text that a model is trained on, and {source} is ranked as it is")
        print(f"{source}: {opened}")
        _show(find_in_dynamics(opened, out), out, top)
        return
    _understood(source, opened)
    embedder = None if embed is None else str(embed)
    wanted = Wanted(model, folds, device, seed, embedder)  # type: ignore[arg-type]  # other words are refused there
    try:
        with TrainingBar() as bar:
            found = find_in_data(opened, wanted, out, bar, Named.of(source, label, text, id_column, skip_bad))
    except KeyboardInterrupt:
        kept = f"it goes on from what is kept in {out}" if is_begun(out) else "it begins anew: nothing was kept yet"
        print(f"interrupted: run the same command again, and {kept}", file=sys.stderr)
        sys.exit(130)
    _show(found, out, top)


def _understood(source: Path, data: "OwnData") -> None:
    """Say what the data was taken for, before anything takes time."""
    import numpy as np

    print(f"{source}: {data.samples:,} samples in {data.num_classes} classes, {data.kind}")
    counts = np.bincount(data.labels, minlength=data.num_classes)
    order = np.argsort(-counts, kind="stable")[:SHOWN_CLASSES]
    more = f", and {data.num_classes - len(order):,} others" if data.num_classes > len(order) else ""
    print(f"classes: {', '.join(f'{data.classes[k]} ({counts[k]:,})' for k in order)}{more}")
    by_treatment: dict[str, list[str]] = {}
    for name, treatment in data.columns.items():
        by_treatment.setdefault(treatment, []).append(name)
    for treatment, names in by_treatment.items():
        print(f"{treatment}: {', '.join(names[:SHOWN_CLASSES])}{' ...' if len(names) > SHOWN_CLASSES else ''}")
    for remark in data.remarks:
        print(f"note: {remark}")
    sys.stdout.flush()


def _show(found: "Found", out: Path, top: int) -> None:
    table = found.ranking.head(top)[list(SHOWN)].round(3)
    if top:
        print_table(table, f"the {len(table)} most suspicious of {len(found.ranking):,} samples")
    for sentence in found.summary["notes"]:
        print(sentence)
    print(f"wrote ranking.csv, report.html and more to {out}")
