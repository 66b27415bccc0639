"""`errata bench tune`: post-hoc tuning of aggregation windows and of CTRL."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from errata.cli.bench import Out, Seeds, SettingOption, Suite, bench, chosen_cells
from errata.cli.data import DataDir
from errata.cli.shown import TrainingBar
from errata.extras import require
from errata.terminal import print_table

if TYPE_CHECKING:
    import pandas as pd


@bench.command()
def tune(
    suite: Suite = None,
    setting: SettingOption = None,
    seeds: Seeds = None,
    device: Annotated[str, typer.Option(help="`auto`, `cpu` or `cuda`.")] = "auto",
    out: Out = Path("results"),
    data_dir: DataDir = None,
) -> None:
    """Train for longer, then choose windows and CTRL's parameters on 1, 5 and 10 % of samples whose truth is known.

    What is chosen is evaluated on the other 90 %. Killed at any moment, it goes on when run again.
    """
    require("torch", "torch", "torch", "tuning")
    from errata.bench.running.tune import Tuning
    from errata.bench.running.tune_files import TuningFiles

    cells = chosen_cells(suite, setting, ["in-sample"], seeds)
    with TrainingBar() as watcher:
        campaign = Tuning(out, watcher, device, data_dir)
        watcher.total(campaign.epochs(cells))
        outcome = campaign.run(cells)
    files = TuningFiles(out)
    for name in dict.fromkeys(cell.setting for cell in cells if files.has(cell)):
        print_table(_summary(files.chosen(name)), f"{name}: FNR in percent, mean over seeds, by the fraction tuned on")
    print(
        f"{len(outcome.done)} seeds tuned, {len(outcome.reused)} reused, {len(outcome.skipped)} skipped, "
        f"{len(outcome.failed)} failed; results are in {out / 'tuning'}"
    )
    if outcome.failed:
        sys.exit(1)


def _summary(chosen: "pd.DataFrame") -> "pd.DataFrame":
    """A row a method, a column a tuning fraction."""
    methods = chosen["method"].unique()
    means = 100 * chosen.pivot_table(values="value", index="method", columns="tuning_fraction").loc[methods]
    shown = means.map("{:.2f}".format).rename(columns="{:.0%}".format)
    return shown.reset_index().rename_axis(columns=None)
