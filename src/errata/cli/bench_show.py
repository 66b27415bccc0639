"""`errata bench table | compare | rank | figures | report`: show the results of the benchmark."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from errata.cli.bench import GatheringOption, OutOption, SettingOption, bench, settings_of
from errata.cli.data import DataDir
from errata.errors import InputError
from errata.extras import require
from errata.terminal import check_out, progress_bar, write_table

FORMATS = {".txt": "terminal", ".md": "markdown", ".tex": "latex", ".html": "html", ".csv": "csv"}
ShownSuiteOption = Annotated[
    str | None, typer.Option("--suite", help="The settings of a suite, such as paper, noise or wild.")
]
ResultsOption = Annotated[Path, typer.Option("--results", help="Folder of the results.")]


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
        typer.Option("--format", help="terminal, markdown, latex, html or csv. Default: from the name of --out."),
    ] = None,
    setting: SettingOption = None,
    suite: ShownSuiteOption = None,
    out: Annotated[Path | None, typer.Option(help="File to write. Default: print.")] = None,
    results: ResultsOption = Path("results"),
) -> None:
    """Print or write one of the paper's tables with the stored results."""
    from errata.bench.evaluation.result_table import render, show
    from errata.bench.evaluation.table_registry import build
    from errata.bench.results import Results
    from errata.dynamics.files import replace_atomically

    if form is None and out is not None and out.suffix not in FORMATS:
        raise InputError(f"Unsupported file type {out}. Use {', '.join(FORMATS)}, or pass --format.")
    form = form or ("terminal" if out is None else FORMATS[out.suffix])
    built = build(name, Results(results), settings_of(suite, setting))
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
    out: Annotated[Path | None, typer.Option(help="Also write all comparisons to this file: .csv or .parquet.")] = None,
    results: ResultsOption = Path("results"),
) -> None:
    """Compare the results with the published numbers: one table per setting, and summaries."""
    from errata.bench.evaluation import compare as comparing
    from errata.bench.evaluation.result_table import show
    from errata.bench.results import Results

    if out is not None:
        check_out(out)
    cells, tuned = comparing.compare(Results(results)), comparing.compare_tuned(Results(results))
    for one in comparing.tables(cells, tuned):
        show(one)
    if out is not None:
        write_table(cells, out)
        print(f"wrote {out}")


@bench.command()
def rank(
    setting: SettingOption = None,
    suite: ShownSuiteOption = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            help="A method to compare; `default` is the method that errata chooses for each cell. May be repeated. "
            "Default: all methods that were run on the most settings.",
        ),
    ] = None,
    gathering: GatheringOption = None,
    out: OutOption = Path("results"),
    form: Annotated[str, typer.Option("--format", help="terminal, markdown, latex, html or csv.")] = "terminal",
    figure: Annotated[
        Path | None, typer.Option(help="Also write the critical-difference diagram here: .png or .svg.")
    ] = None,
) -> None:
    """Print the leaderboard: mean FNR, mean rank, wins, and the distance to the leader with its uncertainty."""
    from errata.bench.evaluation.leaderboard import leaderboard, leaderboard_table
    from errata.bench.evaluation.result_table import render, show
    from errata.bench.evaluation.stats import FEWEST_METHODS, FEWEST_SETTINGS
    from errata.bench.results import Results
    from errata.datasets.noise_figures import check_figure_path, save_figure

    if figure is not None:
        check_figure_path(figure)
        require("matplotlib", "matplotlib", "plot", "drawing")
    board = leaderboard(Results(out), settings_of(suite, setting), methods, gathering)
    ranked = leaderboard_table(board)
    text = None if form == "terminal" else render(ranked, form)
    if figure is not None:
        from errata.bench.figures.overview import critical_figure

        if board.ranking is None:
            raise InputError(
                f"The diagram needs at least {FEWEST_METHODS} methods on at least {FEWEST_SETTINGS} settings."
            )
        save_figure(critical_figure(board.ranking), figure)
        print(f"wrote {figure}", file=sys.stderr)  # stdout may be redirected to a file
    if text is None:
        show(ranked)
    else:
        print(text, end="")


@bench.command()
def figures(
    setting: SettingOption = None,
    suite: ShownSuiteOption = None,
    methods: Annotated[
        list[str] | None, typer.Option("--methods", help="A method for curves and histograms. May be repeated.")
    ] = None,
    out: OutOption = Path("results"),
    to: Annotated[
        Path | None, typer.Option(help="Folder of the figures. Default: `figures` in the folder of the results.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Draw all figures as PNG and SVG, each with its numbers as CSV. List the figures that cannot be drawn."""
    require("matplotlib", "matplotlib", "plot", "drawing")
    from errata.bench.figures.gallery import Gallery, SkippedFigure
    from errata.bench.figures.setting_figures import DEFAULT_METHODS
    from errata.bench.results import Results

    folder = to or out / "figures"
    gallery = Gallery(Results(out), settings_of(suite, setting), methods or DEFAULT_METHODS, data_dir)
    skipped = []
    with progress_bar("drawing", len(gallery)) as advance:
        for one in gallery:
            if isinstance(one, SkippedFigure):
                skipped.append(one)
            else:
                one.save(folder)
                print(f"{folder / one.name}: {one.caption}", flush=True)
            advance()
    for one in skipped:
        print(f"not drawn: {one.name}: {one.reason}")
    drawn = len(gallery) - len(skipped)
    print(f"{drawn} of {len(gallery)} figures drawn, each as .png, .svg and .csv in {folder}")


@bench.command()
def report(
    out: Annotated[Path, typer.Option(help="The page to write: .html.")] = Path("report.html"),
    results: ResultsOption = Path("results"),
    data_dir: DataDir = None,
) -> None:
    """Write all tables and figures to one HTML page that works offline."""
    if out.suffix != ".html":
        raise InputError(f"{out} must end in .html")
    require("matplotlib", "matplotlib", "plot", "the report")
    from errata.bench.results import Results
    from errata.bench.results_page import write_report

    for sentence in write_report(Results(results), out, data_dir):
        print(f"not shown: {sentence}")
    print(f"wrote {out}, {out.stat().st_size / 1e6:.1f} MB")
