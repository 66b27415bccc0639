"""Sample ids of any type, looked up in batches."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import as_numpy
from errata.errors import InputError

Rows = NDArray[np.int64]


class SampleIds:
    """The ids of N samples and the row of each; without ids a sample's id is its row."""

    def __init__(self, ids: Any | None, samples: int) -> None:
        self._numbered = ids is None
        self.values: NDArray[Any] = np.arange(samples) if ids is None else _id_array(ids)
        if len(self.values) != samples:
            raise InputError(f"there are {len(self.values)} ids for {samples} labels")
        if self._numbered:
            return
        import pandas as pd

        self._index = pd.Index(self.values)
        if not self._index.is_unique:
            raise InputError(f"id {self._index[self._index.duplicated()][0]!r} is given to two samples")

    def rows(self, ids: Any) -> Rows:
        """Rows (n,) of the ids, which may be a tensor, an array or a list; an unknown id is refused by name."""
        if self._numbered:
            return self._numbered_rows(as_numpy(ids))
        import pandas as pd

        wanted = pd.Index(_id_array(ids))
        rows = self._index.get_indexer(wanted)
        if len(rows) and rows.min() < 0:
            raise InputError(f"unknown id {wanted[int(np.argmin(rows))]!r}")
        return rows.astype(np.int64, copy=False)

    def _numbered_rows(self, ids: NDArray[Any]) -> Rows:
        if ids.ndim != 1:
            raise InputError(f"ids of a batch must have shape (n,), not {ids.shape}")
        if len(ids) and ids.dtype.kind not in "iu":
            raise InputError(
                f"unknown id {ids[0].item()!r}: this run was given no ids, so its samples are numbered 0..{len(self.values) - 1}"
            )
        rows = ids.astype(np.int64, copy=False)
        if len(rows) and (rows.min() < 0 or rows.max() >= len(self.values)):
            stranger = rows[(rows < 0) | (rows >= len(self.values))][0]
            raise InputError(f"unknown id {int(stranger)}: samples are numbered 0..{len(self.values) - 1}")
        return rows

    def portable(self) -> NDArray[Any]:
        """Ids as an array that is saved without pickling: numbers and text as they are, anything else as its text."""
        return self.values if self.values.dtype.kind in "iufbUS" else np.array([str(value) for value in self.values])


def _id_array(ids: Any) -> NDArray[Any]:
    """Ids as an array of one dimension: numbers and text in their own type, everything else (tuples too) as objects."""
    array = as_numpy(ids) if hasattr(ids, "dtype") else None
    if array is None:
        items = list(ids)
        kinds = {type(item) for item in items}
        if len(kinds) == 1 and kinds <= {int, str, np.str_, np.int64, np.int32}:
            array = np.asarray(items)
        else:
            array = np.empty(len(items), dtype=object)
            array[:] = items
    if array.ndim != 1:
        raise InputError(f"ids must have one dimension, not shape {array.shape}")
    return array
