"""`errata bench report`."""

from pathlib import Path
from typing import Annotated

import typer

from errata.cli.bench import bench
from errata.cli.data import DataDir
from errata.errors import InputError
from errata.extras import require
from errata.terminal import progress_bar


@bench.command()
def report(
    out: Annotated[Path, typer.Option(help="Where to write the page: .html.")] = Path("report.html"),
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
    data_dir: DataDir = None,
) -> None:
    """Write one page with every table and figure, a page a setting; it opens without a network."""
    if out.suffix != ".html":
        raise InputError(f"{out} must end in .html")
    require("matplotlib", "matplotlib", "plot", "the report")
    from errata.bench.results_page import figures_count, write_report
    from errata.bench.running.results import Results

    folder = Results(results)
    with progress_bar("drawing", figures_count(folder, data_dir)) as advance:
        missing = write_report(folder, out, data_dir, advance)
    for sentence in missing:
        print(f"not shown: {sentence}")
    print(f"wrote {out}, {out.stat().st_size / 1e6:.1f} MB")
