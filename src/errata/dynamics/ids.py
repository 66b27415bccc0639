"""Sample ids of any type, and the rows that they belong to."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import as_numpy
from errata.errors import InputError

Rows = NDArray[np.int64]
_PLAIN_KINDS = "iufbUS"


class SampleIds:
    """The ids of N samples and the row of each. Without ids, the id of a sample is its row."""

    def __init__(self, ids: Any | None, samples: int) -> None:
        self._numbered = ids is None
        self.values: NDArray[Any] = np.arange(samples) if ids is None else _id_array(ids)
        if len(self.values) != samples:
            raise InputError(f"there are {len(self.values)} ids for {samples} labels")
        if self._numbered:
            return
        names = self.values.tolist()
        self._rows = {name: row for row, name in enumerate(names)}
        for row in (row for row, name in enumerate(names) if isinstance(name, float) and name != name):
            raise InputError(f"the id of sample {row} is nan; every sample needs an id of its own")
        if len(self._rows) < len(names):
            twice = next(row for row, name in enumerate(names) if self._rows[name] != row)
            raise InputError(f"two samples have the id {self.name(twice)}")

    def rows(self, ids: Any) -> Rows:
        """Rows (n,) of the ids, which may be a tensor, an array or a list; refuses an unknown id.

        Without ids, the numbers are returned as they are; `refuse_unknown` checks their range.
        """
        if self._numbered:
            return self._numbered_rows(as_numpy(ids, "ids"))
        batch = ids if isinstance(ids, list) else _id_array(ids).tolist()
        try:
            return np.fromiter(map(self._rows.__getitem__, batch), np.int64, len(batch))
        except KeyError as unknown:
            raise InputError(f"unknown id {unknown.args[0]!r}") from None
        except TypeError:
            _refuse_unhashable(batch)
            raise

    def refuse_unknown(self, rows: Rows) -> None:
        """Refuse rows outside 0..N-1."""
        outside = (rows < 0) | (rows >= len(self.values))
        if outside.any():
            raise InputError(f"unknown id {_shown(rows, int(np.argmax(outside)))}: {self._numbers}")

    def _numbered_rows(self, ids: NDArray[Any]) -> Rows:
        if ids.ndim != 1:
            raise InputError(f"ids of a batch must have shape (n,), not {ids.shape}")
        if len(ids) and ids.dtype.kind not in "iu":
            raise InputError(f"unknown id {_shown(ids, 0)}: the run has no ids, so its {self._numbers}")
        if ids.dtype == np.uint64 and len(ids) and ids.max() > np.iinfo(np.int64).max:
            raise InputError(f"unknown id {ids.max()}: {self._numbers}")  # would be negative as int64
        return ids.astype(np.int64, copy=False)

    @property
    def _numbers(self) -> str:
        return f"samples are numbered 0..{len(self.values) - 1}"

    def name(self, row: int) -> str:
        """The id of a row, for messages."""
        return _shown(self.values, row)


def portable_ids(values: NDArray[Any]) -> NDArray[Any]:
    """Ids as an array that can be saved without pickle: numbers and text as they are, other types as text."""
    return values if values.dtype.kind in _PLAIN_KINDS else np.array([str(value) for value in values])


def match_ids(known: NDArray[Any], ids: NDArray[Any]) -> Rows:
    """The position (n,) of each of `ids` among `known`, both compared as text: files may turn numbers into text."""
    import pandas as pd

    places = pd.Index(np.asarray(known).astype(str)).get_indexer(pd.Index(np.asarray(ids).astype(str)))
    if (places < 0).any():
        missing = np.asarray(ids)[int(np.argmax(places < 0))]
        raise InputError(f"sample {missing} is ranked but not in the data: give the data that were ranked")
    return np.asarray(places, dtype=np.int64)


def refuse_same_text(values: NDArray[Any]) -> None:
    """Refuse different ids that are written to a file as the same text."""
    texts = portable_ids(values)
    _, first = np.unique(texts, return_index=True)
    if len(first) < len(texts):
        again = int(np.setdiff1d(np.arange(len(texts)), first)[0])
        raise InputError(f"id {_shown(values, again)} and another are both written to a file as {str(texts[again])!r}")


def _shown(ids: NDArray[Any], position: int) -> str:
    return repr(ids[position : position + 1].tolist()[0])


def _id_array(ids: Any) -> NDArray[Any]:
    """Ids as an array (n,): numbers and text in their own type, others (also tuples) as objects."""
    array = as_numpy(ids, "ids") if hasattr(ids, "dtype") else _array_of_items(ids)
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


def _refuse_unhashable(ids: Iterable[Any]) -> None:
    for value in ids:
        try:
            hash(value)
        except TypeError:
            raise InputError(f"id {value!r} cannot be looked up: ids must be hashable") from None
