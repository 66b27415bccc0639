"""Tables of the FNR: at the noise rate, at the operating points of methods that flag samples, and after tuning."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from errata.bench.evaluation import published
from errata.bench.evaluation.result_table import MISSING, ResultTable, TableEntry, mark_incomplete
from errata.bench.evaluation.summaries import (
    MissingEntries,
    display_name,
    entries,
    incomplete_note,
    is_lowest,
    join_paper,
    not_run_note,
    order_methods,
    order_settings,
    over_seeds,
    seeds_note,
)
from errata.bench.plan import Cell
from errata.bench.results import Results, as_scores, last_line
from errata.bench.tuning_results import TuningResults
from errata.core import metrics
from errata.core.methods import PAPER_METHOD, parse
from errata.errors import StoreError

OPERATING_POINT_KEY = ["setting", "reference", "method"]
TUNING_KEY = ["setting", "tuning_fraction", "method"]


def noise_rate_table(results: Results, settings: Sequence[str] | None = None) -> ResultTable:
    """FNR at the noise rate: one row per method, one column per setting."""
    summary = noise_rate_summary(results)
    columns = order_settings(summary["setting"], settings)
    gatherings = dict(zip(summary["method"], summary["gathering"], strict=True))
    gatherings |= {name: parse(name).gathering for name in published.paper_method_names()}
    summary = summary[summary["setting"].isin(columns)]
    best = summary.groupby("setting")["mean_percent"].transform(is_lowest)
    found, missing = entries(summary, ["setting", "method"], best), MissingEntries(results)
    methods = order_methods(summary["method"])
    return ResultTable(
        title="FNR (%) at the noise rate",
        columns=("method", *columns),
        rows=method_rows(methods, columns, found, gatherings, missing),
        numbers=join_paper(summary, published.fnr_at_noise_rate(), ["setting", "method", "gathering"]),
        notes=(
            seeds_note(summary),
            "Bold: the best of the setting.",
            incomplete_note(summary),
            *missing.notes(columns, settings),
        ),
    )


def method_rows(
    methods: Sequence[str],
    settings: Sequence[str],
    found: Mapping[tuple[Any, ...], TableEntry],
    gatherings: Mapping[str, str],
    missing: MissingEntries,
) -> list[list[Any]]:
    """Rows of a table of methods × settings. found: entries by (setting, method). gatherings: by method."""
    rows = []
    for method in methods:
        name = display_name(method)
        values = [found.get((one, method)) or missing.entry(one, gatherings[method], name) for one in settings]
        rows.append([name, *values])
    return rows


def noise_rate_summary(results: Results) -> pd.DataFrame:
    """FNR at the noise rate over seeds: one row per setting, gathering and method."""
    numbers = results.numbers()
    return over_seeds(numbers[numbers["metric"] == "fnr"], ["setting", "gathering", "method"])


def operating_point_table(results: Results, settings: Sequence[str] | None = None) -> ResultTable:
    """FNR at the number of samples that a reference flags: the reference, and MeanProb-LM at the same number."""
    seeds = operating_points(results)
    columns = order_settings(seeds["setting"], settings)
    summary = over_seeds(seeds, OPERATING_POINT_KEY)
    summary["inspected"] = seeds.groupby(OPERATING_POINT_KEY, sort=False)["inspected"].mean().to_numpy()
    summary = summary[summary["setting"].isin(columns)]
    pairs = summary.groupby(["setting", "reference"])
    # With different seeds, the two methods inspect different numbers of samples and cannot be compared.
    comparable = (pairs["method"].transform("size") == 2) & (pairs["seeds"].transform("nunique") == 1)
    found = entries(summary, OPERATING_POINT_KEY, pairs["mean_percent"].transform(is_lowest) & comparable)
    missing = MissingEntries(results)
    keys = [(reference, method) for reference in references() for method in (reference, PAPER_METHOD)]
    rows = []
    for reference, method in keys:
        what = f"{display_name(method)} at the operating point of {display_name(reference)}"
        row: list[Any] = [display_name(reference), display_name(method)]
        for setting in columns:
            lacking = method if (setting, reference, reference) in found else reference
            entry = found.get((setting, reference, method))
            row.append(entry or missing.entry(setting, parse(lacking).gathering, what))
        rows.append(row)
    return ResultTable(
        title="FNR (%) at the operating point of a reference",
        columns=("reference", "method", *columns),
        rows=rows,
        numbers=join_paper(summary, published.fnr_at_operating_point(), OPERATING_POINT_KEY),
        labels=2,
        grouped=True,
        notes=(
            "Both methods of a pair inspect the number of samples that the reference flags, seed by seed. Different "
            "pairs inspect different numbers and cannot be compared.",
            seeds_note(summary),
            "Bold: the better of a pair.",
            *_known_rate_notes(seeds),
            incomplete_note(summary),
            *missing.notes(columns, settings),
        ),
    )


def references() -> list[str]:
    """The methods at whose operating points the paper compares."""
    return list(dict.fromkeys(published.fnr_at_operating_point()["reference"]))


def operating_points(results: Results) -> pd.DataFrame:
    """One row per setting, reference, seed and method: FNR at the number of samples that the reference flags."""
    numbers = results.numbers()
    flagged = numbers[(numbers["metric"] == "fnr_at_operating_point") & numbers["method"].isin(references())]
    columns = ["setting", "seed", "complete", "reference", "method", "inspected", "noisy", "value"]
    rows = [row for at in flagged.to_dict("records") for row in _pair(results, at)]
    return pd.DataFrame(rows, columns=columns)


def _pair(results: Results, at: dict[Any, Any]) -> Iterator[dict[str, Any]]:
    """The reference at its operating point and, if it was run, MeanProb-LM at the same number of samples."""
    row = {name: at[name] for name in ("setting", "seed", "complete")}
    row |= {"reference": at["method"], "inspected": int(at["budget"]), "noisy": at["noisy"]}
    yield row | {"method": at["method"], "value": at["value"]}
    rival = Cell(at["setting"], parse(PAPER_METHOD).gathering, at["seed"])
    if not results.has(rival):
        return
    if set(results.numbers_of(rival)["label_hash"]) != {at["label_hash"]}:
        raise StoreError(f"{rival.name} and the {at['gathering']} cell have different labels. Run one of them again.")
    ranks = results.ranks(rival)
    ranking = ranks[ranks["method"] == PAPER_METHOD]
    if len(ranking):
        yield row | {"method": PAPER_METHOD, "value": metrics.fnr(*as_scores(ranking), row["inspected"])}


def _known_rate_notes(seeds: pd.DataFrame) -> list[str]:
    """A note on references that flag exactly the number of wrong labels everywhere: only a known rate explains that."""
    exact = (seeds["inspected"] == seeds["noisy"]).groupby(seeds["reference"], sort=False).all()
    return [f"{name} received the noise rate and flags that many samples" for name in exact[exact].index]


def tuned_summary(results: Results) -> pd.DataFrame:
    """FNR after tuning: one row per setting, tuning fraction and method."""
    return over_seeds(_tuning(results), TUNING_KEY)


def tuned_table(results: Results, settings: Sequence[str] | None = None) -> ResultTable:
    """FNR after tuning on a fraction of the samples, evaluated on the other 90 %."""
    summary = tuned_summary(results)
    columns = order_settings(summary["setting"], settings)
    summary = summary[summary["setting"].isin(columns)]
    best = summary.groupby(["setting", "tuning_fraction"])["mean_percent"].transform(is_lowest)
    best_of_all = summary.groupby("setting")["mean_percent"].transform(is_lowest)
    found = entries(summary, TUNING_KEY, best, best_of_all)
    rows = [
        [*_labels(fraction, method), *(found.get((name, fraction, method)) for name in columns)]
        for fraction, method in _row_keys(summary)
    ]
    return ResultTable(
        title="FNR (%) after tuning on a fraction of the samples, evaluated on the other 90 %",
        columns=("tuned on", "method", *columns),
        rows=rows,
        numbers=join_paper(summary, published.fnr_optimized(), TUNING_KEY),
        labels=2,
        grouped=True,
        notes=(
            seeds_note(summary),
            "Bold: the best of the setting at that fraction. Underlined: the best of the setting at any fraction.",
            *_missing_notes(results, columns, rows),
            incomplete_note(summary),
            not_run_note(columns, settings),
        ),
    )


def chosen_table(results: Results, settings: Sequence[str] | None = None) -> ResultTable:
    """The tuned windows of epochs and CTRL's (W, K, Ks), above those of the paper."""
    whole = _tuning(results)
    columns = order_settings(whole["setting"], settings)
    whole = whole[whole["setting"].isin(columns)]
    paper = published.detection_hyperparameters()
    paper = paper[paper["tuning_fraction"] > 0]  # what the paper prints for 0 % cannot be the untuned defaults
    sources = {
        "ours": {key: _choices(group) for key, group in whole.groupby(TUNING_KEY)},
        "paper": {key: str(group["chosen"].item()) for key, group in paper.groupby(TUNING_KEY)},
    }
    rows = []
    for fraction, method in _row_keys(whole):
        for source, choices in sources.items():
            found = [choices.get((setting, fraction, method)) for setting in columns]
            if any(found):
                rows.append([*_labels(fraction, method), source, *found])
    published_choices = paper[[*TUNING_KEY, "chosen"]].rename(columns={"chosen": "paper"})
    return ResultTable(
        title="Tuned hyper-parameters: first and last epoch; CTRL's windows, clusters and selected clusters",
        columns=("tuned on", "method", "source", *columns),
        rows=rows,
        numbers=whole[[*TUNING_KEY, "seed", "chosen", "complete"]].merge(published_choices, on=TUNING_KEY, how="left"),
        labels=3,
        grouped=True,
        notes=(
            "Ours: one value if all seeds agree, else one per seed, in their order. Epochs count from 0.",
            *_missing_notes(results, columns, rows),
            incomplete_note(whole),
            not_run_note(columns, settings),
        ),
    )


