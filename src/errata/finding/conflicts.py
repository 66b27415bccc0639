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

Groups = NDArray[np.int64]


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


def input_groups(data: UserData) -> Groups:
    """Group numbers (N,): equal if and only if the inputs are identical."""
    inputs = data.inputs
    if data.root is not None:
        return _numbered(_file_digests([data.root / path for path in inputs.tolist()]))
    if isinstance(inputs, StoredImages):
        return _numbered(inputs.digests())
    if isinstance(inputs, np.ndarray):
        return _numbered(_digest(row) for row in _plain_zeros(inputs))
    if hasattr(inputs, "indptr"):
        return _numbered(_sparse_digests(inputs))
    used = [name for name in inputs.columns if _is_input(data.columns.get(str(name), ""))]
    groups: Groups = inputs.groupby(used, sort=False, dropna=False, observed=True).ngroup().to_numpy()
    return groups


def _is_input(treatment: str) -> bool:
    return bool(treatment) and treatment not in ("id", "label") and not treatment.startswith("left out")


def _plain_zeros(array: NDArray[Any]) -> NDArray[Any]:
    """The array with -0.0 replaced by 0.0, which has other bytes."""
    return array + 0 if array.dtype.kind == "f" else array


def _digest(row: NDArray[Any]) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=16).digest()


def _sparse_digests(matrix: Any) -> Iterable[bytes]:
    canonical = matrix.copy()
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    for start, stop in pairwise(canonical.indptr.tolist()):
        yield _digest(canonical.indices[start:stop].astype(np.int64)) + _digest(canonical.data[start:stop])


def _file_digests(paths: list[Path]) -> list[Any]:
    """A key per file. Only files of the same size as another are read."""
    sizes = [path.stat().st_size for path in paths]
    counts = Counter(sizes)
    return [
        _file_digest(path) if counts[size] > 1 else (size, path.as_posix())
        for path, size in zip(paths, sizes, strict=True)
    ]


def _file_digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").digest()


def _numbered(keys: Iterable[Any]) -> Groups:
    numbers: dict[Any, int] = {}
    return np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), dtype=np.int64)
