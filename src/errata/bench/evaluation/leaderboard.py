"""Which methods lead over settings, by how much, and with what uncertainty."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from errata.bench.evaluation import stats
from errata.bench.evaluation.intervals import fnr_draws
from errata.bench.evaluation.summaries import complete_settings, display_name, fnr_cells, why_missing
from errata.bench.plan import Cell, check_gathering
from errata.bench.results import Results
from errata.core.default import DEFAULT, is_default
from errata.core.methods import parse
from errata.datasets.registry import setting as find_setting
from errata.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Methods compared on the settings and seeds on which all of them were run.

    numbers has one row per method, the leader (lowest mean rank) first:
    settings_run: number of the requested settings with results of the method. fnr_percent_*: mean over the compared
    settings, with its interval over samples and seeds. wins: settings where no method is lower. difference_*: to the
    leader in percentage points, with its interval over settings and seeds. p: Wilcoxon test over settings; p_holm:
    after Holm's correction; p_bootstrap: from the draws of the interval. groups: numbers of the cliques of the method.
    The comparison columns are missing in the row of the leader. With one setting, only the difference is there.

    ranking is None if there are too few methods or settings to test. left_out: sentences on what is not compared.
    """

    numbers: "pd.DataFrame"
    settings: tuple[str, ...]
    incomplete: tuple[str, ...]
    ranking: stats.RankComparison | None
    left_out: tuple[str, ...]


class ResultsWithDefault(Results):
    """Results in which the default method of every in-sample cell also appears under the name `default`.

    Out-of-sample cells are left out: the benchmark stores no neighbours for them, so their default is another one.
    """

    def numbers(self) -> "pd.DataFrame":
        """The numbers of all cells, with those of the default repeated."""
        import pandas as pd

        numbers, cell = super().numbers(), ["setting", "gathering", "seed"]
        defaults = numbers.loc[_marks_default(numbers), [*cell, "method"]]
        own = numbers[numbers["metric"] != DEFAULT].merge(defaults, on=[*cell, "method"])
        return pd.concat([numbers, own.assign(method=DEFAULT)], ignore_index=True)

    def ranks(self, cell: Cell) -> "pd.DataFrame":
        """The rankings of a cell, with that of the default repeated."""
        import pandas as pd

        ranking = super().ranks(cell)
        own = ranking[ranking["method"].isin(self._default_of(cell))]
        return pd.concat([ranking, own.assign(method=DEFAULT)], ignore_index=True)

    def scores(self, cell: Cell) -> "pd.DataFrame":
        """The scores of a cell, with those of the default repeated."""
        scores = super().scores(cell)
        for name in self._default_of(cell):
            scores[DEFAULT] = scores[name]
        return scores

    def _default_of(self, cell: Cell) -> list[str]:
        """The default of a cell, if the cell records it."""
        numbers = self.numbers_of(cell)
        return numbers.loc[_marks_default(numbers), "method"].tolist()


def _marks_default(numbers: "pd.DataFrame") -> "pd.Series[bool]":
    return (numbers["metric"] == DEFAULT) & (numbers["gathering"] == "in-sample")


def leaderboard(
    results: Results,
    settings: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    gatherings: Sequence[str] | None = None,
) -> Leaderboard:
    """Compare methods on the settings on which all of them were run.

    settings, gatherings: None means all. methods: None means those that were run on the most settings; `default` is
    the method that errata chooses for each cell.
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
    gathering_of = dict(zip(numbers["method"], numbers["gathering"], strict=True))
    frame = _numbers(results, shared, table, gathering_of)
    frame.insert(0, "gathering", [gathering_of[name] for name in frame.index])
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


def _fnr_numbers(results: Results, settings: Sequence[str] | None, gatherings: Sequence[str] | None) -> "pd.DataFrame":
    """FNR at the noise rate in these settings and gatherings."""
    checked = [check_gathering(gathering) for gathering in gatherings or ()]
    numbers = results.numbers()
    chosen = numbers[numbers["metric"] == "fnr"]
    if settings is not None:
        chosen = chosen[chosen["setting"].isin(settings)]
    if checked:
        chosen = chosen[chosen["gathering"].isin(checked)]
    if chosen.empty:
        raise InputError(f"No results of these settings and gatherings in {results.folder}.")
    return chosen


def _columns(cells: "pd.DataFrame", methods: Sequence[str]) -> list[str]:
    """The columns of these methods. A method of a plugin that is not loaded has the name in the results."""
    names = [name if name in cells or name == DEFAULT else parse(name).name for name in methods]
    for name in names:
        if name not in cells:
            known = "No in-sample cell of these settings records its default method."
            other = f"{name} was not run on any of these settings. Methods with results: {', '.join(cells.columns)}."
            raise InputError(known if name == DEFAULT else other)
    return list(dict.fromkeys(names))


def _numbers(
    results: Results, shared: "pd.DataFrame", table: "pd.DataFrame", gathering_of: Mapping[str, str]
) -> "pd.DataFrame":
    """One row per method, the leader first: FNR with interval, mean rank, wins, comparison with the leader."""
    import pandas as pd

    ranks = stats.ranks(table)
    gatherings = {gathering_of[str(method)] for method in table}
    cells = [Cell(setting, gathering, seed) for setting, seed in shared.index for gathering in sorted(gatherings)]  # type: ignore[arg-type]
    draws = 100 * fnr_draws(results, cells).groupby(level="method").mean().loc[list(table)]
    low, high = stats.percentile_interval(draws.to_numpy(), axis=1)
    frame = pd.DataFrame(
        {
            "fnr_percent_mean": 100 * table.mean(),
            "fnr_percent_low": low,
            "fnr_percent_high": high,
            "rank_mean": ranks.mean(),
            "wins": ranks.eq(ranks.min(axis=1), axis=0).sum(),
        }
    ).sort_values(["rank_mean", "fnr_percent_mean"], kind="stable")
    return frame.join(_differences(shared, table, str(frame.index[0])))


def _differences(shared: "pd.DataFrame", table: "pd.DataFrame", leader: str) -> "pd.DataFrame":
    """One row per method except the leader: the difference to the leader with its interval, and p-values."""
    drawn, p = stats.paired_bootstrap(shared, leader), stats.wilcoxon_p(table, leader)
    points = (100 * drawn[["difference", "low", "high"]]).rename(
        columns={"difference": "difference_mean", "low": "difference_low", "high": "difference_high"}
    )
    compared = points.assign(p=p, p_holm=stats.holm(p), p_bootstrap=drawn["p"])
    if len(table) == 1:
        compared.loc[:, compared.columns != "difference_mean"] = float("nan")  # one setting cannot be resampled
    return compared


def _methods_left_out(run_on: "pd.Series[int]") -> Iterator[str]:
    """A sentence on the methods with fewer settings, and their number of settings."""
    if len(run_on):
        names = [f"{display_name(str(name))} ({count})" for name, count in run_on.items()]
        yield f"Left out, run on fewer settings: {', '.join(names)}"


def _settings_left_out(
    results: Results, cells: "pd.DataFrame", shared: "pd.DataFrame", requested: Sequence[str]
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
