"""`errata bench rank`: the leaderboard."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from errata.cli.bench import GatheringOption, Out, SettingOption, bench
from errata.errors import InputError
from errata.extras import require


@bench.command()
def rank(
    setting: SettingOption = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            help="A method to compare; `default` is what errata ranks each setting by. May be repeated. "
            "Default: all run on the most settings.",
        ),
    ] = None,
    gathering: GatheringOption = None,
    out: Out = Path("results"),
    form: Annotated[str, typer.Option("--format", help="terminal, markdown, latex, html or csv.")] = "terminal",
    figure: Annotated[
        Path | None, typer.Option(help="Write the critical-difference diagram here as well: .png or .svg.")
    ] = None,
) -> None:
    """Print the leaderboard: mean FNR and rank, wins, how far each method is behind the leader, how sure that is."""
    from errata.bench.evaluation.leaderboard import FEWEST_METHODS, FEWEST_SETTINGS, leaderboard
    from errata.bench.evaluation.render import render, show
    from errata.bench.evaluation.tables.leaderboard_table import leaderboard_table
    from errata.bench.figures.critical import critical_figure
    from errata.bench.running.results import Results
    from errata.datasets.pictures import check_picture, save_picture

    if figure is not None:
        check_picture(figure)
        require("matplotlib", "matplotlib", "plot", "drawing")
    board = leaderboard(Results(out), setting, methods, gathering)
    table = leaderboard_table(board)
    text = None if form == "terminal" else render(table, form)
    if figure is not None:
        if board.standing is None:
            raise InputError(f"the diagram needs {FEWEST_METHODS} methods on {FEWEST_SETTINGS} settings or more")
        save_picture(critical_figure(board.standing), figure)
        print(f"wrote {figure}", file=sys.stderr)  # what is printed may go to a file
    if text is None:
        show(table)
    else:
        print(text, end="")
