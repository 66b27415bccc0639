"""Cells over their seeds: mean and deviation, how many there are, and why some are not."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from errata.bench.evaluation.published import paper_order, paper_settings
from errata.bench.evaluation.tables.table import INCOMPLETE, MISSING, Entry
from errata.bench.plan import GATHERINGS, Cell
from errata.bench.results import Results
from errata.core.methods import parse
from errata.datasets.registry import settings as known_settings
from errata.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

PAPER_SEEDS = 3


def over_seeds(numbers: "pd.DataFrame", by: Sequence[str]) -> "pd.DataFrame":
    """A row a group: mean_percent, std_percent (of the population, as in the paper), seeds, complete."""
    grouped = numbers.groupby(list(by), sort=False)
    summary = grouped.agg(seeds=("seed", "nunique"), complete=("complete", "all"))
    summary.insert(0, "mean_percent", 100 * grouped["value"].mean())
    summary.insert(1, "std_percent", 100 * grouped["value"].std(ddof=0))
    return summary.reset_index()


def entries(
    summary: "pd.DataFrame",
    by: Sequence[str],
    bold: "pd.Series[bool] | None" = None,
    underline: "pd.Series[bool] | None" = None,
) -> dict[tuple[Any, ...], Entry]:
    """The entries of a table by their keys, from what `over_seeds` gives; one seed has no deviation."""
    keys = summary[list(by)].itertuples(index=False, name=None)
    columns = (summary[name].tolist() for name in ("mean_percent", "std_percent", "seeds", "complete"))
    styles = ([False] * len(summary) if mask is None else mask.tolist() for mask in (bold, underline))
    return {
        key: Entry(_text(mean, std, seeds, complete), mean, is_bold, is_underlined)
        for key, mean, std, seeds, complete, is_bold, is_underlined in zip(keys, *columns, *styles, strict=True)
    }


def beside_paper(summary: "pd.DataFrame", paper: "pd.DataFrame", by: list[str]) -> "pd.DataFrame":
    """With the paper's numbers where it has them."""
    names = {"fnr_percent": "paper_percent", "std_percent": "paper_std_percent"}
    return summary.merge(paper[[*by, *names]].rename(columns=names), on=by, how="left")


def least(means: "pd.Series[float]") -> "pd.Series[bool]":
    """Which are the least as shown: a reader sees no difference below the last digit."""
    shown = means.round(2)
    return shown == shown.min()


def shown_method(name: str) -> str:
    """As in the paper's tables; the name itself if it is a method of a plugin that is not loaded."""
    try:
        return parse(name).paper_name
    except InputError:
        return name


def order_methods(present: Iterable[str], first: Iterable[str] | None = None) -> list[str]:
    """The paper's methods in its order, whether present or not, then those from elsewhere."""
    return list(dict.fromkeys([*(paper_order() if first is None else first), *present]))


def order_settings(present: Iterable[str], wanted: Sequence[str] | None = None) -> list[str]:
    """Those wanted, else those present: the paper's in its order, then those from elsewhere."""
    if wanted is not None:
        return list(wanted)
    there = set(present)
    known = dict.fromkeys([*paper_settings(), *known_settings(), *sorted(there)])
    return [name for name in known if name in there]


def seeds_note(summary: "pd.DataFrame") -> list[str]:
    """How many seeds a mean is over; where that differs, which."""
    if summary.empty:
        return []
    usual = int(summary["seeds"].mode().max())
    other = summary[summary["seeds"] != usual]
    where = [name for name in ("setting", "gathering", "reference") if name in summary]
    exceptions = [
        f"{_count(seeds, 'seed')}: {'; '.join(dict.fromkeys(group[where].agg(', '.join, axis=1)))}"
        for seeds, group in ((int(group["seeds"].iloc[0]), group) for _, group in other.groupby("seeds"))
    ]
    usually = f"Mean ± population standard deviation over {_count(usual, 'seed')}"
    return ["; ".join([usually, *exceptions])]


def incomplete_note(summary: "pd.DataFrame") -> list[str]:
    """Which settings were run on data that is not all there."""
    names = dict.fromkeys(summary.loc[~summary["complete"], "setting"])
    return [f"{INCOMPLETE} on incomplete data, not comparable to the paper: {', '.join(names)}"] if names else []


class Absent:
    """Entries that are missing, by the reason."""

    def __init__(self, results: Results) -> None:
        self._results, self._done = results, set(results.cells())
        self._where: dict[str, dict[str, None]] = {}

    def entry(self, setting: str, gathering: str, what: str = "") -> Entry:
        """A dash; why is kept for the notes. `what` is missing even if the cells are there."""
        if any((cell.setting, cell.gathering) == (setting, gathering) for cell in self._done):
            self.add("not scored", f"{what} in {setting}")
        elif self._failures(setting, gathering):
            self.add("failed", f"{setting}, {gathering}")
        else:
            self.add("not run", f"{setting}, {gathering}")
        return Entry(MISSING)

    def add(self, reason: str, where: str) -> None:
        """Something is missing for that reason."""
        self._where.setdefault(reason, {})[where] = None

    def notes(self, settings: Iterable[str]) -> list[str]:
        """A line a reason, and a line a cell of these settings that was tried and failed."""
        reasons = [f"{MISSING} {reason}: {'; '.join(where)}" for reason, where in self._where.items()]
        failed = {
            cell.name: reason
            for setting in settings
            for gathering in GATHERINGS
            for cell, reason in self._failures(setting, gathering).items()
        }
        return reasons + [f"{name} failed: {reason}" for name, reason in failed.items()]

    def _failures(self, setting: str, gathering: str) -> dict[Cell, str]:
        seeds = range(max([PAPER_SEEDS, *(cell.seed + 1 for cell in self._done)]))
        cells = [Cell(setting, gathering, seed) for seed in seeds]  # type: ignore[arg-type]
        reasons = {cell: self._results.failure(cell) for cell in cells if cell not in self._done}
        return {cell: reason.strip().splitlines()[-1] for cell, reason in reasons.items() if reason and reason.strip()}


def not_run(shown: Iterable[str], wanted: Sequence[str] | None) -> list[str]:
    """A note on the paper's settings that have no column, unless the columns were asked for."""
    left_out = [name for name in paper_settings() if name not in set(shown)]
    return [f"Settings of the paper without results: {', '.join(left_out)}"] if left_out and wanted is None else []


def _text(mean: float, std: float, seeds: int, complete: bool) -> str:
    text = f"{mean:.2f}" + (f" ± {std:.2f}" if seeds > 1 else "")
    return text if complete else f"{text} {INCOMPLETE}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
