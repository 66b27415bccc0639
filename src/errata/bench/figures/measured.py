"""FNR at the noise rate, as the results have it: by cell, and by setting over its seeds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from errata.bench.evaluation.tables.over_seeds import order_methods, order_settings, over_seeds
from errata.bench.plan import Cell
from errata.bench.results import Results
from errata.core.methods import parse
from errata.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def fnr_cells(numbers: "pd.DataFrame") -> "pd.DataFrame":
    """A row a (setting, seed), a column a method, both in the paper's order; holes where a method was not run."""
    found = numbers[numbers["metric"] == "fnr"]
    cells = found.pivot(index=["setting", "seed"], columns="method", values="value")
    methods = [name for name in order_methods(cells.columns) if name in cells]
    settings = order_settings(cells.index.get_level_values("setting"))
    return cells[methods].reindex(settings, level="setting").rename_axis(columns=None)


def complete_settings(numbers: "pd.DataFrame") -> set[str]:
    """Those of which every cell was measured on the whole dataset."""
    return {str(setting) for setting, whole in numbers.groupby("setting")["complete"].all().items() if whole}


def fnr_by_setting(results: Results, numbers: "pd.DataFrame") -> "pd.DataFrame":
    """A row a setting and method: mean and population standard deviation over seeds, in percent.

    Further: how many seeds, the ratio to the best mean of the setting, whether the data was complete, and why there
    is no number where there is none.
    """
    import pandas as pd

    cells, whole = fnr_cells(numbers), complete_settings(numbers)
    settings = cells.index.get_level_values("setting").unique()
    grid = pd.MultiIndex.from_product([settings, cells.columns], names=["setting", "method"])
    summary = over_seeds(numbers[numbers["metric"] == "fnr"], ["setting", "method"])
    table = summary.set_index(["setting", "method"]).reindex(grid).reset_index()
    table = table.rename(columns={"mean_percent": "fnr_percent"}).astype({"seeds": "Int64"})
    best = table.groupby("setting")["fnr_percent"].transform("min")
    with np.errstate(divide="ignore", invalid="ignore"):  # any miss is infinitely more than none
        table["ratio_to_best"] = np.where(table["fnr_percent"] == best, 1.0, table["fnr_percent"] / best)
    seeds = sorted(set(numbers["seed"]))
    missing = [
        "" if there else why_missing(results, setting, method, seeds)
        for setting, method, there in zip(table["setting"], table["method"], table["seeds"].notna(), strict=True)
    ]
    return table.assign(seeds=table["seeds"].fillna(0), complete=table["setting"].isin(whole), missing=missing)


def why_missing(results: Results, setting: str, method: str, seeds: Sequence[int]) -> str:
    """Whether a method failed on a setting, and how, or was not run there at all."""
    try:
        gathering = parse(method).gathering
    except InputError:  # of a plugin that is not loaded: it may be of either
        return "not run"
    reasons = [results.failure(Cell(setting, gathering, seed)) for seed in seeds]
    failed = next((reason.strip().splitlines()[-1] for reason in reasons if reason and reason.strip()), None)
    return f"failed: {failed}" if failed else "not run"
