"""Numbers of cells summarised over seeds, in the order of the paper, with notes on what is missing."""

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from errata.bench.evaluation.published import paper_method_names, paper_settings
from errata.bench.evaluation.result_table import INCOMPLETE, MISSING, TableEntry, mark_incomplete
from errata.bench.plan import GATHERINGS, Cell, usual_settings
from errata.bench.results import Results
from errata.core.methods import parse
from errata.datasets.registry import settings as known_settings
from errata.errors import InputError
from errata.wording import counted

PAPER_SEEDS = 3


def over_seeds(numbers: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """One row per group: mean_percent, std_percent (of the population, as in the paper), seeds, complete."""
    grouped = numbers.groupby(list(by), sort=False)
    summary = grouped.agg(seeds=("seed", "nunique"), complete=("complete", "all"))
    summary.insert(0, "mean_percent", 100 * grouped["value"].mean())
    summary.insert(1, "std_percent", 100 * grouped["value"].std(ddof=0))
    return summary.reset_index()


def fnr_cells(numbers: pd.DataFrame) -> pd.DataFrame:
    """FNR at the noise rate: one row per setting and seed, one column per method, NaN where a method was not run."""
    fnr = numbers[numbers["metric"] == "fnr"]
    cells = fnr.pivot(index=["setting", "seed"], columns="method", values="value")
    methods = [name for name in order_methods(cells.columns) if name in cells]
    settings = _in_order(cells.index.get_level_values("setting"))
    return cells[methods].reindex(settings, level="setting").rename_axis(columns=None)


def complete_settings(numbers: pd.DataFrame) -> set[str]:
    """The settings whose cells all used the whole dataset."""
    return {str(setting) for setting, whole in numbers.groupby("setting")["complete"].all().items() if whole}


def join_paper(summary: pd.DataFrame, paper: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """The summary with the numbers of the paper where there are any."""
    names = {"fnr_percent": "paper_percent", "std_percent": "paper_std_percent"}
    return summary.merge(paper[[*by, *names]].rename(columns=names), on=by, how="left")


def is_lowest(means: "pd.Series[float]") -> "pd.Series[bool]":
    """Where the value is the lowest after rounding to the two decimals that are shown."""
    shown = means.round(2)
    return shown == shown.min()


def display_name(method: str) -> str:
    """The name of a method in the paper's tables; for a method of a plugin that is not loaded, its own name."""
    try:
        return parse(method).paper_name
    except InputError:
        return method


def order_methods(present: Iterable[str], first: Iterable[str] | None = None) -> list[str]:
    """All methods of the paper in its order (or `first`), then the other ones that are present."""
    return list(dict.fromkeys([*(paper_method_names() if first is None else first), *present]))


def order_settings(present: Iterable[str], requested: Sequence[str] | None = None) -> list[str]:
    """The requested settings, or else the usual ones of those present: the paper's in its order, then the others."""
    return usual_settings(_in_order(present)) if requested is None else list(requested)


def _in_order(present: Iterable[str]) -> list[str]:
    there = set(present)
    known = dict.fromkeys([*paper_settings(), *known_settings(), *sorted(there)])
    return [name for name in known if name in there]


def entries(
    summary: pd.DataFrame,
    by: Sequence[str],
    bold: "pd.Series[bool] | None" = None,
    underline: "pd.Series[bool] | None" = None,
) -> dict[tuple[Any, ...], TableEntry]:
    """The result of `over_seeds` as entries of a table, by their keys. One seed has no deviation."""
    keys = summary[list(by)].itertuples(index=False, name=None)
    columns = (summary[name].tolist() for name in ("mean_percent", "std_percent", "seeds", "complete"))
    styles = ([False] * len(summary) if mask is None else mask.tolist() for mask in (bold, underline))
    found = {}
    for key, mean, std, seeds, complete, is_bold, is_underlined in zip(keys, *columns, *styles, strict=True):
        text = f"{mean:.2f}" + (f" ± {std:.2f}" if seeds > 1 else "")
        found[key] = TableEntry(mark_incomplete(text, complete), mean, is_bold, is_underlined)
    return found


def seeds_note(summary: pd.DataFrame) -> str:
    """A note on the number of seeds, with the exceptions."""
    if summary.empty:
        return ""
    usual = int(summary["seeds"].mode().max())
    where = [name for name in ("setting", "gathering", "reference") if name in summary]
    parts = [f"Mean ± population standard deviation over {counted(usual, 'seed')}"]
    for seeds in sorted(set(summary["seeds"]) - {usual}):
        names = dict.fromkeys(summary.loc[summary["seeds"] == seeds, where].agg(", ".join, axis=1))
        parts.append(f"{counted(seeds, 'seed')}: {'; '.join(names)}")
    return "; ".join(parts)


def incomplete_note(summary: pd.DataFrame) -> str:
    """A note on the settings with incomplete data, if there are any."""
    names = dict.fromkeys(summary.loc[~summary["complete"], "setting"])
    return f"{INCOMPLETE} incomplete data, not comparable to the paper: {', '.join(names)}" if names else ""


def not_run_note(shown: Iterable[str], requested: Sequence[str] | None) -> str:
    """A note on the settings of the paper that have no results, unless settings were requested."""
    missing = [name for name in paper_settings() if name not in set(shown)]
    return f"Settings of the paper without results: {', '.join(missing)}" if missing and requested is None else ""


def why_missing(results: Results, setting: str, method: str, seeds: Sequence[int]) -> str:
    """Why a method has no results on a setting: it failed, with the reason, or was not run."""
    try:
        gathering = parse(method).gathering
    except InputError:  # the gathering of a plugin that is not loaded is unknown
        return "not run"
    reasons = (results.failure(Cell(setting, gathering, seed)) for seed in seeds)
    failed = next(filter(None, reasons), "")
    return f"failed: {failed}" if failed else "not run"


class MissingEntries:
    """Creates the missing entries of a table and collects the reasons for its notes."""

    def __init__(self, results: Results) -> None:
        self._results, self._done = results, set(results.cells())
        self._groups = {(cell.setting, cell.gathering) for cell in self._done}
        self._where: dict[str, dict[str, None]] = {}

    def entry(self, setting: str, gathering: str, what: str = "") -> TableEntry:
        """A dash. what: which number is missing if the cells have results."""
        if (setting, gathering) in self._groups:
            self.add("not scored", f"{what} in {setting}")
        else:
            self.add("failed" if self._failures(setting, gathering) else "not run", f"{setting}, {gathering}")
        return TableEntry(MISSING)

    def add(self, reason: str, where: str) -> None:
        """Add a place to the note on a reason."""
        self._where.setdefault(reason, {})[where] = None

    def notes(self, settings: Sequence[str], requested: Sequence[str] | None) -> list[str]:
        """One line per reason, one per failed cell of these settings, and `not_run_note`."""
        reasons = [f"{MISSING} {reason}: {'; '.join(where)}" for reason, where in self._where.items()]
        failures = [failure for name in settings for one in GATHERINGS for failure in self._failures(name, one)]
        return [*reasons, *dict.fromkeys(failures), not_run_note(settings, requested)]

    def _failures(self, setting: str, gathering: str) -> list[str]:
        seeds = range(max([PAPER_SEEDS, *(cell.seed + 1 for cell in self._done)]))
        cells = [Cell(setting, gathering, seed) for seed in seeds]  # type: ignore[arg-type]
        lines = {cell: self._results.failure(cell) for cell in cells if cell not in self._done}
        return [f"{cell.name} failed: {line}" for cell, line in lines.items() if line]
