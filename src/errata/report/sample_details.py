"""The contents and the losses of single samples, for pages that ask a server for what they do not hold."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.ids import match_ids
from errata.dynamics.store import Dynamics
from errata.readers.user_data import UserData
from errata.report.contents import loss_heights, losses_at, thumbnails
from errata.report.table_contents import TableView


class SampleDetails:
    """Computes what a page shows of one sample, in the form of its payload."""

    def __init__(self, dynamics: Dynamics, data: UserData | None, classes: Sequence[str]) -> None:
        self._dynamics, self._data, self._classes = dynamics, data, classes

    @cached_property
    def _view(self) -> TableView | None:
        return None if self._data is None else TableView(self._data)

    def of(self, ids: NDArray[Any], payload: dict[str, Any]) -> dict[str, Any]:
        """`row` (a picture, or one text per column) and `heights` of the sample `ids` (1,); None if not available."""
        return {"row": self._row(ids, payload["contents"]), "heights": self._heights(ids, payload["losses"])}

    def _row(self, ids: NDArray[Any], contents: dict[str, Any]) -> Any:
        if self._data is None:
            return None
        places = match_ids(self._data.ids, ids)
        if contents["form"] == "picture":
            return next(thumbnails(self._data, places))
        if contents["form"] != "columns" or self._view is None:
            return None
        same = [column["name"] for column in self._view.columns] == [column["name"] for column in contents["columns"]]
        return next(self._view.rows(places)) if same else None

    def _heights(self, ids: NDArray[Any], losses: dict[str, Any] | None) -> list[int] | None:
        if losses is None or self._dynamics.logits is None:
            return None
        epochs = np.array(losses["epochs"], dtype=np.int64) - 1
        values = losses_at(self._dynamics, match_ids(self._dynamics.ids, ids), epochs)
        heights: list[int] = loss_heights(values[0], losses["top"]).tolist()
        return heights
