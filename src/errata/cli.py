"""The command line: parse, call, print."""

import math
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from errata.errors import ErrataError, InputError
from errata.terminal import check_out, print_table, progress_bar, write_table

if TYPE_CHECKING:
    import pandas as pd

    from errata.dynamics.store import Dynamics

app = typer.Typer(
    name="errata",
    help="Find the wrong labels in a dataset from the way an ordinary model learned it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Source = Annotated[
    Path,
    typer.Argument(
        help="A dynamics folder, a .npz with `logits` and `labels` (and, if you like, `ids`, `classes`, `swa_logits`), "
        "or a .npy of logits with --labels. Logits are (epochs, samples, classes) or (samples, classes)."
    ),
]
LabelsFile = Annotated[Path | None, typer.Option("--labels", help=".npy of the given labels, for a .npy of logits.")]
WindowOption = Annotated[
    tuple[int, int] | None, typer.Option("--window", help="First and last epoch to use, both included, from 0.")
]
BudgetOption = Annotated[int | None, typer.Option("--budget", help="How many samples will be inspected (for CTRL).")]
METHOD_HELP = "A method's name, such as MeanProb-LM; `errata methods` lists them."


def main() -> None:
    """Run a command; what errata refuses, or the disk does, is one line on stderr and exit code 2."""
    warnings.showwarning = lambda message, *_: print(f"errata: warning: {message}", file=sys.stderr)
    try:
        app()
    except ErrataError as error:
        _refuse(str(error))
    except OSError as error:
        _refuse(f"{error.filename}: {error.strerror}" if error.strerror else str(error))


def _refuse(sentence: str) -> None:
    print(f"errata: {sentence}", file=sys.stderr)
    sys.exit(2)


def _show_version(asked: bool) -> None:
    if asked:
        from errata.version import installed_version

        print(f"errata {installed_version()}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find the wrong labels in a dataset from the way an ordinary model learned it."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture and the tables.")] = Path("out"),
    seed: Annotated[int, typer.Option(help="Seed of the noise and of the training.", min=0)] = 0,
) -> None:
    """Put 20 % wrong labels into scikit-learn's digits, train a small network, and let every method find them."""
    from importlib.util import find_spec

    from errata.demo import EPOCHS, FOLDS, demonstrate

    for needed in ("torch", "matplotlib"):
        if find_spec(needed) is None:
            raise InputError(f"the demonstration needs {needed}: pip install 'errata[torch,plot]'")
    out.mkdir(parents=True, exist_ok=True)
    with progress_bar("training", EPOCHS * (1 + FOLDS)) as advance:
        found = demonstrate(out, seed, advance)
    count, samples = found.noisy.count, len(found.noisy.labels)
    print(f"digits: {samples:,} samples, {count} of them wrongly labelled ({found.noisy.rate:.1%}), on purpose\n")
    print_table(
        found.fnr.assign(fnr=found.fnr["fnr"].map("{:.2%}".format), auroc=found.fnr["auroc"].map("{:.4f}".format)),
        f"label errors missed when the {count} most suspicious samples are inspected (FNR), best first",
    )
    percent = "{:.1%}".format
    print_table(
        found.rates.assign(rate=found.rates["rate"].map(percent), interval=_interval(found.rates))[
            ["estimate", "rate", "interval"]
        ],
        "noise rate estimated without the truth",
    )
    print_table(found.ranking.head(10).round(3), "most suspicious samples")
    for file in found.files:
        print(f"wrote {file}")


@app.command()
def methods(
    paper: Annotated[bool, typer.Option("--paper", help="Only the 25 methods the paper evaluates.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the table here as well (.csv or .parquet).")] = None,
) -> None:
    """List every method, the literature it stands for, and why the paper leaves some out."""
    from errata.core.catalogue import methods as catalogue

    if out is not None:
        check_out(out)
    table = catalogue()
    if paper:
        table = table[table["in_paper"]]
    if out is not None:
        write_table(table, out)
    shown = table[["method", "known_from", "in_paper", "left_out"]]
    shown = shown.assign(in_paper=shown["in_paper"].map({True: "*", False: ""}))
    print_table(
        shown.rename(
            columns={"known_from": "known from", "in_paper": "paper", "left_out": "why the paper leaves it out"}
        ),
        f"{len(table)} methods; * marks the {int(table['in_paper'].sum())} rows of the paper's tables",
    )


