"""The published numbers, which ship with the package as the paper's tables, under the names used here."""

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from errata.core.methods import parse
from errata.datasets.label_noise import RecordedNoise, TransitionNoise
from errata.datasets.registry import settings
from errata.datasets.spec import Setting
from errata.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_EPOCHS = re.compile(r"^(?P<epochs>\d+)( mini \(1/(?P<parts>\d+) epoch\))?$")
_PERCENT = {"std": "std_percent"}


def fnr_at_noise_rate() -> "pd.DataFrame":
    """A row a setting and method, in the paper's order: gathering, fnr_percent, std_percent."""
    table = _read("fnr_at_noise_rate").rename(columns=_PERCENT)
    return table.assign(gathering=[parse(name).gathering for name in table["method"]])


def fnr_at_operating_point() -> "pd.DataFrame":
    """A row a setting, reference and method: FNR at as many samples as the reference flags."""
    table = _read("fnr_at_operating_point").rename(columns=_PERCENT)
    return table.assign(reference=_canonical(table.pop("reference_method")))


def fnr_optimized() -> "pd.DataFrame":
    """A row a setting, tuning fraction and method: FNR after tuning on that fraction, on the other 90 %."""
    return _read("fnr_optimized").rename(columns=_PERCENT)


def detection_hyperparameters() -> "pd.DataFrame":
    """A row a setting, tuning fraction and method: `chosen` is an epoch, a window `start-end`, or CTRL's `W,K,Ks`."""
    table = _read("detection_hyperparameters")
    return table.assign(chosen=table.pop("value").str.replace(r"[() ]", "", regex=True))


def training_hyperparameters() -> "pd.DataFrame":
    """A row a setting: network, the fields of a recipe but for widths and seed, noise rate, test accuracy.

    momentum is missing where the optimiser has none.
    """
    import pandas as pd

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


def paper_order() -> list[str]:
    """The 25 methods, in the order of the paper's tables."""
    return list(dict.fromkeys(_read("fnr_at_noise_rate")["method"]))


def setting_name(dataset: str, noise: str, noise_rate: float) -> str:
    """The name here of a column of the paper's tables."""
    found = [one.name for one in settings().values() if one.in_paper and _is(one, dataset, noise, noise_rate)]
    if len(found) != 1:
        raise InputError(
            f"the paper's {dataset}, {noise}, {noise_rate:g} must be one setting, not {', '.join(found) or 'none'}"
        )
    return found[0]


def _is(setting: Setting, dataset: str, noise: str, rate: float) -> bool:
    if setting.dataset != dataset:
        return False
    if isinstance(setting.noise, TransitionNoise):
        return (setting.noise.model, setting.noise.rate) == (noise, rate)
    return isinstance(setting.noise, RecordedNoise) and (setting.noise.column or "real") == noise


def _read(name: str) -> "pd.DataFrame":
    """A table with `setting` in front and methods under their canonical names; a copy, so that nobody changes ours."""
    return _cached(name).copy()


@cache
def _cached(name: str) -> "pd.DataFrame":
    import pandas as pd

    text = {"epochs": str, "schedule_epochs": str, "schedule_factors": str, "value": str}
    with (files("errata.bench.evaluation") / "paper" / f"{name}.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file, dtype=text)
    columns = zip(table.pop("dataset"), table.pop("noise"), table["noise_rate"], strict=True)
    table.insert(0, "setting", [setting_name(*column) for column in columns])
    if "method" in table:
        table["method"] = _canonical(table["method"])
    return table


def _canonical(names: "pd.Series[str]") -> list[str]:
    return [parse(name).name for name in names]


def _schedule(starts: str | float, factors: str | float) -> tuple[tuple[int, float], ...]:
    """Pairs (epoch, factor) as in a recipe; an empty cell is a constant rate."""
    if not isinstance(starts, str) or not isinstance(factors, str):
        return ((0, 1.0),)
    return tuple(
        (int(start), float(factor)) for start, factor in zip(starts.split(";"), factors.split(";"), strict=True)
    )
