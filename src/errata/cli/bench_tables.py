"""`errata bench table` and `errata bench compare`: results as tables, and beside the published numbers."""

from pathlib import Path
from typing import Annotated

import typer

from errata.cli.bench import SettingOption, bench
from errata.errors import InputError
from errata.terminal import check_out, write_table

ENDINGS = {".txt": "terminal", ".md": "markdown", ".tex": "latex", ".html": "html", ".csv": "csv"}
ResultsFolder = Annotated[Path, typer.Option("--results", help="Folder of the results.")]


@bench.command()
def table(
    name: Annotated[
        str,
        typer.Argument(
            help="noise-rate, operating-point, intervals, tuned, chosen, accuracy, training, datasets or noise-rates."
        ),
    ],
    form: Annotated[
        str | None,
        typer.Option("--format", help="terminal, markdown, latex, html or csv. Default: by the ending of --out."),
    ] = None,
    setting: SettingOption = None,
    suite: Annotated[str | None, typer.Option(help="The settings of a suite, such as paper or noise.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write. Default: print.")] = None,
    results: ResultsFolder = Path("results"),
) -> None:
    """Print or write one of the paper's tables, from what was measured here."""
    from errata.bench.evaluation.render import render, show
    from errata.bench.evaluation.tables import build
    from errata.bench.running.plan import suite as find_suite
    from errata.bench.running.results import Results
    from errata.dynamics.files import replace_atomically

    if suite is not None and setting:
        raise InputError("name a suite or settings, not both")
    form = form or _by_ending(out)
    built = build(name, Results(results), setting or (None if suite is None else find_suite(suite)))
    if out is not None:
        text = render(built, form)
        replace_atomically(out, lambda file: file.write(text.encode()))
        print(f"wrote {out}")
    elif form == "terminal":
        show(built)
    else:
        print(render(built, form), end="")


@bench.command()
def compare(
    out: Annotated[
        Path | None, typer.Option(help="File to write every comparison to as well: .csv or .parquet.")
    ] = None,
    results: ResultsFolder = Path("results"),
) -> None:
    """Set what was measured beside the published numbers: a table a setting, and summaries."""
    from errata.bench.evaluation import compare as comparing
    from errata.bench.evaluation.render import show
    from errata.bench.running.results import Results

    if out is not None:
        check_out(out)
    cells = comparing.compare(Results(results))
    for one in comparing.tables(cells):
        show(one)
    if out is not None:
        write_table(cells, out)
        print(f"wrote {out}")


def _by_ending(out: Path | None) -> str:
    if out is None:
        return "terminal"
    if out.suffix not in ENDINGS:
        raise InputError(f"{out} must end in {', '.join(ENDINGS)}, or --format must be given")
    return ENDINGS[out.suffix]