@app.command()
def score(
    source: Source,
    out: Annotated[Path, typer.Option(help="Where to write the scores: .csv or .parquet.")] = Path("scores.csv"),
    labels: LabelsFile = None,
    method: Annotated[
        list[str] | None, typer.Option(help=METHOD_HELP + " May be repeated. Default: the paper's.")
    ] = None,
    window: WindowOption = None,
    budget: BudgetOption = None,
) -> None:
    """Score every sample, by the paper's methods unless others are named; higher is more suspicious."""
    from errata.core.methods import parse
    from errata.dynamics.scoring import score_many

    check_out(out)
    chosen = None if method is None else [parse(name) for name in method]
    dynamics = _read(source, labels)
    with progress_bar("scoring", dynamics.samples) as advance:
        table = score_many(dynamics, chosen, window=window, budget=budget, progress=advance)
    write_table(table.reset_index(), out)
    print(f"{dynamics}: wrote scores of {len(table.columns)} methods for {len(table):,} samples to {out}")
    if chosen is None and dynamics.swa_logits is None and dynamics.gathering != "out-of-sample":
        print("left out: SWA-CE and SWA-LM, which need swa_logits, the logits of the weight-averaged model")


@app.command()
def rank(
    source: Source,
    out: Annotated[Path | None, typer.Option(help="Write the whole ranking here: .csv or .parquet.")] = None,
    labels: LabelsFile = None,
    method: Annotated[str | None, typer.Option(help=METHOD_HELP + " Default: MeanProb-LM.")] = None,
    window: WindowOption = None,
    budget: BudgetOption = None,
    top: Annotated[int, typer.Option(help="How many to print.", min=0)] = 20,
) -> None:
    """Rank the samples, most suspicious first, with the label the model would have given."""
    from errata.core.methods import parse
    from errata.dynamics.scoring import rank as ranking

    if out is not None:
        check_out(out)
    chosen = None if method is None else parse(method)
    dynamics = _read(source, labels)
    table = ranking(dynamics, chosen, window=window, budget=budget)
    estimates = _noise_rates(dynamics, window)
    if out is not None:
        write_table(table, out)
    print_table(table.head(top).round(4), f"the {min(top, len(table))} most suspicious of {len(table):,} samples")
    for line in estimates:
        print(line)
    if out is not None:
        print(f"wrote {len(table):,} rows to {out}")


def _noise_rates(dynamics: "Dynamics", window: tuple[int, int] | None) -> list[str]:
    """A line an estimate; a ranking is good without them, so that there are none is said, not an error."""
    from errata.dynamics.scoring import noise_rates

    try:
        estimates = noise_rates(dynamics, window=window)
    except InputError as error:
        return [f"how many labels are wrong cannot be estimated here: {error}"]
    return [
        f"{row['estimate']}: no estimate here, {row['how']}"
        if math.isnan(row["rate"])
        else f"{row['estimate']}: about {row['rate']:.1%} of the labels are wrong ({interval}); {row['how']}"
        for row, interval in zip(estimates.to_dict("records"), _interval(estimates), strict=True)
    ]


def _read(source: Path, labels: Path | None) -> "Dynamics":
    from errata.dynamics.files import load_array
    from errata.dynamics.store import Dynamics

    if labels is not None and source.suffix != ".npy":
        raise InputError(f"--labels goes with a .npy of logits; {source} brings its own labels")
    if source.is_dir():
        return Dynamics.open(source)
    if source.suffix == ".npz":
        return _read_npz(source)
    if source.suffix == ".npy":
        if labels is None:
            raise InputError(f"{source} holds logits only; pass --labels with a .npy of the given labels")
        return Dynamics.from_arrays(load_array(source, mapped=True), load_array(labels))
    if not source.exists():
        raise InputError(f"{source} does not exist")
    raise InputError(f"{source} is neither a dynamics folder nor a .npy or .npz file")


