"""`errata bench figures`: pictures of the results, with the numbers behind each."""

from pathlib import Path
from typing import Annotated

import typer

from errata.cli.bench import Out, SettingOption, bench
from errata.cli.data import DataDir
from errata.extras import require
from errata.terminal import progress_bar


@bench.command()
def figures(
    setting: SettingOption = None,
    methods: Annotated[
        list[str] | None, typer.Option("--methods", help="A method for curves and histograms. May be repeated.")
    ] = None,
    out: Out = Path("results"),
    to: Annotated[
        Path | None, typer.Option(help="Folder of the figures. Default: figures in that of the results.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Draw all that the results allow as PNG and SVG, with the numbers behind each as CSV; say what cannot be drawn."""
    require("matplotlib", "matplotlib", "plot", "drawing")
    from errata.bench.figures.drawing import CHOSEN
    from errata.bench.figures.gallery import Gallery, Undrawn
    from errata.bench.running.results import Results

    folder = to or out / "figures"
    gallery = Gallery(Results(out), setting, methods or CHOSEN, data_dir)
    undrawn = []
    with progress_bar("drawing", len(gallery)) as advance:
        for one in gallery:
            if isinstance(one, Undrawn):
                undrawn.append(one)
            else:
                one.save(folder)
                print(f"{folder / one.name}: {one.caption}", flush=True)
            advance()
    for one in undrawn:
        print(f"not drawn: {one.name}: {one.reason}")
    drawn = len(gallery) - len(undrawn)
    print(f"{drawn} of {len(gallery)} figures drawn, each as .png, .svg and .csv in {folder}")
