"""`errata choose`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from errata.cli.app import Device, IgnoredColumns, LabelColumn, TextColumn, app
from errata.errors import InputError
from errata.extras import require
from errata.finding.sources import DataSource
from errata.terminal import print_table, progress_bar

if TYPE_CHECKING:
    from errata.readers import UserData


@app.command()
def choose(
    source: Annotated[Path, typer.Argument(help="A table, text or arrays, in all formats that `errata find` reads.")],
    label: LabelColumn = None,
    text: TextColumn = None,
    ignore: IgnoredColumns = None,
    out: Annotated[Path, typer.Option(help="The file to write the recipe to (.json).")] = Path("recipe.json"),
    max_epochs: Annotated[int, typer.Option(help="Epochs to train each candidate for.", min=1)] = 800,
    batch_size: Annotated[int, typer.Option(help="Samples per batch.", min=1)] = 1024,
    seed: Annotated[int, typer.Option(help="Seed of the validation split and of the training.", min=0)] = 0,
    device: Device = "auto",
) -> None:
    """Choose a network and its recipe by the accuracy on a validation split. Its labels are as noisy as the others."""
    if out.suffix != ".json":
        raise InputError(f"{out} must end in .json")
    if not out.parent.is_dir():
        raise InputError(f"the folder {out.parent} does not exist")
    require("torch", "torch", "torch", "training")
    data = _read_table(DataSource(source, label, text, ignore=ignore), device, seed)
    from errata.training.model_inputs import TableInputs
    from errata.training.search import choose_recipe

    with progress_bar("training candidates", 1) as advance:
        choice = choose_recipe(
            TableInputs(data.prepare().matrix),
            data.labels,
            data.num_classes,
            batch_size=batch_size,
            max_epochs=max_epochs,
            seed=seed,
            device=device,
            journal=out.with_suffix(".search.json"),
            progress=advance,
        )
    table = choice.table
    shown = table.assign(
        widths=["-".join(map(str, widths)) for widths in table["widths"]],
        accuracy=table["accuracy"].map("{:.2%}".format),
        stopped=table["stopped"].fillna(""),
    )
    print_table(shown, "candidates by accuracy on noisy validation labels, best first")
    choice.recipe.save(out)
    print(f"wrote the best recipe to {out}. Use it: errata find {source} --recipe {out} ...")


def _read_table(source: DataSource, device: str, seed: int) -> "UserData":
    """The samples, a table or texts, checked before the search starts."""
    from errata.finding.find_options import FindOptions, check_options
    from errata.readers import UserData

    data = source.open()
    if not isinstance(data, UserData):
        raise InputError(f"{source.path} holds recorded logits; choosing a recipe needs the samples themselves")
    check_options(data, FindOptions("mlp", device=device, seed=seed))
    return data
