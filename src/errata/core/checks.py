"""Refuse bad input before any work starts, in one sentence that says what is wrong and where."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.errors import InputError

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]


def is_tensor(array: object) -> bool:
    """Whether `array` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def as_numpy(array: Any) -> NDArray[Any]:
    """Any array-like as numpy; a tensor comes to the CPU in one transfer, bfloat16 as float32."""
    if is_tensor(array):
        tensor = array.detach()
        if str(tensor.dtype) == "torch.bfloat16":
            tensor = tensor.float()
        return np.asarray(tensor.cpu().numpy())
    return np.asarray(array)


def check_labels(labels: ArrayLike, num_classes: int, classes: Sequence[Any] | None = None) -> Labels:
    """Given labels as column numbers 0..K-1, shape (N,). `classes` names the columns, so that labels may be names."""
    given = as_numpy(labels)
    if given.ndim != 1:
        raise InputError(f"labels must have shape (N,), not {given.shape}")
    if classes is not None:
        return _encode(given, num_classes, classes)
    if given.dtype.kind == "b":
        given = given.astype(np.int64)
    if given.dtype.kind == "f" and len(given):
        broken = ~np.isfinite(given) | (given != np.floor(given))
        if broken.any():
            row = int(np.flatnonzero(broken)[0])
            raise InputError(f"label of sample {row} is {given[row]}, not a class number")
        given = given.astype(np.int64)
    if given.dtype.kind not in "iu":
        raise InputError(
            f"labels must be class numbers 0..{num_classes - 1}, but the first is {given[0]!r}"
            if len(given)
            else "labels are empty"
        ) if not (given.dtype.kind in "USO" and len(given)) else InputError(
            f"labels are names (the first is {str(given[0])!r}) but logits only have numbered columns; "
            "pass classes=[...] with the names in the order of the columns"
        )
    if len(given) and (given.min() < 0 or given.max() >= num_classes):
        row = int(np.flatnonzero((given < 0) | (given >= num_classes))[0])
        raise InputError(f"label of sample {row} is {given[row]}, outside 0..{num_classes - 1}")
    return np.ascontiguousarray(given, dtype=np.int64)


def _encode(given: NDArray[Any], num_classes: int, classes: Sequence[Any]) -> Labels:
    names = list(classes)
    if len(names) != num_classes:
        raise InputError(f"classes has {len(names)} names but the logits have {num_classes} columns")
    number = {name: column for column, name in enumerate(names)}
    if len(number) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise InputError(f"class {repeated!r} is named twice in classes")
    distinct, inverse = np.unique(given, return_inverse=True)
    values = distinct.tolist()
    for value in values:
        if value not in number:
            row = int(np.flatnonzero(given == value)[0])
            raise InputError(f"label of sample {row} is {value!r}, which is not in classes")
    return np.array([number[value] for value in values], dtype=np.int64)[inverse.reshape(given.shape)]


def check_scores(scores: ArrayLike) -> Floats:
    """Scores as float64 of shape (N,), finite."""
    checked = as_numpy(scores)
    if checked.ndim != 1:
        raise InputError(f"scores must have shape (N,), not {checked.shape}")
    if not len(checked):
        raise InputError("scores are empty")
    checked = np.asarray(checked, dtype=np.float64)
    if np.isnan(checked).any():
        raise InputError(f"score of sample {int(np.flatnonzero(np.isnan(checked))[0])} is NaN")
    return checked


def check_logits(logits: Any, name: str = "logits") -> NDArray[Any]:
    """Logits with at least two classes on the last axis, of a float type; values are checked as they are read."""
    checked = logits if isinstance(logits, np.ndarray) else as_numpy(logits)
    if checked.dtype.kind in "iu":
        checked = checked.astype(np.float64)
    if checked.dtype.kind != "f":
        raise InputError(f"{name} must be numbers, not {checked.dtype}")
    if checked.ndim < 2:
        raise InputError(f"{name} must have shape (samples, classes) or (epochs, samples, classes), not {checked.shape}")
    if 0 in checked.shape:
        raise InputError(f"{name} are empty: shape {checked.shape}")
    if checked.shape[-1] < 2:
        raise InputError(
            f"{name} have one column only; label errors need at least two classes "
            "(for a single binary logit z pass the pair (0, z))"
        )
    return checked
