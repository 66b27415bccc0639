"""`errata bench`: the paper's tables, run for real."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from errata.cli.app import app
from errata.cli.data import DataDir
from errata.errors import InputError
from errata.terminal import print_table, progress_bar

if TYPE_CHECKING:
    from errata.bench.plan import Cell

bench = typer.Typer(help="The benchmark: run it, and see it beside the published numbers.", no_args_is_help=True)
app.add_typer(bench, name="bench")

Suite = Annotated[str | None, typer.Option(help="paper, tabular, cifar or quick. Default: quick.")]
SettingOption = Annotated[
    list[str] | None, typer.Option("--setting", help="A setting, such as letter-symmetric-20. May be repeated.")
]
GatheringOption = Annotated[
    list[str] | None, typer.Option("--gathering", help="in-sample or out-of-sample. Default: both.")
]
Seeds = Annotated[int, typer.Option(help="How many seeds: 0, 1, ...", min=1)]
Out = Annotated[Path, typer.Option(help="Folder of the results; what is there already is reused.")]


@bench.command("list")
def list_settings(out: Out = Path("results"), data_dir: DataDir = None) -> None:
    """List the settings: data, noise, network, epochs, and how many cells are done."""
    import pandas as pd

    from errata.bench.results import Results
    from errata.datasets.loading import presence
    from errata.datasets.registry import dataset, settings
    from errata.datasets.where import data_dir as find_data_dir

    there: dict[str, str] = {}
    done = list(Results(out).cells())
    rows = []
    for one in settings().values():
        if one.dataset not in there:
            there[one.dataset], _ = presence(dataset(one.dataset), find_data_dir(data_dir))
        cells = [cell for cell in done if cell.setting == one.name]
        rows.append(
            {
                "setting": one.name,
                "paper": "*" if one.in_paper else "",
                "network": "-".join([one.network, *map(str, one.recipe.widths)]),
                "epochs": one.recipe.epochs,
                "data": there[one.dataset],
                "in-sample": sum(cell.gathering == "in-sample" for cell in cells),
                "out-of-sample": sum(cell.gathering == "out-of-sample" for cell in cells),
            }
        )
    print_table(pd.DataFrame(rows), f"settings, and how many seeds of each are done in {out}; * is in the paper")


@bench.command()
def run(
    suite: Suite = None,
    setting: SettingOption = None,
    gathering: GatheringOption = None,
    methods: Annotated[
        list[str] | None, typer.Option("--methods", help="A method beyond the paper's. May be repeated.")
    ] = None,
    plugin: Annotated[
        list[Path] | None, typer.Option(help="A Python file that brings methods of its own. May be repeated.")
    ] = None,
    seeds: Seeds = 3,
    device: Annotated[str, typer.Option(help="`auto`, `cpu` or `cuda`.")] = "auto",
    out: Out = Path("results"),
    keep_dynamics: Annotated[bool, typer.Option(help="Keep the logits of every epoch after scoring.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Train and score every cell that is not there yet; killed at any moment, it goes on when run again."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise InputError("the benchmark needs torch: pip install 'errata[torch]'")
    from errata.bench.plugins import plugin_methods
    from errata.bench.run import How
    from errata.bench.run import run as run_cells
    from errata.core.methods import parse

    plugins = tuple(plugin or ())
    plugin_methods(plugins)

    cells = _cells(suite, setting, gathering, 1 if suite == "quick" else seeds)
    extra = tuple(parse(name).name for name in methods or ())
    with _Shown(cells, out) as watcher:
        outcome = run_cells(cells, out, How(device, data_dir, extra, plugins, keep_dynamics), watcher)
    print(
        f"{len(outcome.done)} cells done, {len(outcome.reused)} reused, {len(outcome.skipped)} skipped, "
        f"{len(outcome.failed)} failed; results are in {out}"
    )
    if outcome.failed:
        sys.exit(1)


@bench.command()
def choose(
    setting: Annotated[list[str], typer.Option("--setting", help="A setting of a table. May be repeated.")],
    device: Annotated[str, typer.Option(help="`auto`, `cpu` or `cuda`.")] = "auto",
    out: Out = Path("results"),
    data_dir: DataDir = None,
) -> None:
    """Search network, rates and epochs on noisy validation labels; `run` then uses the recipe found."""
    from errata.bench.choosing import choose_for

    for name in setting:
        with progress_bar(name, 1) as advance:
            choice = choose_for(name, out, data_dir, device, advance)
        recipe = choice.recipe
        network = "-".join(map(str, recipe.widths))
        rates = f"learning rate {recipe.learning_rate:g}, weight decay {recipe.weight_decay:g}"
        print(f"{name}: {network}, {rates}, {recipe.epochs} epochs: {choice.accuracy:.2%} of noisy labels", flush=True)


def _cells(suite: str | None, settings: list[str] | None, gathering: list[str] | None, seeds: int) -> "list[Cell]":
    from errata.bench.plan import GATHERINGS, plan
    from errata.bench.plan import suite as find_suite

    if suite is not None and settings:
        raise InputError("name a suite or settings, not both")
    names = settings or find_suite(suite or "quick")
    return plan(names, gathering or GATHERINGS, seeds)  # type: ignore[arg-type]  # other words are refused there


class _Shown:
    """Lines on standard output, and on a terminal a bar with the time left."""

    def __init__(self, cells: "list[Cell]", out: Path) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        from errata.bench.results import Results
        from errata.bench.run import missing, model_epochs, recipe_of

        results = Results(out)
        total = sum(model_epochs(group, recipe_of(group, results)) for group in missing(cells, results))
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("epochs"))
        console = Console(stderr=True)
        self._bar = Progress(
            *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
        )
        self._task = self._bar.add_task("training", total=total)

    def __enter__(self) -> "_Shown":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def say(self, line: str) -> None:
        """A line about a cell or a group."""
        print(line, flush=True)

    def begin(self, name: str, epochs: int) -> None:
        """A group is trained."""
        self._bar.update(self._task, description=name)

    def advance(self, epochs: int) -> None:
        """So many more epochs are done."""
        self._bar.advance(self._task, epochs)
