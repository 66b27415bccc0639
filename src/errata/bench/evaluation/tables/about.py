"""What was run: test accuracy, training hyper-parameters and datasets, beside the paper's."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from errata.bench.evaluation import published
from errata.bench.evaluation.tables.over_seeds import (
    Absent,
    entries,
    incomplete_note,
    not_run,
    order_settings,
    over_seeds,
    seeds_note,
)
from errata.bench.evaluation.tables.table import INCOMPLETE, MISSING, Entry, Table, from_frame, group_starts
from errata.bench.results import Results
from errata.datasets.label_noise import HeldOutClassNoise, LongTailNoise
from errata.datasets.registry import dataset as find_dataset
from errata.datasets.registry import setting as find_setting
from errata.datasets.registry import settings as known_settings

if TYPE_CHECKING:
    import pandas as pd

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


def accuracy_table(results: Results, settings: Sequence[str] | None = None) -> Table:
    """Test accuracy of the in-sample models, beside the paper's."""
    import pandas as pd

    numbers = results.numbers()
    summary = over_seeds(numbers[numbers["metric"] == "test_accuracy"], ["setting"])
    names = order_settings(numbers["setting"], settings)
    summary = summary[summary["setting"].isin(names)]
    paper = published.training_hyperparameters()[["setting", "test_accuracy_percent"]]
    merged = summary.merge(paper.rename(columns={"test_accuracy_percent": "paper_percent"}), on="setting", how="left")
    merged["difference"] = merged["mean_percent"] - merged["paper_percent"]
    found = entries(summary, ["setting"])
    theirs = dict(zip(paper["setting"], paper["test_accuracy_percent"], strict=True))
    differences = dict(zip(merged["setting"], merged["difference"], strict=True))
    differences |= dict.fromkeys(merged.loc[~merged["complete"], "setting"], INCOMPLETE)
    absent = Absent(results)
    rows = [
        {
            "setting": name,
            "ours": found.get((name,)) or absent.entry(name, "in-sample", "test accuracy"),
            "paper": theirs.get(name),
            "difference": differences.get(name),
        }
        for name in names
    ]
    return from_frame(
        pd.DataFrame(rows, columns=["setting", "ours", "paper", "difference"]),
        "Test accuracy (%) of models trained on the noisy labels",
        digits={"paper": 2, "difference": 2},
        numbers=merged,
        notes=[*seeds_note(summary), *incomplete_note(summary), *absent.notes(names), *not_run(names, settings)],
    )


def training_table(results: Results, settings: Sequence[str] | None = None) -> Table:
    """How the models were trained, above how the paper's were."""
    import pandas as pd

    ours = recipes(results)
    names = order_settings(ours["setting"], settings)
    paper = published.training_hyperparameters().assign(source="paper", widths=None)
    columns = ["setting", "source", *HYPERPARAMETERS, "parts"]
    both = pd.concat([ours.reindex(columns=columns), paper[columns]], ignore_index=True)  # trees have few of them
    both = both[both["setting"].isin(names)]
    absent = Absent(results)
    rows: list[tuple[Entry, ...]] = []
    of_setting: list[str] = []
    for name in names:
        theirs = both[(both["setting"] == name) & (both["source"] == "paper")].to_dict("records")
        mine = both[(both["setting"] == name) & (both["source"] != "paper")].to_dict("records")
        if not mine:
            dash = absent.entry(name, "in-sample")
            rows.append((Entry(name), Entry("ours"), *(dash for _ in HYPERPARAMETERS)))
        rows += [_recipe_row(one, beside=theirs[0] if theirs else None) for one in mine]
        rows += [_recipe_row(one, beside=None) for one in theirs]
        of_setting += [name] * (len(rows) - len(of_setting))
    return Table(
        title="Training hyper-parameters",
        columns=("setting", "source", *HYPERPARAMETERS.values()),
        rows=tuple(rows),
        numbers=both,
        labels=2,
        rules=frozenset(group_starts(of_setting)),
        notes=(
            "Underlined: differs from the paper's. The paper does not print hidden widths.",
            *absent.notes(names),
            *not_run(names, settings),
        ),
    )


