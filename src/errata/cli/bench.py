"""`errata bench`: run the benchmark."""

import contextlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from errata.cli.app import Device, app
from errata.cli.data import DataDir
from errata.errors import InputError
from errata.extras import require
from errata.terminal import TrainingBar, print_table, progress_bar

if TYPE_CHECKING:
    import pandas as pd

    from errata.bench.plan import Cell
    from errata.bench.running.campaign import CampaignOutcome

bench = typer.Typer(help="Run the benchmark and compare its results with the published numbers.", no_args_is_help=True)
app.add_typer(bench, name="bench")

SuiteOption = Annotated[
    str | None,
    typer.Option("--suite", help="paper, tabular, cifar, noise, boosting, wild, pretrained or quick. Default: quick."),
]
SettingOption = Annotated[
    list[str] | None, typer.Option("--setting", help="A setting, such as letter-symmetric-20. May be repeated.")
]
GatheringOption = Annotated[
    list[str] | None, typer.Option("--gathering", help="in-sample or out-of-sample. Default: both.")
]
SeedsOption = Annotated[int | None, typer.Option("--seeds", help="Number of seeds. Default: 3; quick: 1.", min=1)]
OutOption = Annotated[Path, typer.Option("--out", help="Folder of the results. Results that it has are reused.")]


@bench.command("list")
def list_settings(
    suite: Annotated[str | None, typer.Option(help="The settings of a suite, such as paper or wild.")] = None,
    out: OutOption = Path("results"),
    data_dir: DataDir = None,
) -> None:
    """List the settings: network, epochs, whether the data is there, and the number of seeds with results."""
    import pandas as pd

    from errata.bench.plan import usual_settings
    from errata.bench.results import Results
    from errata.datasets.loading import presence
    from errata.datasets.locations import data_dir as find_data_dir
    from errata.datasets.registry import dataset, settings

    chosen = [settings()[name] for name in settings_of(suite, None) or usual_settings(settings())]
    results, folder = Results(out), find_data_dir(data_dir)
    done = [(cell.setting, cell.gathering) for cell in results.cells()]
    present = {name: presence(dataset(name), folder)[0] for name in {one.dataset for one in chosen}}
    rows = []
    for one in chosen:
        recipe = results.recipe(one)
        rows.append(
            {
                "setting": one.name,
                "paper": "*" if one.in_paper else "",
                "network": "-".join([one.network, *map(str, recipe.widths)]),
                "epochs": recipe.epochs,
                "data": present[one.dataset],
                "in-sample": done.count((one.name, "in-sample")),
                "out-of-sample": done.count((one.name, "out-of-sample")),
            }
        )
    print_table(pd.DataFrame(rows), f"settings and the number of seeds with results in {out}; * is in the paper")


@bench.command()
def run(
    suite: SuiteOption = None,
    setting: SettingOption = None,
    gathering: GatheringOption = None,
    methods: Annotated[
        list[str] | None, typer.Option("--methods", help="An additional method. May be repeated.")
    ] = None,
    plugin: Annotated[
        list[Path] | None, typer.Option(help="A Python file that defines methods. May be repeated.")
    ] = None,
    seeds: SeedsOption = None,
    device: Device = "auto",
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            help="Folder of the results, by default results, or a URL such as s3://bucket/results. Results that it has "
            "are reused.",
        ),
    ] = None,
    keep_dynamics: Annotated[bool, typer.Option(help="Keep the logits of every epoch after scoring.")] = False,
    as_published: Annotated[
        bool,
        typer.Option(
            "--as-published",
            help="Train and score as the paper did, without improvements. Results go to results/as-published.",
        ),
    ] = False,
    ray: Annotated[
        str | None, typer.Option("--ray", help="Run each cell as a task of a Ray cluster: `auto` or HOST:PORT.")
    ] = None,
    looks: Annotated[
        int, typer.Option(help="2: also train a second pass in-sample, with the metric fnr_two_passes.", min=1, max=2)
    ] = 1,
    data_dir: DataDir = None,
) -> None:
    """Train and score every cell that has no results yet. If it is interrupted, run it again to resume."""
    require("torch", "torch", "torch", "the benchmark")
    from errata.bench.running.benchmark_run import BenchmarkRun, plugin_methods
    from errata.bench.running.campaign import RunOptions
    from errata.bench.running.cluster_run import run_on_cluster
    from errata.bench.stored_results import StoredResults
    from errata.core.default import parse_or_default
    from errata.dynamics.files import is_url
    from errata.dynamics.places import Place

    plugins = tuple(plugin or ())
    plugin_methods(plugins)  # --methods may name a method of a plugin
    cells = planned_cells(suite, setting, gathering, seeds)
    extra = tuple(method.name for method in map(parse_or_default, methods or ()) if method)  # the default always runs
    if looks == 2 and as_published:
        raise InputError("The paper has one pass: use --as-published or --looks 2, not both.")
    folder = "as-published" if as_published else "two-passes" if looks == 2 else ""
    place = Place(out) if out is not None and is_url(out) else None
    if place is not None and keep_dynamics:
        raise InputError("--keep-dynamics needs a local folder: leave it out, or choose another --out")
    options = RunOptions(device, data_dir, extra, plugins, keep_dynamics, as_published, looks)
    with TrainingBar() as bar, contextlib.ExitStack() as stack:
        local = Path(out or Path("results", folder))
        results = None
        if place is not None:
            local = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            results = StoredResults(place, local, (cell.setting for cell in cells))
        benchmark = BenchmarkRun(local, options, bar, results)
        outcome = benchmark.run(cells) if ray is None else run_on_cluster(benchmark, ray, cells)
    _print_outcome(outcome, "cells done", out or local)


