"""Bootstrap intervals of the FNR over samples and seeds.

Samples are resampled from the stored rankings; the budget of a draw is the number of errors in it. The seeds of a
setting share their samples, but a ranking does not identify samples, so a draw cannot be repeated on all seeds.
Instead, draws of different seeds are combined at equal quantiles, as if all seeds missed the same errors. This makes
the intervals somewhat too wide; independent draws would make them much too narrow.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from errata.bench.evaluation.fnr_tables import method_rows
from errata.bench.evaluation.result_table import ResultTable, TableEntry, mark_incomplete
from errata.bench.evaluation.stats import percentile_interval
from errata.bench.evaluation.summaries import MissingEntries, incomplete_note, order_methods, order_settings
from errata.bench.plan import Cell
from errata.bench.results import Results
from errata.errors import StoreError

DRAWS = 1000
KEY = ["setting", "gathering", "method"]
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def intervals_table(results: Results, settings: Sequence[str] | None = None) -> ResultTable:
    """FNR at the noise rate with its interval: one row per method, one column per setting."""
    numbers = fnr_intervals(results, settings)
    for name in ("mean", "low", "high"):
        numbers[f"{name}_percent"] = 100 * numbers.pop(name)
    columns = order_settings(numbers["setting"], settings)
    found = {}
    for row in numbers.to_dict("records"):
        text = f"{row['mean_percent']:.2f} ({row['low_percent']:.2f}–{row['high_percent']:.2f})"
        entry = TableEntry(mark_incomplete(text, row["complete"]), row["mean_percent"])
        found[row["setting"], row["method"]] = entry
    gatherings = dict(zip(numbers["method"], numbers["gathering"], strict=True))
    methods = [name for name in order_methods(gatherings) if name in gatherings]
    missing = MissingEntries(results)
    single = numbers.loc[numbers["seeds"] == 1, ["setting", "gathering"]].drop_duplicates().agg(", ".join, axis=1)
    return ResultTable(
        title="FNR (%) at the noise rate, with 95 % intervals",
        columns=("method", *columns),
        rows=method_rows(methods, columns, found, gatherings, missing),
        numbers=numbers,
        notes=(
            "Mean over seeds, and its 95 % bootstrap interval over samples and seeds.",
            f"One seed, interval over samples only: {'; '.join(single)}" if len(single) else "",
            incomplete_note(numbers),
            *missing.notes(columns, settings),
        ),
    )


def fnr_intervals(results: Results, settings: Sequence[str] | None = None) -> pd.DataFrame:
    """FNR at the noise rate with its interval: one row per setting, gathering and method.

    Further columns: mean over seeds, low, high, seeds, complete. The interval of a single seed covers samples only.
    """
    numbers = results.numbers()
    found = numbers[numbers["metric"] == "fnr"]
    if settings is not None:
        found = found[found["setting"].isin(settings)]
    summary = found.groupby(KEY, sort=False).agg(
        mean=("value", "mean"), seeds=("seed", "nunique"), complete=("complete", "all")
    )
    cells = {Cell(*key) for key in found[["setting", "gathering", "seed"]].itertuples(index=False, name=None)}
    drawn = fnr_draws(results, cells).loc[summary.index]
    low, high = percentile_interval(drawn.to_numpy(), axis=1)
    summary.insert(1, "low", low)
    summary.insert(2, "high", high)
    return summary.reset_index()


def fnr_draws(results: Results, cells: Iterable[Cell]) -> pd.DataFrame:
    """Mean FNR over resampled samples and seeds: one row per setting, gathering and method, one column per draw.

    Rows of different settings are independent. The draws of a setting do not depend on the other settings.
    """
    rows: dict[tuple[str, str, str], Floats] = {}
    for (setting, gathering), members in groupby(sorted(cells), key=lambda cell: (cell.setting, cell.gathering)):
        rng = np.random.default_rng([0, crc32(f"{setting}/{gathering}".encode())])
        by_method: dict[str, list[Floats]] = {}
        for cell in members:
            for method, values in resampled_fnr(results.ranks(cell), rng).items():
                by_method.setdefault(method, []).append(values)
        rows |= {(setting, gathering, method): _over_seeds(np.stack(seeds), rng) for method, seeds in by_method.items()}
    index = pd.MultiIndex.from_tuples(list(rows), names=KEY)
    return pd.DataFrame(np.array([*rows.values()]).reshape(len(rows), DRAWS), index=index)


def resampled_fnr(ranking: pd.DataFrame, rng: np.random.Generator) -> dict[str, Floats]:
    """FNR (draws,) of every method of a cell on resampled samples, at the number of errors in the draw.

    Draws without errors have no FNR and are repeated.
    """
    codes, methods = ranking["method"].factorize()
    order = np.argsort(codes, kind="stable")
    size, errors = (ranking[name].to_numpy(dtype=np.int64)[order] for name in ("size", "errors"))
    ends = np.cumsum(np.bincount(codes))
    wrong, right = np.append(0, np.cumsum(errors)), np.append(0, np.cumsum(size - errors))
    detected = _detected_share(wrong, right, np.append(0, ends[:-1])[:, None], ends[:, None], rng)
    return dict(zip(map(str, methods), 1 - detected, strict=True))


def _detected_share(wrong: Counts, right: Counts, low: Counts, high: Counts, rng: np.random.Generator) -> Floats:
    """Share of the drawn errors that are detected, (methods, draws).

    wrong, right: samples above each group (groups + 1,). low, high: the groups of a method, (methods, 1).
    Samples are not drawn one by one. A bisection over the groups searches where the budget ends; the number of samples
    drawn from either half is binomial. The distribution is the same, with log(groups) steps.
    """
    errors, samples = wrong[high] - wrong[low], wrong[high] - wrong[low] + right[high] - right[low]
    if (errors == 0).any():
        raise StoreError("A ranking without errors has no FNR. Run the cell again.")
    budget = _positive_binomial(samples, errors / samples, rng)
    wrong_drawn, right_drawn, left = budget, samples - budget, budget
    detected = np.zeros_like(budget)
    low, high = np.broadcast_to(low, budget.shape), np.broadcast_to(high, budget.shape)
    while (high - low > 1).any():
        middle = (low + high) // 2
        wrong_upper = _drawn_above(middle, wrong_drawn, wrong, low, high, rng)
        right_upper = _drawn_above(middle, right_drawn, right, low, high, rng)
        upper = wrong_upper + right_upper
        ends_there = upper >= left
        detected = np.where(ends_there, detected, detected + wrong_upper)
        left = np.where(ends_there, left, left - upper)
        wrong_drawn = np.where(ends_there, wrong_upper, wrong_drawn - wrong_upper)
        right_drawn = np.where(ends_there, right_upper, right_drawn - right_upper)
        low, high = np.where(ends_there, low, middle), np.where(ends_there, middle, high)
    # The budget ends inside one group of equal scores, which has no order.
    return np.asarray((detected + left * wrong_drawn / (wrong_drawn + right_drawn)) / budget)


def _drawn_above(
    middle: Counts, drawn: Counts, above: Counts, low: Counts, high: Counts, rng: np.random.Generator
) -> Counts:
    """Of the samples drawn from groups low..high, the number from groups before `middle`."""
    share = (above[middle] - above[low]) / np.maximum(above[high] - above[low], 1)
    return rng.binomial(drawn, share)


def _positive_binomial(trials: Counts, share: Floats, rng: np.random.Generator) -> Counts:
    """Binomial counts (methods, draws) above 0. trials, share: (methods, 1)."""
    shape = (len(trials), DRAWS)
    counts = rng.binomial(trials, share, size=shape)
    while (none := counts == 0).any():
        counts[none] = rng.binomial(np.broadcast_to(trials, shape)[none], np.broadcast_to(share, shape)[none])
    return counts


def _over_seeds(values: Floats, rng: np.random.Generator) -> Floats:
    """Means (draws,) over resampled seeds, from the draws (seeds, draws) of each seed; in random order."""
    seeds, draws = values.shape
    times = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=draws).T
    return rng.permutation((times * np.sort(values, axis=1)).sum(axis=0) / seeds)