def recipes(results: Results) -> "pd.DataFrame":
    """A row a setting and recipe that its cells were trained with; one row a setting unless they differ."""
    import pandas as pd

    cells = results.numbers()[["setting", "gathering", "parameters"]].drop_duplicates()
    texts = [json.dumps({**json.loads(text), "seed": None}, sort_keys=True) for text in cells["parameters"]]
    cells = cells.assign(recipe=texts).drop_duplicates(["setting", "gathering", "recipe"])
    rows = []
    for _, group in cells.groupby(["setting", "recipe"], sort=False):
        setting, text = group["setting"].iloc[0], group["recipe"].iloc[0]
        alone = cells.loc[cells["setting"] == setting, "recipe"].nunique() == 1
        source = "ours" if alone else f"ours, {' and '.join(group['gathering'])}"
        values = json.loads(text)
        schedule = tuple((int(start), float(factor)) for start, factor in values.get("schedule", ()))
        rows.append(values | {"setting": setting, "source": source, "schedule": schedule})
    return pd.DataFrame(rows)


def datasets_table(results: Results, settings: Sequence[str] | None = None) -> Table:
    """Every setting with the size of its data, and how many labels are wrong in the results."""
    import pandas as pd

    done = any(True for _ in results.cells())
    measured = _labels_scored(results.numbers()) if done else {}
    present = [*published.paper_settings(), *(name for name in measured if name in known_settings())]
    names = order_settings(present, settings)
    rates = published.training_hyperparameters().set_index("setting")["noise_rate"]
    absent = Absent(results)
    rows = []
    for name in names:
        cells = measured.get(name)
        if cells is None:
            absent.add("no results", name)
        noisy = Entry(MISSING) if cells is None else _noisy(**cells)
        rows.append(_about(name) | {"noise, paper": _rate(rates.get(name)), "noisy": noisy})
    numbers = [_about(name) | {"paper_noise_rate": rates.get(name)} | measured.get(name, {}) for name in names]
    incomplete = [name for name, cells in measured.items() if name in names and not cells["complete"]]
    parts = [name for name in names if isinstance(find_setting(name).noise, LongTailNoise | HeldOutClassNoise)]
    return from_frame(
        pd.DataFrame(rows, dtype=object),  # a count stays one beside a missing one
        "Settings: data, split and wrong labels",
        numbers=pd.DataFrame(numbers).convert_dtypes(),
        notes=[
            "Noisy: labels known to be wrong, of those whose truth is known, in the cells of these results.",
            *([f"Sizes are of the whole dataset, of which these use a part: {', '.join(parts)}"] if parts else []),
            *([f"{INCOMPLETE} on incomplete data: {', '.join(incomplete)}"] if incomplete else []),
            *absent.notes(names),
        ],
    )


def _recipe_row(recipe: dict[Any, Any], beside: dict[Any, Any] | None) -> tuple[Entry, ...]:
    shown, other = _shown(recipe), {} if beside is None else _shown(beside)
    differs = {name: other.get(name, MISSING) not in (MISSING, text) for name, text in shown.items()}
    values = (Entry(shown[name], underline=differs[name]) for name in HYPERPARAMETERS)
    return (Entry(recipe["setting"]), Entry(recipe["source"]), *values)


def _shown(recipe: dict[Any, Any]) -> dict[str, str]:
    """Texts; empty where there is no such thing, as momentum of Adam, or nearly all of it for trees."""
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


def _labels_scored(numbers: "pd.DataFrame") -> dict[str, dict[str, Any]]:
    """By setting: samples scored, noisy of these, and whether the data is all there."""
    cells = numbers.groupby("setting", sort=False)
    table = cells.agg(samples=("samples", "first"), noisy=("noisy", "first"), complete=("complete", "all"))
    return {str(name): dict(row) for name, row in table.iterrows()}


def _noisy(samples: int, noisy: int, complete: bool) -> Entry:
    text = f"{noisy:,} of {samples:,} ({noisy / samples:.2%})"
    return Entry(text if complete else f"{text} {INCOMPLETE}", noisy / samples)


def _rate(rate: float | None) -> Entry:
    return Entry(MISSING) if rate is None else Entry(f"{rate:.2%}", rate)


def _about(name: str) -> dict[str, Any]:
    """What the registry knows of a setting's data."""
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
