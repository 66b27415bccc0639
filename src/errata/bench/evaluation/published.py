"""The published numbers: the paper's tables, with the names of settings and methods that errata uses."""

import re
from functools import cache
from importlib.resources import files

import pandas as pd

from errata.core.methods import parse

_EPOCHS = re.compile(r"^(?P<epochs>\d+)( mini \(1/(?P<parts>\d+) epoch\))?$")


def fnr_at_noise_rate() -> pd.DataFrame:
    """One row per setting and method, in the paper's order: gathering, fnr_percent, std_percent."""
    table = _read("fnr_at_noise_rate")
    return table.assign(gathering=[parse(name).gathering for name in table["method"]])


def fnr_at_operating_point() -> pd.DataFrame:
    """One row per setting, reference and method: FNR at the number of samples that the reference flags."""
    table = _read("fnr_at_operating_point")
    return table.assign(reference=_canonical(table.pop("reference_method")))


def fnr_optimized() -> pd.DataFrame:
    """One row per setting, tuning fraction and method: FNR on the 90 % of samples that were not used for tuning."""
    return _read("fnr_optimized")


def detection_hyperparameters() -> pd.DataFrame:
    """One row per setting, tuning fraction and method. `chosen`: an epoch, a window `start-end`, or CTRL's `W,K,Ks`."""
    table = _read("detection_hyperparameters")
    return table.assign(chosen=table.pop("value").str.replace(r"[() ]", "", regex=True))


def training_hyperparameters() -> pd.DataFrame:
    """One row per setting: network, the fields of a recipe without widths and seed, noise rate, test accuracy.

    momentum is missing for optimisers that have none.
    """
    table = _read("training_hyperparameters")
    schedules = zip(table.pop("schedule_epochs"), table.pop("schedule_factors"), strict=True)
    epochs = table["epochs"].str.extract(_EPOCHS)
    return table.assign(
        network=table.pop("model"),
        optimizer=table["optimizer"].str.lower(),
        learning_rate=table.pop("lr"),
        epochs=epochs["epochs"].astype(int),
        parts=epochs["parts"].fillna("1").astype(int),
        schedule=pd.Series([_schedule(starts, factors) for starts, factors in schedules], dtype=object),
    )


def paper_settings() -> list[str]:
    """The 17 settings, in the order of the paper's tables."""
    return list(dict.fromkeys(_read("fnr_at_noise_rate")["setting"]))


def paper_method_names() -> list[str]:
    """The 25 methods, in the order of the paper's tables."""
    return list(dict.fromkeys(_read("fnr_at_noise_rate")["method"]))


def _setting_name(dataset: str, noise: str, noise_rate: float) -> str:
    """The setting of a column of the paper's tables."""
    if noise == "real":
        return dataset
    return f"{dataset}-{noise}" if dataset == "cifar10n" else f"{dataset}-{noise}-{round(100 * noise_rate)}"


def _read(name: str) -> pd.DataFrame:
    """A copy of a table: `setting` is the first column, and methods have their canonical names."""
    return _cached(name).copy()


@cache
def _cached(name: str) -> pd.DataFrame:

    text = {"epochs": str, "schedule_epochs": str, "schedule_factors": str, "value": str}
    with (files("errata.bench.evaluation") / "paper" / f"{name}.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file, dtype=text).rename(columns={"std": "std_percent"})
    columns = zip(table.pop("dataset"), table.pop("noise"), table["noise_rate"], strict=True)
    table.insert(0, "setting", [_setting_name(*column) for column in columns])
    if "method" in table:
        table["method"] = _canonical(table["method"])
    return table


def _canonical(names: "pd.Series[str]") -> list[str]:
    return [parse(name).name for name in names]


def _schedule(starts: str | float, factors: str | float) -> tuple[tuple[int, float], ...]:
    """Pairs (epoch, factor) as in a recipe. An empty cell is a constant rate."""
    if not isinstance(starts, str) or not isinstance(factors, str):
        return ((0, 1.0),)
    pairs = zip(starts.split(";"), factors.split(";"), strict=True)
    return tuple((int(start), float(factor)) for start, factor in pairs)
