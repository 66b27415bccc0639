"""The samples to be exported, most suspicious first, and what is in each."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.ids import match_ids
from errata.errors import InputError, StoreError
from errata.readers import UserData

if TYPE_CHECKING:
    import pandas as pd

    from errata.finding.found import Found


@dataclass(frozen=True, eq=False)
class Chosen:
    """Rows of a ranking, most suspicious first, and the place of each in the data."""

    ranking: "pd.DataFrame"
    places: NDArray[np.int64]
    data: UserData

    def rows(self) -> list[dict[str, Any]]:
        """The columns of the ranking, sample by sample."""
        return [{str(name): value for name, value in row.items()} for row in self.ranking.to_dict("records")]


def choose(found: "Found", data: UserData | None, top: int | None) -> Chosen:
    """The `top` most suspicious samples, or all, with the data that they were found in."""
    data = data_of(found, data)
    ranking = found.ranking.head(checked_top(top, len(found.ranking)))
    places = match_ids(data.ids, ranking["id"].to_numpy())
    _check_labels(ranking, data, places)
    return Chosen(ranking, places, data)


def data_of(found: "Found", data: UserData | None) -> UserData:
    """The data that were ranked, as given, or as they were kept at hand."""
    data = found.data if data is None else data
    if data is None:
        raise InputError("what was found holds no samples to show: give the data that were ranked")
    return data


def checked_top(top: int | None, samples: int) -> int:
    """How many of the samples are wanted."""
    if top is not None and top < 1:
        raise InputError(f"top must be 1 or more, not {top}")
    return samples if top is None else min(top, samples)


def class_names(found: "Found") -> list[str]:
    """The classes as text, each once, in the order of their numbers."""
    dynamics = found.dynamics
    return list(dict.fromkeys(str(dynamics.class_name(number)) for number in range(dynamics.num_classes)))


def plain(value: Any) -> Any:
    """A value as JSON has it: a number, a text, yes or no; null for what is missing."""
    import pandas as pd

    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return None if not hasattr(value, "__len__") and pd.isna(value) else str(value)


def check_target(folder: Path, written: set[str]) -> None:
    """Refuse a folder that holds anything but an earlier export."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file; name a folder for the export")
    others = {entry.name for entry in folder.iterdir()} - written if folder.is_dir() else set()
    if others:
        raise StoreError(f"{folder} holds other files, such as {min(others)}; name a new folder for the export")
    folder.mkdir(parents=True, exist_ok=True)


def _check_labels(ranking: "pd.DataFrame", data: UserData, places: NDArray[np.int64]) -> None:
    """Refuse data with other labels than were ranked; classes that go by other names there cannot be compared."""
    labels = [str(data.classes[number]) for number in data.labels[places].tolist()]
    ranked = ranking["label"].astype(str).tolist()
    if not set(ranked) <= set(map(str, data.classes)):
        return
    for row, (now, then) in enumerate(zip(labels, ranked, strict=True)):
        if now != then:
            raise InputError(
                f"sample {ranking['id'].iloc[row]} has the label {now} in the data and had {then} when it was ranked: "
                "give the data that were ranked"
            )
