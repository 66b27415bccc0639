"""What was run: test accuracy, training hyper-parameters and datasets, each with the values of the paper."""

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd

from errata.bench.evaluation import published
from errata.bench.evaluation.result_table import INCOMPLETE, MISSING, ResultTable, TableEntry, mark_incomplete
from errata.bench.evaluation.summaries import (
    MissingEntries,
    entries,
    incomplete_note,
    order_settings,
    over_seeds,
    seeds_note,
)
from errata.bench.results import Results
from errata.datasets.label_noise import HeldOutClassNoise, LongTailNoise
from errata.datasets.registry import dataset as find_dataset
from errata.datasets.registry import setting as find_setting
from errata.datasets.registry import settings as known_settings

HYPERPARAMETERS = {
    "network": "network",
    "widths": "hidden widths",
    "optimizer": "optimiser",
    "batch_size": "batch",
    "learning_rate": "rate",
    "weight_decay": "decay",
    "momentum": "momentum",
    "epochs": "epochs",
    "schedule": "schedule",
}


def accuracy_table(results: Results, settings: Sequence[str] | None = None) -> ResultTable:
    """Test accuracy of the in-sample models, with that of the paper."""
    numbers = results.numbers()
    names = order_settings(numbers["setting"], settings)
    summary = over_seeds(numbers[numbers["metric"] == "test_accuracy"], ["setting"])
    summary = summary[summary["setting"].isin(names)]
    paper = published.training_hyperparameters().set_index("setting")["test_accuracy_percent"].rename("paper_percent")
    merged = summary.merge(paper, left_on="setting", right_index=True, how="left")
    merged["difference"] = merged["mean_percent"] - merged["paper_percent"]
    ours, missing = entries(summary, ["setting"]), MissingEntries(results)
    differences = dict(zip(merged["setting"], merged["difference"], strict=True))
    differences |= dict.fromkeys(merged.loc[~merged["complete"], "setting"], INCOMPLETE)
    rows = []
    for name in names:
        entry = ours.get((name,)) or missing.entry(name, "in-sample", "test accuracy")
        rows.append([name, entry, paper.get(name), differences.get(name)])
    return ResultTable(
        title="Test accuracy (%) of models trained on the noisy labels",
        columns=("setting", "ours", "paper", "difference"),
        rows=rows,
        numbers=merged,
        digits={"paper": 2, "difference": 2},
        notes=(seeds_note(summary), incomplete_note(summary), *missing.notes(names, settings)),
    )


def training_table(results: Results, settings: Sequence[str] | None = None) -> ResultTable:
    """The training hyper-parameters, above those of the paper."""
    ours = recipes(results)
    names = order_settings(ours["setting"], settings)
    paper = published.training_hyperparameters().assign(source="paper", widths=None)
    columns = ["setting", "source", *HYPERPARAMETERS, "parts"]
    both = pd.concat([ours.reindex(columns=columns), paper[columns]], ignore_index=True)  # boosting lacks most of them
    both = both[both["setting"].isin(names)]
    missing = MissingEntries(results)
    rows: list[list[Any]] = []
    for name in names:
        own = both[both["setting"] == name]
        theirs = own[own["source"] == "paper"].to_dict("records")
        mine = own[own["source"] != "paper"].to_dict("records")
        if not mine:
            rows.append([name, "ours", *[missing.entry(name, "in-sample")] * len(HYPERPARAMETERS)])
        rows += [_recipe_row(one, reference=theirs[0] if theirs else None) for one in mine]
        rows += [_recipe_row(one, reference=None) for one in theirs]
    return ResultTable(
        title="Training hyper-parameters",
        columns=("setting", "source", *HYPERPARAMETERS.values()),
        rows=rows,
        numbers=both,
        labels=2,
        grouped=True,
        notes=(
            "Underlined: differs from the paper. The paper does not print hidden widths.",
            *missing.notes(names, settings),
        ),
    )


def recipes(results: Results) -> pd.DataFrame:
    """One row per setting and recipe of its cells."""
    cells = results.numbers()[["setting", "gathering", "parameters"]].drop_duplicates()
    texts = [json.dumps({**json.loads(text), "seed": None}, sort_keys=True) for text in cells["parameters"]]
    cells = cells.assign(recipe=texts).drop_duplicates(["setting", "gathering", "recipe"])
    rows = []
    for _, group in cells.groupby(["setting", "recipe"], sort=False):
        setting, text = group["setting"].iloc[0], group["recipe"].iloc[0]
        is_only_one = cells.loc[cells["setting"] == setting, "recipe"].nunique() == 1
        source = "ours" if is_only_one else f"ours, {' and '.join(group['gathering'])}"
        values = json.loads(text)
        schedule = tuple((int(start), float(factor)) for start, factor in values.get("schedule", ()))
        rows.append(values | {"setting": setting, "source": source, "schedule": schedule})
    return pd.DataFrame(rows)


