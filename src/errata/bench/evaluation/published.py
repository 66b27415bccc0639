"""The published numbers: the paper's tables, with the names of settings and methods that errata uses."""

from functools import cache
from importlib.resources import files

import pandas as pd


def fnr_at_noise_rate() -> pd.DataFrame:
    """One row per setting and method, in the paper's order: gathering, fnr_percent, std_percent."""
    return _read("fnr_at_noise_rate")


def fnr_at_operating_point() -> pd.DataFrame:
    """One row per setting, reference and method: FNR at the number of samples that the reference flags."""
    return _read("fnr_at_operating_point")


def fnr_optimized() -> pd.DataFrame:
    """One row per setting, tuning fraction and method: FNR on the 90 % of samples that were not used for tuning."""
    return _read("fnr_optimized")


def detection_hyperparameters() -> pd.DataFrame:
    """One row per setting, tuning fraction and method. `chosen`: an epoch, a window `start-end`, or CTRL's `W,K,Ks`."""
    return _read("detection_hyperparameters")


def training_hyperparameters() -> pd.DataFrame:
    """One row per setting: network, the fields of a recipe without widths and seed, noise rate, test accuracy.

    momentum is missing for optimisers that have none.
    """
    table = _read("training_hyperparameters")
    return table.assign(schedule=table["schedule"].map(_schedule))


def paper_settings() -> list[str]:
    """The 17 settings, in the order of the paper's tables."""
    return list(dict.fromkeys(_cached("fnr_at_noise_rate")["setting"]))


def paper_method_names() -> list[str]:
    """The 25 methods, in the order of the paper's tables."""
    return list(dict.fromkeys(_cached("fnr_at_noise_rate")["method"]))


def _read(name: str) -> pd.DataFrame:
    """A copy of a table."""
    return _cached(name).copy()


@cache
def _cached(name: str) -> pd.DataFrame:
    with (files("errata.bench.evaluation") / "paper" / f"{name}.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file, dtype={"chosen": str})


def _schedule(text: str) -> tuple[tuple[int, float], ...]:
    """Pairs (epoch, factor) as in a recipe, from `0:1.0;50:0.1`."""
    pairs = (step.split(":") for step in text.split(";"))
    return tuple((int(start), float(factor)) for start, factor in pairs)
