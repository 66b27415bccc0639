"""The samples to export, most suspicious first, and what all exports share."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.files import replace_atomically
from errata.dynamics.ids import match_ids
from errata.errors import InputError, StoreError
from errata.readers import UserData

if TYPE_CHECKING:
    import pandas as pd

    from errata.finding.found import Found

MEASURES = ("p_wrong", "agree", "mean_loss", "score")  # columns of the ranking


@dataclass(frozen=True, eq=False)
class ExportSamples:
    """The first n rows of a ranking, their positions (n,) in the data, and the data."""

    ranking: "pd.DataFrame"
    positions: NDArray[np.int64]
    data: UserData

    @classmethod
    def select(cls, found: "Found", data: UserData | None, top: int | None) -> "ExportSamples":
        """The `top` most suspicious samples, or all. Data with other labels than were ranked are refused."""
        data = data_of(found, data)
        ranking = found.ranking.head(checked_top(top, len(found.ranking)))
        positions = match_ids(data.ids, ranking["id"].to_numpy())
        _check_labels(ranking, data, positions)
        return cls(ranking, positions, data)

    def rows(self) -> list[dict[str, Any]]:
        """The columns of the ranking as values for JSON, one dictionary per sample."""
        rows = self.ranking.astype({"id": str, "label": str, "suggested": str}).to_dict("records")
        return [{str(name): json_value(value) for name, value in row.items()} for row in rows]


def data_of(found: "Found", data: UserData | None) -> UserData:
    """The ranked data: as passed, or from `found` if it still holds them."""
    data = found.data if data is None else data
    if data is None:
        raise InputError("the result does not contain the samples. Pass the data that were ranked as data=.")
    return data


def checked_top(top: int | None, samples: int) -> int:
    """The number of samples to export: `top`, at most all of them. Default: all."""
    if top is not None and top < 1:
        raise InputError(f"top must be 1 or more, not {top}")
    return samples if top is None else min(top, samples)


def json_value(value: Any) -> Any:
    """A number, text or Boolean for JSON; None if the value is missing or not finite."""
    import pandas as pd

    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return None if not hasattr(value, "__len__") and pd.isna(value) else str(value)


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file, completely or not at all."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    replace_atomically(path, lambda file: file.write(text.encode()))


def prepare_folder(folder: Path, file_names: set[str]) -> None:
    """Create the folder of an export. A folder with files other than these is refused."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file. Choose a folder for the export.")
    others = {entry.name for entry in folder.iterdir()} - file_names if folder.is_dir() else set()
    if others:
        raise StoreError(f"{folder} contains other files, such as {min(others)}. Choose a new folder for the export.")
    folder.mkdir(parents=True, exist_ok=True)


def _check_labels(ranking: "pd.DataFrame", data: UserData, positions: NDArray[np.int64]) -> None:
    """Refuse data whose labels differ from the ranking. Labels are not compared if the class names differ."""
    labels = [str(data.classes[number]) for number in data.labels[positions].tolist()]
    ranked = ranking["label"].astype(str).tolist()
    if not set(ranked) <= set(map(str, data.classes)):
        return
    for id_, label, ranked_label in zip(ranking["id"], labels, ranked, strict=True):
        if label != ranked_label:
            raise InputError(
                f"sample {id_} has the label {label}, but had {ranked_label} when it was ranked. "
                "Pass the data that were ranked."
            )
