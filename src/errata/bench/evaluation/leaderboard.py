"""Which methods lead over settings, by how much, and how sure that is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from errata.bench.evaluation import stats
from errata.bench.evaluation.bootstrap import fnr_draws
from errata.bench.evaluation.default_method import WithDefault
from errata.bench.evaluation.tables.over_seeds import shown_method
from errata.bench.figures.critical import Standing, standing_of
from errata.bench.figures.measured import complete_settings, fnr_cells, why_missing
from errata.bench.plan import GATHERINGS, Cell
from errata.bench.results import Results
from errata.core.default import DEFAULT, is_default
from errata.core.methods import parse
from errata.datasets.registry import setting as find_setting
from errata.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

FEWEST_SETTINGS, FEWEST_METHODS = 2, 3  # that Friedman's and Nemenyi's tests need


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Methods over the settings, and the seeds of these, that all of them were run on.

    numbers: a row a method, that of the lowest mean rank first: the leader. settings_run: how many of the settings
    asked for it was run on at all. fnr_percent_*: mean over the settings compared, and its interval over samples and
    seeds. wins: settings where no method is lower. difference_*: to the leader, in points, and its interval over
    settings and seeds. p: Wilcoxon's over settings; p_holm: after Holm's correction; p_bootstrap: from the draws of the
    interval. groups: the numbers of the cliques it is in. What compares with the leader is missing in its own row, and
    all of that but the difference itself where a single setting is compared.

    standing is None where there is too little to test; left_out: sentences on what is not compared, and why.
    """

    numbers: "pd.DataFrame"
    settings: tuple[str, ...]
    incomplete: tuple[str, ...]
    standing: Standing | None
    left_out: tuple[str, ...]


def leaderboard(
    results: Results,
    settings: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    gatherings: Sequence[str] | None = None,
) -> Leaderboard:
    """Compare methods on the settings that all of them were run on; None is all settings and both gatherings.

    Without `methods` those are compared that were run on the most settings. "default" among them is what errata would
    rank each setting by.
    """
    methods = [DEFAULT if is_default(name) else name for name in methods or ()]
    if DEFAULT in methods:
        results = WithDefault(results.folder)
    wanted = None if settings is None else [find_setting(name).name for name in settings]
    numbers = _chosen(results, wanted, gatherings)
    cells = fnr_cells(numbers)
    run_on = cells.notna().groupby(level="setting").any().sum()
    compared = _named(cells, methods) if methods else run_on.index[run_on == run_on.max()].tolist()
    if len(compared) < 2:
        raise InputError(f"a leaderboard needs 2 methods or more; there is {', '.join(compared)} alone")
    shared = cells[compared].dropna()
    if shared.empty:
        raise InputError(f"no setting has a seed that was run with all of {', '.join(compared)}; name fewer methods")
    table = shared.groupby(level="setting", sort=False).mean()
    standing = standing_of(table, {}) if _can_be_tested(table) else None
    gathering_of = dict(zip(numbers["method"], numbers["gathering"], strict=True))
    frame = _numbers(results, shared, table, gathering_of)
    frame.insert(0, "gathering", [gathering_of[name] for name in frame.index])
    frame.insert(1, "settings_run", run_on[frame.index])
    frame["groups"] = "" if standing is None else standing.numbers.set_index("method")["groups"]
    settings_compared, whole = tuple(map(str, table.index)), complete_settings(numbers)
    return Leaderboard(
        numbers=frame.rename_axis("method").reset_index(),
        settings=settings_compared,
        incomplete=tuple(name for name in settings_compared if name not in whole),
        standing=standing,
        left_out=(
            *([] if methods else _methods_left_out(run_on.drop(compared))),
            *_settings_left_out(results, cells[compared], shared, wanted or ()),
        ),
    )


