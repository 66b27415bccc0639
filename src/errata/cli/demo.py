"""`errata demo`."""

from pathlib import Path
from typing import Annotated

import typer

from errata.cli.app import app
from errata.cli.shown import intervals
from errata.errors import InputError
from errata.terminal import print_table, progress_bar


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
        found.rates.assign(rate=found.rates["rate"].map(percent), interval=intervals(found.rates))[
            ["estimate", "rate", "interval"]
        ],
        "noise rate estimated without the truth",
    )
    print_table(found.ranking.head(10).round(3), "most suspicious samples")
    for file in found.files:
        print(f"wrote {file}")