def _read_npz(source: Path) -> "Dynamics":
    from errata.dynamics.files import load_arrays
    from errata.dynamics.store import Dynamics

    arrays: dict[str, Any] = load_arrays(source)
    for name in ("logits", "labels"):
        if name not in arrays:
            raise InputError(f"{source} has no array named {name}; it has {', '.join(arrays) or 'none'}")
    known = {name: arrays[name] for name in ("ids", "classes", "swa_logits", "features", "fold") if name in arrays}
    if "classes" in known:
        known["classes"] = known["classes"].tolist()
    return Dynamics.from_arrays(arrays["logits"], arrays["labels"], **known)


def _interval(rates: "pd.DataFrame") -> list[str]:
    return [f"{low:.1%} to {high:.1%}" for low, high in zip(rates["low"], rates["high"], strict=True)]


@app.command()
def choose(
    arrays: Annotated[Path, typer.Argument(help="A .npz with `inputs` (samples, features) and the given `labels`.")],
    out: Annotated[Path, typer.Option(help="Where to write the recipe: .json.")] = Path("recipe.json"),
    max_epochs: Annotated[int, typer.Option(help="How long to train a candidate at most.", min=1)] = 800,
    batch_size: Annotated[int, typer.Option(help="Samples in a batch.", min=1)] = 1024,
    search: Annotated[
        str,
        typer.Option(help="`full`, or `halving`: a third of the time, but small networks that learn slowly drop out."),
    ] = "full",
    seed: Annotated[int, typer.Option(help="Seed of the validation split and of the training.", min=0)] = 0,
    device: Annotated[str, typer.Option(help="`auto`, `cpu` or `cuda`.")] = "auto",
) -> None:
    """Choose a network and how to train it by its accuracy on a validation split, labelled as badly as the rest."""
    from importlib.util import find_spec

    if out.suffix != ".json":
        raise InputError(f"{out} must end in .json")
    if not out.parent.is_dir():
        raise InputError(f"the folder {out.parent} does not exist")
    if find_spec("torch") is None:
        raise InputError("training needs torch: pip install 'errata[torch]'")
    inputs, labels, num_classes = _read_table(arrays)
    from errata.training.choose import choose_recipe
    from errata.training.data import Table

    with progress_bar("training candidates", 1) as advance:
        choice = choose_recipe(
            Table(inputs),
            labels,
            num_classes,
            batch_size=batch_size,
            max_epochs=max_epochs,
            search=search,  # type: ignore[arg-type]  # any other word is refused there, in a sentence
            seed=seed,
            device=device,
            progress=advance,
        )
    table = choice.table
    shown = table.assign(
        widths=["-".join(map(str, widths)) for widths in table["widths"]],
        accuracy=table["accuracy"].map("{:.2%}".format),
        stopped=table["stopped"].fillna(""),
    )
    print_table(shown, "candidates by their accuracy on noisy validation labels, best first")
    choice.recipe.save(out)
    print(f"wrote the best recipe to {out}")


def _read_table(arrays: Path) -> tuple[Any, Any, int]:
    """Inputs (N, D) as float32, labels (N,) as class numbers, and how many classes there are."""
    import numpy as np

    from errata.core.checks import check_labels
    from errata.dynamics.files import load_arrays

    found = load_arrays(arrays)
    for name in ("inputs", "labels"):
        if name not in found:
            raise InputError(f"{arrays} has no array named {name}; it has {', '.join(found) or 'none'}")
    inputs, given = found["inputs"], found["labels"]
    if inputs.dtype.kind not in "biuf":
        raise InputError(f"inputs must be numbers, not {inputs.dtype}")
    names = np.unique(given).tolist() if given.dtype.kind in "US" else None
    labels = check_labels(given, None, names)
    if not len(labels):
        raise InputError("labels are empty: there is nothing to learn from")
    with np.errstate(over="ignore"):  # what is too large for float32 is refused as not finite
        return inputs.astype(np.float32), labels, int(labels.max()) + 1