def _chosen(results: Results, settings: Sequence[str] | None, gatherings: Sequence[str] | None) -> "pd.DataFrame":
    """FNR at the noise rate of what was asked for."""
    for gathering in gatherings or ():
        if gathering not in GATHERINGS:
            raise InputError(f"gathering is {' or '.join(GATHERINGS)}, not {gathering!r}")
    numbers = results.numbers()
    chosen = numbers[numbers["metric"] == "fnr"]
    if settings is not None:
        chosen = chosen[chosen["setting"].isin(settings)]
    if gatherings:
        chosen = chosen[chosen["gathering"].isin(gatherings)]
    if chosen.empty:
        raise InputError(f"{results.folder} holds no results of these settings and gatherings")
    return chosen


def _named(cells: "pd.DataFrame", methods: Sequence[str]) -> list[str]:
    """Methods as the columns are named; one of a plugin that is not loaded goes by its name in the results."""
    names = [name if name in cells or name == DEFAULT else parse(name).name for name in methods]
    for name in names:
        if name == DEFAULT and name not in cells:
            raise InputError("no in-sample cell of these settings says which method is its default")
        if name not in cells:
            raise InputError(f"{name} was not run on any of these settings; there are {', '.join(cells.columns)}")
    return list(dict.fromkeys(names))


def _can_be_tested(table: "pd.DataFrame") -> bool:
    return len(table) >= FEWEST_SETTINGS and len(table.columns) >= FEWEST_METHODS


def _numbers(
    results: Results, shared: "pd.DataFrame", table: "pd.DataFrame", gathering_of: Mapping[str, str]
) -> "pd.DataFrame":
    """A row a method, the leader first: FNR with its interval, mean rank, wins, and how it compares with the leader."""
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
    return frame.join(_against(shared, str(frame.index[0])))


def _against(shared: "pd.DataFrame", leader: str) -> "pd.DataFrame":
    """A row a method but the leader: the difference to it in points with its interval, and p-values."""
    drawn = stats.paired_bootstrap(shared, leader)
    tested = stats.compare_with(shared, leader).set_index(["over", "method"]).loc["settings"]
    points = (100 * drawn[["difference", "low", "high"]]).rename(
        columns={"difference": "difference_mean", "low": "difference_low", "high": "difference_high"}
    )
    compared = points.assign(p=tested["p"], p_holm=tested["p_holm"], p_bootstrap=drawn["p"])
    if shared.index.get_level_values("setting").nunique() == 1:
        compared.loc[:, compared.columns != "difference_mean"] = float("nan")  # nothing can be drawn from one setting
    return compared


def _methods_left_out(run_on: "pd.Series[int]") -> Iterator[str]:
    """A sentence on the methods that were run on fewer settings than others, and on how many."""
    if len(run_on):
        counted = [f"{shown_method(str(name))} ({count})" for name, count in run_on.items()]
        yield f"Left out, run on fewer settings: {', '.join(counted)}"


def _settings_left_out(
    results: Results, cells: "pd.DataFrame", shared: "pd.DataFrame", wanted: Sequence[str]
) -> Iterator[str]:
    """A sentence a setting that is left out, whole or in some of its seeds."""
    seeds = sorted(set(cells.index.get_level_values("seed")))
    for setting, own in cells.groupby(level="setting", sort=False):
        run = set(own.dropna(how="all").index)
        missing = sorted(seed for _, seed in run - set(shared.index))
        lacking = [str(name) for name in own if own[name].isna().all()]
        if lacking:
            reasons = dict.fromkeys(_why(results, str(setting), name, seeds) for name in lacking)
            without = ", ".join(map(shown_method, lacking))
            yield f"Left out: {setting}, without {without}: {'; '.join(reasons)}"
        elif missing and len(missing) == len(run):
            yield f"Left out: {setting}, none of whose seeds was run with all of the methods"
        elif missing:
            which = f"seed{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}"
            yield f"Left out: {which} of {setting}, not run with all of the methods"
    there = set(cells.index.get_level_values("setting"))
    yield from (f"Left out: {name}: not run" for name in wanted if name not in there)


def _why(results: Results, setting: str, method: str, seeds: Sequence[int]) -> str:
    if method == DEFAULT:
        return "its cells do not say which method that is"
    return why_missing(results, setting, method, seeds)
