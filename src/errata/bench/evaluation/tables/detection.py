"""How well methods detect: FNR at the noise rate, and at the operating points of methods that flag."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from errata.bench.evaluation import published
from errata.bench.evaluation.tables.over_seeds import (
    Absent,
    beside_paper,
    entries,
    incomplete_note,
    least,
    not_run,
    order_methods,
    order_settings,
    over_seeds,
    seeds_note,
    shown_method,
)
from errata.bench.evaluation.tables.table import Entry, Table, group_starts
from errata.bench.plan import Cell
from errata.bench.results import Results, as_scores
from errata.core import metrics
from errata.core.methods import PAPER_METHOD, parse
from errata.errors import StoreError

if TYPE_CHECKING:
    import pandas as pd

KEY = ["setting", "reference", "method"]


def noise_rate_table(results: Results, settings: Sequence[str] | None = None) -> Table:
    """FNR at the noise rate: methods × settings, mean ± deviation over seeds, the best of a setting in bold."""
    summary = noise_rate_summary(results)
    columns = order_settings(summary["setting"], settings)
    gathering_of = dict(zip(summary["method"], summary["gathering"], strict=True))
    gathering_of |= {name: parse(name).gathering for name in published.paper_order()}
    summary = summary[summary["setting"].isin(columns)]
    best = summary.groupby("setting")["mean_percent"].transform(least)
    found = entries(summary, ["setting", "method"], best)
    absent = Absent(results)
    methods = order_methods(summary["method"])
    rows = [
        (
            Entry(shown_method(method)),
            *(
                found.get((setting, method)) or absent.entry(setting, gathering_of[method], shown_method(method))
                for setting in columns
            ),
        )
        for method in methods
    ]
    return Table(
        title="FNR (%) at the noise rate",
        columns=("method", *columns),
        rows=tuple(rows),
        numbers=beside_paper(summary, published.fnr_at_noise_rate(), ["setting", "method", "gathering"]),
        notes=(
            *seeds_note(summary),
            "Bold: the best of the setting.",
            *incomplete_note(summary),
            *absent.notes(columns),
            *not_run(columns, settings),
        ),
    )


def noise_rate_summary(results: Results) -> "pd.DataFrame":
    """A row a setting, gathering and method: FNR at the noise rate over seeds."""
    numbers = results.numbers()
    return over_seeds(numbers[numbers["metric"] == "fnr"], ["setting", "gathering", "method"])


def operating_point_table(results: Results, settings: Sequence[str] | None = None) -> Table:
    """FNR at as many samples as a reference flags, beside MeanProb-LM at the same number, seed by seed."""
    seeds = operating_points(results)
    columns = order_settings(seeds["setting"], settings)
    summary = over_seeds(seeds, KEY)
    summary["inspected"] = seeds.groupby(KEY, sort=False)["inspected"].mean().to_numpy()
    summary = summary[summary["setting"].isin(columns)]
    pairs = summary.groupby(["setting", "reference"])
    # over other seeds the two did not inspect the same number of samples, and neither is the better
    alike = (pairs["method"].transform("size") == 2) & (pairs["seeds"].transform("nunique") == 1)
    best = pairs["mean_percent"].transform(least) & alike
    found = entries(summary, KEY, best)
    absent = Absent(results)
    keys = [(reference, method) for reference in references() for method in (reference, PAPER_METHOD)]
    rows = []
    for reference, method in keys:
        named = (Entry(shown_method(reference)), Entry(shown_method(method)))
        row = []
        for setting in columns:
            lacking = method if (setting, reference, reference) in found else reference
            what = f"{shown_method(method)} at the operating point of {shown_method(reference)}"
            entry = found.get((setting, reference, method))
            row.append(entry or absent.entry(setting, parse(lacking).gathering, what))
        rows.append((*named, *row))
    return Table(
        title="FNR (%) at the operating point of a reference",
        columns=("reference", "method", *columns),
        rows=tuple(rows),
        numbers=beside_paper(summary, published.fnr_at_operating_point(), KEY),
        labels=2,
        rules=frozenset(group_starts(reference for reference, _ in keys)),
        notes=(
            "Both of a pair inspect as many samples as the reference flags, seed by seed; pairs inspect different "
            "numbers and cannot be compared with each other.",
            *seeds_note(summary),
            "Bold: the better of a pair.",
            *_told_note(seeds),
            *incomplete_note(summary),
            *absent.notes(columns),
            *not_run(columns, settings),
        ),
    )


def references() -> list[str]:
    """The methods at whose operating points the paper compares."""
    return list(dict.fromkeys(published.fnr_at_operating_point()["reference"]))


def operating_points(results: Results) -> "pd.DataFrame":
    """A row a setting, reference, seed and method: FNR at as many samples as the reference flags, and how many."""
    import pandas as pd

    numbers = results.numbers()
    flagged = numbers[(numbers["metric"] == "fnr_at_operating_point") & numbers["method"].isin(references())]
    columns = ["setting", "seed", "complete", "reference", "method", "inspected", "noisy", "value"]
    rows = [row for at in flagged.to_dict("records") for row in _pair(results, numbers, at)]
    return pd.DataFrame(rows, columns=columns)


def _pair(results: Results, numbers: "pd.DataFrame", at: dict[Any, Any]) -> Iterator[dict[str, Any]]:
    """The reference at its operating point and, if it was run, the default method at the same number of samples."""
    row = {name: at[name] for name in ("setting", "seed", "complete")}
    row |= {"reference": at["method"], "inspected": int(at["budget"]), "noisy": at["noisy"]}
    yield row | {"method": at["method"], "value": at["value"]}
    rival = Cell(at["setting"], parse(PAPER_METHOD).gathering, at["seed"])
    if not results.has(rival):
        return
    of_rival = numbers[
        (numbers["setting"] == rival.setting)
        & (numbers["gathering"] == rival.gathering)
        & (numbers["seed"] == rival.seed)
    ]
    if set(of_rival["label_hash"]) != {at["label_hash"]}:
        raise StoreError(
            f"{rival.name} and the {at['gathering']} cell beside it were made from different labels; "
            "one of them is to be run again"
        )
    ranks = results.ranks(rival)
    ranking = ranks[ranks["method"] == PAPER_METHOD]
    if len(ranking):
        value = metrics.fnr(*as_scores(ranking), row["inspected"])
        yield row | {"method": PAPER_METHOD, "value": value}


def _told_note(seeds: "pd.DataFrame") -> list[str]:
    """On references that flag exactly as many samples as are wrong, everywhere: no method can know that by itself."""
    told = (seeds["inspected"] == seeds["noisy"]).groupby(seeds["reference"], sort=False).all()
    return [
        f"{name} was told the noise rate and flags that many: its pair is at the noise rate"
        for name in told[told].index
    ]
