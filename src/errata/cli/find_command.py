"""`errata find`."""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from errata.cli.app import Device, ExcelSafe, IdColumn, IgnoredColumns, LabelColumn, SkipBad, TextColumn, app
from errata.terminal import TrainingBar, print_table

if TYPE_CHECKING:
    from errata.finding.found import Found

OUT = Path("errata-out")
COLUMNS = ["rank", "id", "label", "suggested", "p_wrong", "agree", "mean_loss"]


@app.command()
def find(
    source: Annotated[
        Path,
        typer.Argument(
            help="A table (.csv .tsv .parquet .jsonl), a folder of images in class folders, arrays or saved logits "
            "(.npz .npy), a dynamics folder, or a folder saved by Hugging Face datasets."
        ),
    ],
    label: LabelColumn = None,
    data: Annotated[
        Path | None,
        typer.Option(help="For dynamics or saved logits: the table or folder with their samples, for the report."),
    ] = None,
    text: TextColumn = None,
    id_column: IdColumn = None,
    ignore: IgnoredColumns = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            help="A pretrained model. Images: `lite0` (the default, with the extra `images`), `lite2`, a folder or "
            "OWNER/NAME of an image model for transformers, or `none`. Texts: a folder of a sentence model."
        ),
    ] = None,
    allow_download: Annotated[
        bool, typer.Option("--allow-download", help="Download the backbone OWNER/NAME if it is not in the cache.")
    ] = False,
    recipe: Annotated[
        Path | None, typer.Option(help="The file of `errata choose`: train this network, without trying others.")
    ] = None,
    model: Annotated[
        str, typer.Option(help="`auto`, `boosting`, `mlp`, `cnn4`, `cnn9`, `resnet18` or `fine-tuned` (the backbone).")
    ] = "auto",
    folds: Annotated[
        int | None, typer.Option(help="Train one model per fold, and score each sample out-of-sample.", min=2)
    ] = None,
    looks: Annotated[
        int | None,
        typer.Option(
            help="2: train again on the labels that the first run trusts, and rank by both. Default: 2 for networks on "
            "pixels with a GPU, otherwise 1.",
            min=1,
            max=2,
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(help="Train on a Ray cluster, each fold as a task: `auto` or HOST:PORT.", metavar="ADDRESS"),
    ] = None,
    device: Device = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the training.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the ranking and the report.")] = OUT,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace results of other data in --out.")] = False,
    top: Annotated[int, typer.Option(help="How many samples to print.", min=0)] = 10,
    skip_bad: SkipBad = False,
    merge_labels: Annotated[
        bool, typer.Option("--merge-labels", help="Treat labels that differ only in case or spaces as one class.")
    ] = False,
    excel_safe: ExcelSafe = False,
) -> None:
    """Train a model on your data and list the labels that are probably wrong, with a page to review them."""
    import errata
    from errata.finding.out_folder import has_unfinished_work

    try:
        with TrainingBar() as bar:
            found = errata.find(
                source,
                label,
                data=data,
                text=text,
                id=id_column,
                ignore=ignore,
                backbone=backbone,
                allow_download=allow_download,
                recipe=recipe,
                model=model,  # type: ignore[arg-type]  # find refuses unknown names
                folds=folds,
                looks=looks,
                ray=ray,
                device=device,
                seed=seed,
                out=out,
                overwrite=overwrite,
                skip_bad=skip_bad,
                merge_labels=merge_labels,
                excel_safe=excel_safe,
                progress=bar,
            )
    except KeyboardInterrupt:
        resumes = f"resumes from {out}" if has_unfinished_work(out) else "starts again: nothing was saved yet"
        print(f"interrupted: the same command {resumes}", file=sys.stderr)
        sys.exit(130)
    _print(found, out, top)


def _print(found: "Found", out: Path, top: int) -> None:
    """The answer, the first samples, and what to do next."""
    from errata.finding.answer import answer, data_notes, how_ranked, states_number
    from errata.finding.found import REPORT

    for line in (how_ranked(found), *answer(found)):
        print(line)
    table = found.ranking.head(top)[COLUMNS].round(3)
    if top:
        table["p_wrong"] = [as_probability(share) for share in table["p_wrong"]]
        if not states_number(found):
            table = table.drop(columns="p_wrong")
        print_table(table, f"the {len(table)} most suspicious of {len(found.ranking):,} samples")
    notes = data_notes(found)
    if notes:
        print(f"Note: {notes[0]}" if len(notes) == 1 else f"{len(notes)} notes on the data: see {out / REPORT}")
    print(f"Wrote ranking.csv, report.html and more to {out}")
    print(f"Next: review the samples in {out / REPORT}{_apply_command(found, out)}")


def _apply_command(found: "Found", out: Path) -> str:
    """The command that applies the decisions; empty if the path of the data is unknown."""
    from errata.finding.sources import DataSource

    source = DataSource.from_summary(found.summary, out)
    if source is None:
        return ""
    words = ["errata", "apply", os.path.normpath(source.source), "--decisions", "decisions.csv"]
    return f", then: {shlex.join(words if out == OUT else [*words, '--found', str(out)])}"


def as_probability(share: float) -> str:
    """A rounded probability; `> 0.99` instead of 1, since an estimate is never certain."""
    return "> 0.99" if round(share, 2) >= 1 else str(round(share, 3))