def datasets_table(results: Results, settings: Sequence[str] | None = None) -> ResultTable:
    """The settings: size of the data, and the number of wrong labels in the results."""
    measured = _label_counts(results.numbers()) if results.cells() else {}
    present = [*published.paper_settings(), *(name for name in measured if name in known_settings())]
    names = order_settings(present, settings)
    rates = published.training_hyperparameters().set_index("setting")["noise_rate"].to_dict()
    missing = MissingEntries(results)
    rows, numbers = [], []
    for name in names:
        about, rate, counts = _dataset_facts(name), rates.get(name), measured.get(name)
        if counts is None:
            missing.add("no results", name)
        paper_rate = None if rate is None else TableEntry(f"{rate:.2%}", rate)
        rows.append([*about.values(), paper_rate, None if counts is None else _noisy_entry(**counts)])
        numbers.append(about | {"paper_noise_rate": rate} | (counts or {}))
    incomplete = [name for name, counts in measured.items() if name in names and not counts["complete"]]
    subsets = [name for name in names if isinstance(find_setting(name).noise, LongTailNoise | HeldOutClassNoise)]
    return ResultTable(
        title="Settings: data, split and wrong labels",
        columns=(*about, "noise, paper", "noisy"),
        rows=rows,
        numbers=pd.DataFrame(numbers).convert_dtypes(),
        notes=(
            "Noisy: labels known to be wrong, of those whose truth is known, in these results.",
            f"Sizes are of the whole dataset; these use a part of it: {', '.join(subsets)}" if subsets else "",
            f"{INCOMPLETE} incomplete data: {', '.join(incomplete)}" if incomplete else "",
            *missing.notes(names, settings),
        ),
    )


def _recipe_row(recipe: dict[Any, Any], reference: dict[Any, Any] | None) -> list[Any]:
    """The row of a recipe; values that differ from the reference are underlined."""
    texts, other = _recipe_texts(recipe), {} if reference is None else _recipe_texts(reference)
    values = (
        TableEntry(texts[name], underline=other.get(name, MISSING) not in (MISSING, texts[name]))
        for name in HYPERPARAMETERS
    )
    return [recipe["setting"], recipe["source"], *values]


def _recipe_texts(recipe: dict[Any, Any]) -> dict[str, str]:
    """The hyper-parameters as texts; empty where there is none, such as the momentum of Adam."""
    if recipe["network"] == "boosting":
        known = {name: f"{recipe[name]:g}" for name in ("epochs", "learning_rate")}
        return dict.fromkeys(HYPERPARAMETERS, "") | {"network": recipe["network"]} | known
    parts, widths = int(recipe["parts"]), recipe["widths"]
    texts = {name: f"{recipe[name]:g}" for name in ("batch_size", "learning_rate", "weight_decay")}
    return texts | {
        "network": recipe["network"],
        "widths": "" if recipe["network"] != "mlp" else "-".join(map(str, widths)) if widths else MISSING,
        "optimizer": recipe["optimizer"],
        "momentum": f"{recipe['momentum']:g}" if recipe["optimizer"] == "sgd" else "",
        "epochs": f"{recipe['epochs']:g}" + (f" of 1/{parts}" if parts > 1 else ""),
        "schedule": ", ".join(f"{factor:g} from {start}" for start, factor in recipe["schedule"]),
    }


def _label_counts(numbers: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """By setting: samples, noisy, complete."""
    cells = numbers.groupby("setting", sort=False)
    table = cells.agg(samples=("samples", "first"), noisy=("noisy", "first"), complete=("complete", "all"))
    return {str(name): dict(row) for name, row in table.iterrows()}


def _noisy_entry(samples: int, noisy: int, complete: bool) -> TableEntry:
    text = f"{noisy:,} of {samples:,} ({noisy / samples:.2%})"
    return TableEntry(mark_incomplete(text, complete), noisy / samples)


def _dataset_facts(name: str) -> dict[str, Any]:
    """The data of a setting, from the registry."""
    data = find_dataset(find_setting(name).dataset)
    paper = data.paper
    return {
        "setting": name,
        "dataset": data.title,
        "rows": paper.rows if paper else sum(data.class_counts) or None,
        "features": paper.features if paper else None,
        "prepared": paper.transformed if paper else None,
        "classes": len(data.classes),
        "train": paper.train if paper else None,
        "test": paper.test if paper else None,
        "licence": data.licence,
    }
