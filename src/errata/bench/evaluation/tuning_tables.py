"""Results of tuning: FNR after tuning, and the tuned hyper-parameters."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from errata.bench.evaluation import published
from errata.bench.evaluation.result_table import MISSING, ResultTable, TableEntry, group_starts, mark_incomplete
from errata.bench.evaluation.summaries import (
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
from errata.bench.results import Results
from errata.bench.tuning_results import TuningResults
from errata.errors import StoreError

if TYPE_CHECKING:
    import pandas as pd

KEY = ["setting", "tuning_fraction", "method"]


def tuned_table(results: Results, settings: Sequence[str] | None = None) -> ResultTable:
    """FNR after tuning on a fraction of the samples, evaluated on the other 90 %."""
    summary = over_seeds(_tuning(results), KEY)
    columns = order_settings(summary["setting"], settings)
    summary = summary[summary["setting"].isin(columns)]
    best = summary.groupby(["setting", "tuning_fraction"])["mean_percent"].transform(is_lowest)
    best_of_all = summary.groupby("setting")["mean_percent"].transform(is_lowest)
    found = entries(summary, KEY, best, best_of_all)
    keys = _row_keys(summary)
    rows = [
        (*_labels(fraction, method), *(found.get((name, fraction, method), TableEntry(MISSING)) for name in columns))
        for fraction, method in keys
    ]
    return ResultTable(
        title="FNR (%) after tuning on a fraction of the samples, evaluated on the other 90 %",
        columns=("tuned on", "method", *columns),
        rows=tuple(rows),
        numbers=join_paper(summary, published.fnr_optimized(), KEY),
        labels=2,
        rules=frozenset(group_starts(fraction for fraction, _ in keys)),
        notes=(
            *seeds_note(summary),
            "Bold: the best of the setting at that fraction. Underlined: the best of the setting at any fraction.",
            *_missing_notes(results, columns, rows),
            *incomplete_note(summary),
            *not_run_note(columns, settings),
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
        "ours": {key: _choices(group) for key, group in whole.groupby(KEY)},
        "paper": {key: TableEntry(str(group["chosen"].item())) for key, group in paper.groupby(KEY)},
    }
    rows, fractions = [], []
    for fraction, method in _row_keys(whole):
        for source, choices in sources.items():
            found = [choices.get((setting, fraction, method)) for setting in columns]
            if any(found):
                labels = (*_labels(fraction, method), TableEntry(source))
                rows.append((*labels, *(one or TableEntry(MISSING) for one in found)))
                fractions.append(fraction)
    published_choices = paper[[*KEY, "chosen"]].rename(columns={"chosen": "paper"})
    return ResultTable(
        title="Tuned hyper-parameters: first and last epoch; CTRL's windows, clusters and selected clusters",
        columns=("tuned on", "method", "source", *columns),
        rows=tuple(rows),
        numbers=whole[[*KEY, "seed", "chosen", "complete"]].merge(published_choices, on=KEY, how="left"),
        labels=3,
        rules=frozenset(group_starts(fractions)),
        notes=(
            "Ours: one value if all seeds agree, else one per seed, in their order. Epochs count from 0.",
            *_missing_notes(results, columns, rows),
            *incomplete_note(whole),
            *not_run_note(columns, settings),
        ),
    )


def _tuning(results: Results) -> "pd.DataFrame":
    """One row per setting, seed, tuning fraction and method."""
    import pandas as pd

    stored = TuningResults(results.folder)
    tables = [stored.read(name) for name in stored.settings()]
    if not tables:
        raise StoreError(f"No tuning in {results.folder}. Create it with errata bench tune --out {results.folder}.")
    return pd.concat(tables, ignore_index=True)


def _row_keys(table: "pd.DataFrame") -> list[tuple[float, str]]:
    """Fractions in increasing order, each with the methods in the paper's order."""
    methods = order_methods(table["method"], first=dict.fromkeys(published.fnr_optimized()["method"]))
    return [(fraction, method) for fraction in sorted(set(table["tuning_fraction"])) for method in methods]


def _labels(fraction: float, method: str) -> tuple[TableEntry, TableEntry]:
    return TableEntry(f"{100 * fraction:g} %", fraction), TableEntry(display_name(method))


def _choices(group: "pd.DataFrame") -> TableEntry:
    choices = group.sort_values("seed")["chosen"].tolist()
    text = choices[0] if len(set(choices)) == 1 else "; ".join(choices)
    return TableEntry(mark_incomplete(text, bool(group["complete"].all())))


def _missing_notes(results: Results, settings: Sequence[str], rows: Iterable[Sequence[TableEntry]]) -> list[str]:
    """A note on missing entries, and one per failed seed."""
    missing = any(one.text == MISSING for row in rows for one in row)
    failed = [
        f"tuning of {name}, seed {seed} failed: {reason.strip().splitlines()[-1]}"
        for name in settings
        for seed, reason in TuningResults(results.folder).failures(name).items()
    ]
    return [*([f"{MISSING} not tuned"] if missing else []), *failed]
