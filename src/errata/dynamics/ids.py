"""Sample ids of any type, looked up in batches."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import as_numpy
from errata.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Rows = NDArray[np.int64]
_PLAIN_KINDS = "iufbUS"


class SampleIds:
    """The ids of N samples and the row of each; without ids a sample's id is its row."""

    def __init__(self, ids: Any | None, samples: int) -> None:
        self._numbered = ids is None
        self.values: NDArray[Any] = np.arange(samples) if ids is None else _id_array(ids)
        if len(self.values) != samples:
            raise InputError(f"there are {len(self.values)} ids for {samples} labels")
        if self._numbered:
            return
        self._index = _index(self.values)
        if not self._index.is_unique:
            twice = int(np.argmax(self._index.duplicated()))
            raise InputError(f"id {self.name(twice)} is given to two samples")

    def rows(self, ids: Any) -> Rows:
        """Rows (n,) of the ids, which may be a tensor, an array or a list; an unknown id is refused by name."""
        if self._numbered:
            return self._numbered_rows(as_numpy(ids))
        wanted = _id_array(ids)
        rows = self._index.get_indexer(_index(wanted))
        if len(rows) and rows.min() < 0:
            raise InputError(f"unknown id {_shown(wanted, int(np.argmin(rows)))}")
        return np.asarray(rows, dtype=np.int64)

    def _numbered_rows(self, ids: NDArray[Any]) -> Rows:
        if ids.ndim != 1:
            raise InputError(f"ids of a batch must have shape (n,), not {ids.shape}")
        numbers = f"samples are numbered 0..{len(self.values) - 1}"
        if len(ids) and ids.dtype.kind not in "iu":
            raise InputError(f"unknown id {_shown(ids, 0)}: this run was given no ids, so its {numbers}")
        rows = ids.astype(np.int64, copy=False)
        strange = (rows < 0) | (rows >= len(self.values))
        if strange.any():
            raise InputError(f"unknown id {_shown(ids, int(np.argmax(strange)))}: {numbers}")
        return rows

    def name(self, row: int) -> str:
        """The id of a row, as it is shown in messages."""
        return _shown(self.values, row)


def portable_ids(values: NDArray[Any]) -> NDArray[Any]:
    """Ids as an array that is saved without pickling: numbers and text as they are, anything else as its text."""
    return values if values.dtype.kind in _PLAIN_KINDS else np.array([str(value) for value in values])


def refuse_alike(values: NDArray[Any]) -> None:
    """Refuse ids that cannot be told apart once they are written."""
    texts = portable_ids(values)
    _, first = np.unique(texts, return_index=True)
    if len(first) < len(texts):
        again = int(np.setdiff1d(np.arange(len(texts)), first)[0])
        raise InputError(f"id {_shown(values, again)} and another are both written to a file as {str(texts[again])!r}")


def _index(ids: NDArray[Any]) -> "pd.Index[Any]":
    import pandas as pd

    return pd.Index(ids, tupleize_cols=False)


def _shown(ids: NDArray[Any], position: int) -> str:
    return repr(ids[position : position + 1].tolist()[0])


def _id_array(ids: Any) -> NDArray[Any]:
    """Ids as an array of one dimension: numbers and text in their own type, everything else (tuples too) as objects."""
    array = as_numpy(ids) if hasattr(ids, "dtype") else _array_of_items(ids)
    if array.ndim != 1:
        raise InputError(f"ids must have one dimension, not shape {array.shape}")
    if array.dtype.kind == "O":
        _refuse_unhashable(array)
    return array


def _array_of_items(ids: Any) -> NDArray[Any]:
    try:
        items = list(ids)
    except TypeError:
        raise InputError(f"ids must be a list or an array, not {ids!r}") from None
    kinds = {type(item) for item in items}
    if len(kinds) == 1 and kinds <= {int, str, np.str_, np.int64, np.int32}:
        return np.asarray(items)
    return np.fromiter(items, dtype=object, count=len(items))


def _refuse_unhashable(ids: NDArray[Any]) -> None:
    for value in ids:
        try:
            hash(value)
        except TypeError:
            raise InputError(f"id {value!r} cannot be looked up: ids must be hashable") from None
