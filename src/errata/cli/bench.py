"""`errata bench`: the paper's tables, run for real."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from errata.cli.app import app
from errata.cli.data import DataDir
from errata.cli.shown import TrainingBar
from errata.errors import InputError
from errata.extras import require
from errata.terminal import print_table, progress_bar

if TYPE_CHECKING:
    from errata.bench.running.plan import Cell

bench = typer.Typer(help="The benchmark: run it, and see it beside the published numbers.", no_args_is_help=True)
app.add_typer(bench, name="bench")

Suite = Annotated[str | None, typer.Option(help="paper, tabular, cifar, noise, boosting or quick. Default: quick.")]
SettingOption = Annotated[
    list[str] | None, typer.Option("--setting", help="A setting, such as letter-symmetric-20. May be repeated.")
]
GatheringOption = Annotated[
    list[str] | None, typer.Option("--gathering", help="in-sample or out-of-sample. Default: both.")
]
Seeds = Annotated[int | None, typer.Option(help="How many seeds: 0, 1, ... Default: 3; quick: 1.", min=1)]
Out = Annotated[Path, typer.Option(help="Folder of the results; what is there already is reused.")]


@bench.command("list")
def list_settings(out: Out = Path("results"), data_dir: DataDir = None) -> None:
    """List the settings: data, noise, network, epochs, and how many cells are done."""
    import pandas as pd

    from errata.bench.running.campaign import recipe_of
    from errata.bench.running.plan import Group
    from errata.bench.running.results import Results
    from errata.datasets.loading import presence
    from errata.datasets.registry import dataset, settings
    from errata.datasets.where import data_dir as find_data_dir

    there: dict[str, str] = {}
    results = Results(out)
    done = list(results.cells())
    rows = []
    for one in settings().values():
        if one.dataset not in there:
            there[one.dataset], _ = presence(dataset(one.dataset), find_data_dir(data_dir))
        cells = [cell for cell in done if cell.setting == one.name]
        recipe = recipe_of(Group(one, "in-sample", ()), results)
        rows.append(
            {
                "setting": one.name,
                "paper": "*" if one.in_paper else "",
                "network": "-".join([one.network, *map(str, recipe.widths)]),
                "epochs": recipe.epochs,
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
    seeds: Seeds = None,
    device: Annotated[str, typer.Option(help="`auto`, `cpu` or `cuda`.")] = "auto",
    out: Out = Path("results"),
    keep_dynamics: Annotated[bool, typer.Option(help="Keep the logits of every epoch after scoring.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Train and score every cell that is not there yet; killed at any moment, it goes on when run again."""
    require("torch", "torch", "torch", "the benchmark")
    from errata.bench.running.cells import How, Run
    from errata.bench.running.plugins import plugin_methods
    from errata.core.default import is_default
    from errata.core.methods import parse

    plugins = tuple(plugin or ())
    plugin_methods(plugins)  # a method of theirs may be named

    cells = chosen_cells(suite, setting, gathering, seeds)
    extra = tuple(parse(name).name for name in methods or () if not is_default(name))  # the default always runs
    with TrainingBar() as watcher:
        campaign = Run(out, How(device, data_dir, extra, plugins, keep_dynamics), watcher)
        watcher.total(campaign.epochs(cells))
        outcome = campaign.run(cells)
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
    printed: Annotated[
        bool,
        typer.Option(
            "--printed",
            help="Rates and epochs as the paper prints them; of all networks that whose test accuracy is nearest to "
            "the printed one.",
        ),
    ] = False,
    out: Out = Path("results"),
    data_dir: DataDir = None,
) -> None:
    """Search network, rates and epochs on noisy validation labels; `run` then uses the recipe found."""
    from errata.bench.running.recipe_choice import choose_for

    for name in setting:
        with progress_bar(name, 1) as advance:
            found = choose_for(name, out, data_dir, device, advance, printed=printed)
        print(f"{name}: {found}", flush=True)


def chosen_cells(
    suite: str | None, settings: list[str] | None, gathering: list[str] | None, seeds: int | None
) -> "list[Cell]":
    """The cells of a suite, or of the settings named."""
    from errata.bench.running.plan import GATHERINGS, plan
    from errata.bench.running.plan import suite as find_suite

    if suite is not None and settings:
        raise InputError("name a suite or settings, not both")
    named = suite or "quick"
    usual = 1 if named == "quick" and not settings else 3
    return plan(settings or find_suite(named), gathering or GATHERINGS, seeds or usual)  # type: ignore[arg-type]  # other words are refused there