def _tuning(results: Results) -> pd.DataFrame:
    """One row per setting, seed, tuning fraction and method."""
    stored = TuningResults(results.folder)
    tables = [stored.read(name) for name in stored.settings()]
    if not tables:
        raise StoreError(f"No tuning in {results.folder}. Create it with errata bench tune --out {results.folder}.")
    return pd.concat(tables, ignore_index=True)


def _row_keys(table: pd.DataFrame) -> list[tuple[float, str]]:
    """Fractions in increasing order, each with the methods in the paper's order."""
    methods = order_methods(table["method"], first=dict.fromkeys(published.fnr_optimized()["method"]))
    return [(fraction, method) for fraction in sorted(set(table["tuning_fraction"])) for method in methods]


def _labels(fraction: float, method: str) -> tuple[TableEntry, str]:
    return TableEntry(f"{100 * fraction:g} %", fraction), display_name(method)


def _choices(group: pd.DataFrame) -> str:
    choices = group.sort_values("seed")["chosen"].tolist()
    text = choices[0] if len(set(choices)) == 1 else "; ".join(choices)
    return mark_incomplete(text, bool(group["complete"].all()))


def _missing_notes(results: Results, settings: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """A note on missing entries, and one per failed seed."""
    missing = any(entry is None for row in rows for entry in row)
    failed = [
        f"tuning of {name}, seed {seed} failed: {last_line(reason)}"
        for name in settings
        for seed, reason in TuningResults(results.folder).failures(name).items()
    ]
    return [f"{MISSING} not tuned" if missing else "", *failed]
