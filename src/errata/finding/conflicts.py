"""Samples with the very same inputs and different labels: whatever is right, not all of these labels are."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.readers import UserData
from errata.readers.stored_images import StoredImages

if TYPE_CHECKING:
    import pandas as pd

Groups = NDArray[np.int64]


def conflicts(data: UserData) -> "pd.DataFrame":
    """A row a sample that has a twin with another label: group (from 1), id and label, twins beside each other."""
    import pandas as pd

    rows = pd.DataFrame({"group": input_groups(data), "label": data.labels})
    labels = rows.groupby("group")["label"].transform("nunique").to_numpy()
    found = np.flatnonzero(labels > 1)
    numbers, _ = pd.factorize(rows["group"].to_numpy()[found])
    order = np.argsort(numbers, kind="stable")
    names = pd.Index(data.classes, tupleize_cols=False)
    return pd.DataFrame(
        {
            "group": numbers[order] + 1,
            "id": data.ids[found][order],
            "label": names.take(data.labels[found][order]),
        }
    )


def input_groups(data: UserData) -> Groups:
    """A number (N,) a sample, the same for two samples if and only if their inputs are the same."""
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
    """The array with one kind of zero: 0.0 and -0.0 are the same number in different bytes."""
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
    """What tells files apart; only those that share their size with another are read."""
    sizes = [path.stat().st_size for path in paths]
    alike = Counter(sizes)
    return [
        _file_digest(path) if alike[size] > 1 else (size, path.as_posix())
        for path, size in zip(paths, sizes, strict=True)
    ]


def _file_digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").digest()


def _numbered(keys: Iterable[Any]) -> Groups:
    numbers: dict[Any, int] = {}
    return np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), dtype=np.int64)
