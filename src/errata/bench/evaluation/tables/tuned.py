"""What tuning brings: FNR after it, and what was chosen."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from errata.bench.evaluation import published
from errata.bench.evaluation.tables.over_seeds import (
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
from errata.bench.evaluation.tables.table import INCOMPLETE, MISSING, Entry, Table, group_starts
from errata.bench.results import Results
from errata.bench.tuning_results import TuningResults
from errata.errors import StoreError

if TYPE_CHECKING:
    import pandas as pd

KEY = ["setting", "tuning_fraction", "method"]


def tuning(results: Results) -> "pd.DataFrame":
    """A row a setting, seed, tuning fraction and method: FNR on the part not tuned on, and what was chosen."""
    import pandas as pd

    files = TuningResults(results.folder)
    tables = [files.read(name) for name in files.settings()]
    if not tables:
        raise StoreError(f"{results.folder} holds no tuning; `errata bench tune --out {results.folder}` makes it")
    return pd.concat(tables, ignore_index=True)


def tuned_table(results: Results, settings: Sequence[str] | None = None) -> Table:
    """FNR after tuning on a fraction of the samples, on the other 90 %."""
    summary = over_seeds(tuning(results), KEY)
    columns = order_settings(summary["setting"], settings)
    summary = summary[summary["setting"].isin(columns)]
    best = summary.groupby(["setting", "tuning_fraction"])["mean_percent"].transform(least)
    best_of_all = summary.groupby("setting")["mean_percent"].transform(least)
    found = entries(summary, KEY, best, best_of_all)
    keys = _keys(summary)
    rows = [
        (*_named(fraction, method), *(found.get((setting, fraction, method), Entry(MISSING)) for setting in columns))
        for fraction, method in keys
    ]
    return Table(
        title="FNR (%) after tuning on a fraction of the samples, on the 90 % kept apart",
        columns=("tuned on", "method", *columns),
        rows=tuple(rows),
        numbers=beside_paper(summary, published.fnr_optimized(), KEY),
        labels=2,
        rules=frozenset(group_starts(fraction for fraction, _ in keys)),
        notes=(
            *seeds_note(summary),
            "Bold: the best of the setting at that fraction. Underlined: the best of the setting at any.",
            *_absent_notes(results, columns, rows),
            *incomplete_note(summary),
            *not_run(columns, settings),
        ),
    )


def chosen_table(results: Results, settings: Sequence[str] | None = None) -> Table:
    """The windows of epochs and CTRL's (W, K, Ks) that tuning chose, above the paper's."""
    whole = tuning(results)
    columns = order_settings(whole["setting"], settings)
    whole = whole[whole["setting"].isin(columns)]
    paper = published.detection_hyperparameters()
    # what the paper prints for 0 % cannot be what its methods are without tuning, and stands for nothing here
    paper = paper[paper["tuning_fraction"] > 0]
    ours = {key: _choices(group) for key, group in whole.groupby(KEY)}
    theirs = {key: Entry(str(group["chosen"].item())) for key, group in paper.groupby(KEY)}
    rows, fractions = [], []
    for fraction, method in _keys(whole):
        for source, of_source in (("ours", ours), ("paper", theirs)):
            found = [of_source.get((setting, fraction, method)) for setting in columns]
            if any(found):
                named = (*_named(fraction, method), Entry(source))
                rows.append((*named, *(one or Entry(MISSING) for one in found)))
                fractions.append(fraction)
    published_choices = paper[[*KEY, "chosen"]].rename(columns={"chosen": "paper"})
    return Table(
        title="What tuning chose: the first and the last epoch; CTRL's windows, clusters and selected clusters",
        columns=("tuned on", "method", "source", *columns),
        rows=tuple(rows),
        numbers=whole[[*KEY, "seed", "chosen", "complete"]].merge(published_choices, on=KEY, how="left"),
        labels=3,
        rules=frozenset(group_starts(fractions)),
        notes=(
            "Ours: one choice if all seeds agree, else one a seed, in their order. Epochs count from 0.",
            *_absent_notes(results, columns, rows),
            *incomplete_note(whole),
            *not_run(columns, settings),
        ),
    )


def _keys(table: "pd.DataFrame") -> list[tuple[float, str]]:
    """Fractions from small to large, methods in the paper's order in each."""
    methods = order_methods(table["method"], first=dict.fromkeys(published.fnr_optimized()["method"]))
    return [(fraction, method) for fraction in sorted(set(table["tuning_fraction"])) for method in methods]


def _named(fraction: float, method: str) -> tuple[Entry, Entry]:
    return Entry(f"{100 * fraction:g} %", fraction), Entry(shown_method(method))


def _choices(group: "pd.DataFrame") -> Entry:
    choices = group.sort_values("seed")["chosen"].tolist()
    text = choices[0] if len(set(choices)) == 1 else "; ".join(choices)
    return Entry(text if group["complete"].all() else f"{text} {INCOMPLETE}")


def _absent_notes(results: Results, settings: Sequence[str], rows: Iterable[Sequence[Entry]]) -> list[str]:
    """That entries are missing, and the seeds that were tried and failed."""
    missing = any(one.text == MISSING for row in rows for one in row)
    failed = [
        f"tuning of {name}, seed {seed} failed: {reason.strip().splitlines()[-1]}"
        for name in settings
        for seed, reason in TuningResults(results.folder).failures(name).items()
    ]
    return [*([f"{MISSING} not tuned"] if missing else []), *failed]
