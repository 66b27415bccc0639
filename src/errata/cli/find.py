"""`errata find`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from errata.cli.app import app
from errata.cli.shown import TrainingBar, as_probability
from errata.errors import InputError
from errata.terminal import print_table

if TYPE_CHECKING:
    from errata.finding.found import Found
    from errata.readers import UserData

OUT = Path("errata-out")
SHOWN_CLASSES = 20
SHOWN = ("rank", "id", "label", "suggested", "p_wrong", "agree", "mean_loss")


@app.command()
def find(
    source: Annotated[
        Path,
        typer.Argument(
            help="A table (.csv .tsv .parquet .jsonl), a folder of images in class folders, arrays or saved logits "
            "(.npz .npy), a dynamics folder, or a folder saved by Hugging Face datasets."
        ),
    ],
    label: Annotated[
        str | None,
        typer.Option(help="The column with the labels, where there are columns; of a .npy, the .npy with its labels."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Of dynamics or saved logits: the table or folder that holds their samples, to be shown."),
    ] = None,
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
    out: Annotated[
        Path | None, typer.Option(help="Folder for the ranking and the report. Default: errata-out.")
    ] = None,
    top: Annotated[int, typer.Option(help="How many of the ranking to print.", min=0)] = 10,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out images that cannot be read.")] = False,
) -> None:
    """Train once on your own data and list the labels that are probably wrong, with a report to review them in."""
    from errata.dynamics.store import Dynamics
    from errata.finding.find import find_in_data, find_in_dynamics, is_begun
    from errata.finding.model_training import FindOptions
    from errata.finding.recorded import about_data, as_option, recorded, refuse_to_lose_contents
    from errata.finding.sources import Named, open_source

    opened = open_source(source, label, text, id_column, skip_bad)
    embedder = None if embed is None else str(embed)
    wanted = FindOptions(model, folds, device, seed, embedder)  # type: ignore[arg-type]  # other words are refused there
    if isinstance(opened, Dynamics):
        said = about_data(source, label, text, id_column, skip_bad)
        run = recorded(source, opened, wanted, data, said, as_option)
        if out is None and run.data is None:
            refuse_to_lose_contents(OUT)
        print(f"{source}: {opened}")
        _show(find_in_dynamics(run, out or OUT), out or OUT, top)
        return
    if data is not None:
        raise InputError(f"--data goes with dynamics or saved logits, to show their samples; {source} holds samples")
    out = out or OUT
    _understood(source, opened)
    try:
        with TrainingBar() as bar:
            found = find_in_data(opened, wanted, out, bar, Named.of(source, label, text, id_column, skip_bad))
    except KeyboardInterrupt:
        kept = f"it goes on from what is kept in {out}" if is_begun(out) else "it begins anew: nothing was kept yet"
        print(f"interrupted: run the same command again, and {kept}", file=sys.stderr)
        sys.exit(130)
    _show(found, out, top, opened.remarks)


def _understood(source: Path, data: "UserData") -> None:
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


def _show(found: "Found", out: Path, top: int, said: Sequence[str] = ()) -> None:
    """Print what was found; `said` are remarks that were printed before."""
    from errata.finding.answer import as_note
    from errata.finding.chance import learned_nothing

    warning = learned_nothing(found)
    if warning:
        print(warning)
    table = found.ranking.head(top)[list(SHOWN)].round(3)
    if top:
        table["p_wrong"] = [as_probability(share) for share in table["p_wrong"]]
        print_table(table, f"the {len(table)} most suspicious of {len(found.ranking):,} samples")
    printed = {warning, *map(as_note, said)}
    for sentence in found.summary["notes"]:
        if sentence not in printed:
            print(sentence)
    print(f"wrote ranking.csv, report.html and more to {out}")
