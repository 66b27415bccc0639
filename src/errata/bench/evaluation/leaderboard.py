"""Which methods lead over settings, by how much, and with what uncertainty."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import pandas as pd

from errata.bench.evaluation import stats
from errata.bench.evaluation.intervals import fnr_draws
from errata.bench.evaluation.result_table import INCOMPLETE, MISSING, ResultTable, TableEntry, mark_incomplete
from errata.bench.evaluation.summaries import complete_settings, display_name, fnr_cells, why_missing
from errata.bench.plan import GATHERINGS, Cell, check_gathering, usual_settings
from errata.bench.results import Results
from errata.core.default import DEFAULT, is_default
from errata.core.methods import parse
from errata.datasets.registry import setting as find_setting
from errata.errors import InputError
from errata.wording import counted


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Methods compared on the settings and seeds on which all of them were run.

    numbers has one row per method, the leader (lowest mean rank) first:
    settings_run: number of the requested settings with results of the method. fnr_percent_*: mean over the compared
    settings, with its interval over samples and seeds. wins: settings where no method is lower. difference_*: to the
    leader in percentage points, with its interval over settings and seeds. p: Wilcoxon test over settings; p_holm:
    after Holm's correction. groups: numbers of the cliques of the method.
    The comparison columns are missing in the row of the leader. With one setting, only the difference is there.

    ranking is None if there are too few methods or settings to test. left_out: sentences on what is not compared.
    """

    numbers: pd.DataFrame
    settings: tuple[str, ...]
    incomplete: tuple[str, ...]
    ranking: stats.RankComparison | None
    left_out: tuple[str, ...]


class ResultsWithDefault(Results):
    """Results in which the default method of every in-sample cell also appears under the name `default`.

    Out-of-sample cells are left out: the benchmark stores no neighbours for them, so their default is another one.
    """

    def numbers(self) -> pd.DataFrame:
        """The numbers of all cells, with those of the default repeated."""
        numbers, cell = super().numbers(), ["setting", "gathering", "seed"]
        defaults = numbers.loc[_marks_default(numbers), [*cell, "method"]]
        own = numbers[numbers["metric"] != DEFAULT].merge(defaults, on=[*cell, "method"])
        return pd.concat([numbers, own.assign(method=DEFAULT)], ignore_index=True)

    def ranks(self, cell: Cell) -> pd.DataFrame:
        """The rankings of a cell, with that of the default repeated."""
        ranking = super().ranks(cell)
        own = ranking[ranking["method"].isin(self._default_of(cell))]
        return pd.concat([ranking, own.assign(method=DEFAULT)], ignore_index=True)

    def scores(self, cell: Cell) -> pd.DataFrame:
        """The scores of a cell, with those of the default repeated."""
        scores = super().scores(cell)
        for name in self._default_of(cell):
            scores[DEFAULT] = scores[name]
        return scores

    def _default_of(self, cell: Cell) -> list[str]:
        """The default of a cell, if the cell records it."""
        numbers = self.numbers_of(cell)
        return numbers.loc[_marks_default(numbers), "method"].tolist()


def _marks_default(numbers: pd.DataFrame) -> "pd.Series[bool]":
    return (numbers["metric"] == DEFAULT) & (numbers["gathering"] == "in-sample")