@bench.command()
def tune(
    suite: SuiteOption = None,
    setting: SettingOption = None,
    seeds: SeedsOption = None,
    device: Device = "auto",
    out: OutOption = Path("results"),
    data_dir: DataDir = None,
) -> None:
    """Train for longer, then tune windows and CTRL's parameters on 1, 5 and 10 % of the samples with known truth.

    The other 90 % evaluate the tuned methods. If it is interrupted, run it again to resume.
    """
    require("torch", "torch", "torch", "tuning")
    from errata.bench.running.campaign import RunOptions
    from errata.bench.running.tuning_run import TuningRun
    from errata.bench.tuning_results import TuningResults

    cells = planned_cells(suite, setting, ["in-sample"], seeds)
    with TrainingBar() as bar:
        outcome = TuningRun(out, RunOptions(device, data_dir), bar).run(cells)
    results = TuningResults(out)
    for name in dict.fromkeys(cell.setting for cell in cells if results.has(cell)):
        print_table(_tuning_summary(results.read(name)), f"{name}: FNR in percent, mean over seeds, by tuning fraction")
    _print_outcome(outcome, "seeds tuned", out / "tuning")


@bench.command()
def choose(
    setting: Annotated[list[str], typer.Option("--setting", help="A setting of tabular data. May be repeated.")],
    device: Device = "auto",
    out: OutOption = Path("results"),
    data_dir: DataDir = None,
) -> None:
    """Search network, rates and epochs on noisy validation labels. `errata bench run` then uses the recipe found."""
    require("torch", "torch", "torch", "choosing a recipe")
    from errata.bench.running.recipe_choice import choose_for

    for name in setting:
        with progress_bar(name, 1) as advance:
            found = choose_for(name, out, data_dir, device, advance)
        print(f"{name}: {found}", flush=True)


@bench.command()
def pack(out: OutOption = Path("results")) -> None:
    """Move the results of single cells into one Parquet file per setting, to commit them."""
    from errata.bench.packing import pack as pack_results
    from errata.bench.results import Results

    packed = pack_results(Results(out))
    for name, cells in packed.items():
        print(f"{Results(out).packed_path(name)}: {cells} cells")
    print(f"{len(packed)} settings packed in {out}")


def planned_cells(
    suite: str | None, settings: list[str] | None, gathering: Sequence[str] | None, seeds: int | None
) -> "list[Cell]":
    """The cells of a suite or of settings."""
    from errata.bench.plan import GATHERINGS, QUICK, plan

    names = settings_of(suite, settings) or QUICK
    default_seeds = 1 if not settings and suite in (None, "quick") else 3
    return plan(names, gathering or GATHERINGS, seeds or default_seeds)


def settings_of(suite: str | None, settings: list[str] | None) -> list[str] | None:
    """The settings of --suite or --setting; None if neither is used."""
    from errata.bench.plan import suite as find_suite

    if suite is not None and settings:
        raise InputError("Use --suite or --setting, not both.")
    return settings or (None if suite is None else list(find_suite(suite)))


def _print_outcome(outcome: "CampaignOutcome", what: str, out: Path | str) -> None:
    counts = f"{len(outcome.reused)} reused, {len(outcome.skipped)} skipped, {len(outcome.failed)} failed"
    print(f"{len(outcome.done)} {what}, {counts}; results are in {out}")
    if outcome.failed:
        sys.exit(1)


def _tuning_summary(chosen: "pd.DataFrame") -> "pd.DataFrame":
    """One row per method, one column per tuning fraction."""
    methods = chosen["method"].unique()
    means = 100 * chosen.pivot_table(values="value", index="method", columns="tuning_fraction").loc[methods]
    shown = means.map("{:.2f}".format).rename(columns="{:.0%}".format)
    return shown.reset_index().rename_axis(columns=None)
