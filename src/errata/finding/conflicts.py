"""Samples with identical inputs and different labels: at least one label of each group is wrong."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.readers import UserData
from errata.readers.image_files import StoredImages

if TYPE_CHECKING:
    import pandas as pd


def conflicts(data: UserData) -> "pd.DataFrame":
    """One row per sample with identical inputs and another label elsewhere: group (from 1), id, label, by group."""
    import pandas as pd

    rows = pd.DataFrame({"group": input_groups(data), "label": data.labels})
    labels = rows.groupby("group")["label"].transform("nunique").to_numpy()
    conflicting = np.flatnonzero(labels > 1)
    groups, _ = pd.factorize(rows["group"].to_numpy()[conflicting])
    order = np.argsort(groups, kind="stable")
    places = conflicting[order]
    names = pd.Index(data.classes, tupleize_cols=False).take(data.labels[places])
    return pd.DataFrame({"group": groups[order] + 1, "id": data.ids[places], "label": names})


def input_groups(data: UserData) -> NDArray[np.int64]:
    """Group numbers (N,): equal if and only if the inputs are identical."""
    inputs = data.inputs
    if hasattr(inputs, "columns"):
        treatments = {name: data.columns.get(str(name), "left out") for name in inputs.columns}
        used = [name for name, how in treatments.items() if not how.startswith(("id", "label", "left out"))]
        groups: NDArray[np.int64] = inputs.groupby(used, sort=False, dropna=False, observed=True).ngroup().to_numpy()
        return groups
    numbers: dict[Any, int] = {}
    return np.fromiter((numbers.setdefault(key, len(numbers)) for key in _keys(data)), dtype=np.int64)


def _keys(data: UserData) -> Iterable[Any]:
    """A key per sample, equal for identical inputs."""
    if data.root is not None:
        return _file_keys([data.root / path for path in data.inputs.tolist()])
    if isinstance(data.inputs, StoredImages):
        return data.inputs.digests()
    if hasattr(data.inputs, "indptr"):
        return _sparse_keys(data.inputs)
    array = data.inputs
    return (_digest(row) for row in (array + 0 if array.dtype.kind == "f" else array))  # -0.0 becomes 0.0


def _digest(row: NDArray[Any]) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=16).digest()


def _sparse_keys(matrix: Any) -> Iterable[bytes]:
    canonical = matrix.copy()
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    for start, stop in pairwise(canonical.indptr.tolist()):
        yield _digest(canonical.indices[start:stop].astype(np.int64)) + _digest(canonical.data[start:stop])


def _file_keys(paths: list[Path]) -> Iterable[Any]:
    """Hashes of files. Only files of the same size as another are read."""
    sizes = [path.stat().st_size for path in paths]
    counts = Counter(sizes)
    for path, size in zip(paths, sizes, strict=True):
        if counts[size] == 1:
            yield size
        else:
            with path.open("rb") as file:
                yield hashlib.file_digest(file, "blake2b").digest()