def leaderboard(
    results: Results,
    settings: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    gatherings: Sequence[str] | None = None,
) -> Leaderboard:
    """Compare methods on the settings on which all of them were run.

    settings, gatherings: None means all, without settings that have a suite of their own. methods: None means those
    that were run on the most settings; `default` is the method that errata chooses for each cell.
    """
    methods = [DEFAULT if is_default(name) else name for name in methods or ()]
    if DEFAULT in methods:
        results = ResultsWithDefault(results.folder)
    requested = None if settings is None else [find_setting(name).name for name in settings]
    numbers = _fnr_numbers(results, requested, gatherings)
    cells = fnr_cells(numbers)
    run_on = cells.notna().groupby(level="setting").any().sum()
    compared = _columns(cells, methods) if methods else run_on.index[run_on == run_on.max()].tolist()
    if len(compared) < 2:
        raise InputError(f"A leaderboard needs at least 2 methods; there is only {', '.join(compared)}.")
    shared = cells[compared].dropna()
    if shared.empty:
        raise InputError(f"No setting has a seed with results of all of {', '.join(compared)}. Use fewer methods.")
    table = shared.groupby(level="setting", sort=False).mean()
    ranking = stats.compare_ranks(table) if stats.can_compare_ranks(table) else None
    gathering_of = numbers.drop_duplicates("method", keep="last").set_index("method")["gathering"]
    used = sorted(set(gathering_of[compared]))
    draws = fnr_draws(results, [Cell(setting, one, seed) for setting, seed in shared.index for one in used])
    frame = _numbers(shared, table, draws)
    frame.insert(0, "gathering", gathering_of[frame.index])
    frame.insert(1, "settings_run", run_on[frame.index])
    frame["groups"] = "" if ranking is None else ranking.numbers.set_index("method")["groups"]
    compared_settings, complete = tuple(map(str, table.index)), complete_settings(numbers)
    return Leaderboard(
        numbers=frame.rename_axis("method").reset_index(),
        settings=compared_settings,
        incomplete=tuple(name for name in compared_settings if name not in complete),
        ranking=ranking,
        left_out=(
            *([] if methods else _methods_left_out(run_on.drop(compared))),
            *_settings_left_out(results, cells[compared], shared, requested or ()),
        ),
    )


def _fnr_numbers(results: Results, settings: Sequence[str] | None, gatherings: Sequence[str] | None) -> pd.DataFrame:
    """FNR at the noise rate in these settings and gatherings."""
    checked = [check_gathering(gathering) for gathering in gatherings or GATHERINGS]
    numbers = results.numbers()
    chosen = numbers[(numbers["metric"] == "fnr") & numbers["gathering"].isin(checked)]
    chosen = chosen[chosen["setting"].isin(usual_settings(set(chosen["setting"])) if settings is None else settings)]
    if chosen.empty:
        hint = " Settings with a suite of their own must be named." if settings is None else ""
        raise InputError(f"No results of these settings and gatherings in {results.folder}.{hint}")
    return chosen


def _columns(cells: pd.DataFrame, methods: Sequence[str]) -> list[str]:
    """The columns of these methods. A method of a plugin that is not loaded has the name in the results."""
    names = [name if name in cells or name == DEFAULT else parse(name).name for name in methods]
    for name in names:
        if name not in cells:
            known = "No in-sample cell of these settings records its default method."
            other = f"{name} was not run on any of these settings. Methods with results: {', '.join(cells.columns)}."
            raise InputError(known if name == DEFAULT else other)
    return list(dict.fromkeys(names))


def _numbers(shared: pd.DataFrame, table: pd.DataFrame, draws: pd.DataFrame) -> pd.DataFrame:
    """One row per method, the leader first: FNR with interval, mean rank, wins, comparison with the leader.

    The comparison has the difference to the leader with its interval, and p-values.
    """
    ranks = stats.ranks(table)
    means = 100 * draws.groupby(level="method").mean().loc[list(table)]
    low, high = stats.percentile_interval(means.to_numpy(), axis=1)
    frame = pd.DataFrame(
        {
            "fnr_percent_mean": 100 * table.mean(),
            "fnr_percent_low": low,
            "fnr_percent_high": high,
            "rank_mean": ranks.mean(),
            "wins": ranks.eq(ranks.min(axis=1), axis=0).sum(),
        }
    ).sort_values(["rank_mean", "fnr_percent_mean"], kind="stable")
    leader = str(frame.index[0])
    drawn, p = stats.paired_bootstrap(shared, leader), stats.wilcoxon_p(table, leader)
    names = {"difference": "difference_mean", "low": "difference_low", "high": "difference_high"}
    compared = (100 * drawn).rename(columns=names).assign(p=p, p_holm=stats.holm(p))
    if len(table) == 1:
        compared.loc[:, compared.columns != "difference_mean"] = float("nan")  # one setting cannot be resampled
    return frame.join(compared)


def _methods_left_out(run_on: "pd.Series[int]") -> Iterator[str]:
    """A sentence on the methods with fewer settings, and their number of settings."""
    if len(run_on):
        names = [f"{display_name(str(name))} ({count})" for name, count in run_on.items()]
        yield f"Left out, run on fewer settings: {', '.join(names)}"


