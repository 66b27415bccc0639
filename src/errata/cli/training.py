"""`errata choose`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from errata.cli.app import app
from errata.errors import InputError
from errata.extras import require
from errata.terminal import print_table, progress_bar


@app.command()
def choose(
    arrays: Annotated[Path, typer.Argument(help="A .npz with `inputs` (samples, features) and the given `labels`.")],
    out: Annotated[Path, typer.Option(help="The file to write the recipe to (.json).")] = Path("recipe.json"),
    max_epochs: Annotated[int, typer.Option(help="Epochs to train each candidate for.", min=1)] = 800,
    batch_size: Annotated[int, typer.Option(help="Samples per batch.", min=1)] = 1024,
    search: Annotated[
        str,
        typer.Option(
            help="`full`, or `halving`: takes a third of the time, but drops small networks that learn slowly."
        ),
    ] = "full",
    seed: Annotated[int, typer.Option(help="Seed of the validation split and of the training.", min=0)] = 0,
    device: Annotated[str, typer.Option(help="`auto`, `cpu` or `cuda`.")] = "auto",
) -> None:
    """Choose a network and its recipe by the accuracy on a validation split. Its labels are as noisy as the others."""
    if out.suffix != ".json":
        raise InputError(f"{out} must end in .json")
    if not out.parent.is_dir():
        raise InputError(f"the folder {out.parent} does not exist")
    require("torch", "torch", "torch", "training")
    inputs, labels, num_classes = _read_table(arrays)
    from errata.training.model_inputs import TableInputs
    from errata.training.search import choose_recipe

    with progress_bar("training candidates", 1) as advance:
        choice = choose_recipe(
            TableInputs(inputs),
            labels,
            num_classes,
            batch_size=batch_size,
            max_epochs=max_epochs,
            search=search,
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
    print(f"wrote the best recipe to {out}")


def _read_table(arrays: Path) -> tuple[Any, Any, int]:
    """Inputs (N, D) as float32, labels (N,) as class numbers, and the number of classes."""
    import numpy as np

    from errata.core.checks import check_labels
    from errata.dynamics.files import load_arrays

    stored = load_arrays(arrays)
    for name in ("inputs", "labels"):
        if name not in stored:
            raise InputError(f"{arrays} has no array named {name}; it has {', '.join(stored) or 'none'}")
    inputs, given = stored["inputs"], stored["labels"]
    if inputs.dtype.kind not in "biuf":
        raise InputError(f"inputs must be numbers, not {inputs.dtype}")
    names = np.unique(given).tolist() if given.dtype.kind in "US" else None
    labels = check_labels(given, None, names)
    if not len(labels):
        raise InputError("labels are empty: there is nothing to train on")
    with np.errstate(over="ignore"):  # values too large for float32 become infinite, which TableInputs refuses
        return inputs.astype(np.float32), labels, int(labels.max()) + 1