def _settings_left_out(
    results: Results, cells: pd.DataFrame, shared: pd.DataFrame, requested: Sequence[str]
) -> Iterator[str]:
    """One sentence per setting that is left out completely or for some seeds."""
    seeds = sorted(set(cells.index.get_level_values("seed")))
    for setting, own in cells.groupby(level="setting", sort=False):
        run = set(own.dropna(how="all").index)
        missing = sorted(seed for _, seed in run - set(shared.index))
        lacking = [str(name) for name in own if own[name].isna().all()]
        if lacking:
            reasons = dict.fromkeys(
                "its cells do not record it" if name == DEFAULT else why_missing(results, str(setting), name, seeds)
                for name in lacking
            )
            yield f"Left out: {setting}, without {', '.join(map(display_name, lacking))}: {'; '.join(reasons)}"
        elif missing and len(missing) == len(run):
            yield f"Left out: {setting}, no seed was run with all methods"
        elif missing:
            which = f"seed{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}"
            yield f"Left out: {which} of {setting}, not run with all methods"
    there = set(cells.index.get_level_values("setting"))
    yield from (f"Left out: {name}: not run" for name in requested if name not in there)


def leaderboard_table(board: Leaderboard) -> ResultTable:
    """One row per method, the leader first."""
    rows = [_row(row, not board.incomplete) for row in board.numbers.to_dict("records")]
    return ResultTable(
        title=f"{len(rows)} methods on {counted(len(board.settings), 'setting')}: FNR at the noise rate",
        columns=("method", "run on", "FNR (%)", "mean rank", "wins", "behind the leader", "p", "groups"),
        rows=rows,
        numbers=board.numbers,
        digits={"mean rank": 2},
        notes=(
            f"Compared on {', '.join(board.settings)}",
            f"{INCOMPLETE} incomplete data: {', '.join(board.incomplete)}" if board.incomplete else "",
            *board.left_out,
            "Run on: number of settings with results of the method. FNR: mean over the compared settings, and its 95 % "
            "bootstrap interval over samples and seeds. Wins: settings where no method is lower.",
            *_difference_notes(board),
            _groups_note(board),
        ),
    )


def _row(row: dict[Any, Any], complete: bool) -> list[Any]:
    fnr = f"{row['fnr_percent_mean']:.2f} ({row['fnr_percent_low']:.2f}–{row['fnr_percent_high']:.2f})"
    mean, low, high, p = (row[name] for name in ("difference_mean", "difference_low", "difference_high", "p_holm"))
    is_leader = isnan(mean)
    interval = "" if isnan(low) else f" ({low:+z.2f} to {high:+z.2f})"
    p_entry = MISSING if isnan(p) else TableEntry(f"{p:.3f}" if p >= 0.001 else "<0.001", p)
    return [
        TableEntry(display_name(row["method"]), bold=is_leader),
        TableEntry(f"{row['settings_run']}", row["settings_run"]),
        TableEntry(mark_incomplete(fnr, complete), row["fnr_percent_mean"]),
        row["rank_mean"],
        TableEntry(f"{row['wins']}", row["wins"]),
        TableEntry("leader", 0.0) if is_leader else TableEntry(f"{mean:+z.2f}{interval}", mean),
        "" if is_leader else p_entry,
        row["groups"],
    ]


def _difference_notes(board: Leaderboard) -> list[str]:
    """What the difference, its interval and p are, and whether there are enough settings for them."""
    settings, others = len(board.settings), len(board.numbers) - 1
    if settings == 1:
        return ["Behind the leader: in percentage points; one setting allows no interval and no p"]
    smallest = min(1.0, others * 2.0 ** (1 - settings))  # two of the 2**settings ways to sign the differences
    limit = f"; with {counted(settings, 'setting')}, p is at least {smallest:.2g}" if smallest > stats.ALPHA else ""
    return [
        "Behind the leader: in percentage points, and the 95 % bootstrap interval over settings and their seeds. The "
        "leader was chosen on these settings, which favours it.",
        "p: Wilcoxon's signed-rank test over settings, after Holm's correction for "
        f"{counted(others, 'comparison')}{limit}",
    ]


def _groups_note(board: Leaderboard) -> str:
    if board.ranking is None:
        needed = f"{stats.FEWEST_METHODS} methods on {stats.FEWEST_SETTINGS} settings"
        return f"No groups: Nemenyi's test needs at least {needed}"
    return (
        f"Groups: methods that share a number do not differ significantly (Nemenyi, α = {stats.ALPHA}, critical "
        f"difference {board.ranking.critical_difference:.2f}; Friedman: p {stats.p_text(board.ranking.friedman_p)})"
    )
