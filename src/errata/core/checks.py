"""Refuse bad input before any work starts, in one sentence that says what is wrong and where."""

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.errors import InputError

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]

_ROWS_LOOKED_AT = 1000


def is_tensor(array: object) -> bool:
    """Whether `array` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def as_numpy(array: Any) -> NDArray[Any]:
    """Any array-like as numpy; a tensor comes to the CPU in one transfer, bfloat16 as float32."""
    if is_tensor(array):
        tensor = array.detach()
        if tensor.dtype is sys.modules["torch"].bfloat16:
            tensor = tensor.float()
        on_cpu: NDArray[Any] = tensor.cpu().numpy()
        return on_cpu
    return np.asarray(array)


def check_labels(labels: ArrayLike, num_classes: int | None, classes: Sequence[Any] | None = None) -> Labels:
    """Given labels as column numbers 0..K-1, shape (N,). `classes` names the columns, so that labels may be names.

    Without `num_classes` the columns are not known yet, and any class number will do.
    """
    given = as_numpy(labels)
    if given.ndim != 1:
        raise InputError(f"labels must have shape (N,), not {given.shape}")
    return _class_numbers(given, num_classes) if classes is None else _encode(given, num_classes, list(classes))


def _class_numbers(given: NDArray[Any], num_classes: int | None) -> Labels:
    if given.dtype.kind in "USO" and len(given):
        raise InputError(
            f"labels are names (the first is {given.tolist()[0]!r}) but logits only have numbered columns; "
            "pass classes=[...] with the names in the order of the columns"
        )
    if given.dtype.kind not in "biuf":
        raise InputError(f"labels must be class numbers, not {given.dtype}")
    if given.dtype.kind == "f":
        _refuse_labels(given, ~np.isfinite(given) | (given != np.floor(given)), "not a class number")
    if num_classes is None:
        _refuse_labels(given, given < 0, "below 0, where class numbers start")
    else:
        _refuse_labels(given, (given < 0) | (given >= num_classes), f"outside 0..{num_classes - 1}")
    return np.ascontiguousarray(given, dtype=np.int64)


def _encode(given: NDArray[Any], num_classes: int | None, names: list[Any]) -> Labels:
    if num_classes is not None and len(names) != num_classes:
        raise InputError(f"classes has {len(names)} names but the logits have {num_classes} columns")
    column = {name: number for number, name in enumerate(names)}
    if len(column) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise InputError(f"class {repeated!r} is named twice in classes")
    encoded = np.array([column.get(name, -1) for name in given.tolist()], dtype=np.int64)
    _refuse_labels(given, encoded < 0, "which is not in classes: labels are the names themselves")
    return encoded


def _refuse_labels(given: NDArray[Any], refused: NDArray[np.bool_], why: str) -> None:
    if refused.any():
        row = int(np.argmax(refused))
        raise InputError(f"label of sample {row} is {given[row : row + 1].tolist()[0]!r}, {why}")


def check_seed(seed: object) -> int:
    """A seed that numpy takes: a whole number, not below 0."""
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"seed must be a whole number, 0 or above, not {seed!r}")
    return int(seed)


def check_scores(scores: ArrayLike) -> Floats:
    """Scores as float64 of shape (N,), none of them NaN."""
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
        raise InputError(
            f"{name} must have shape (samples, classes) or (epochs, samples, classes), not {checked.shape}"
        )
    if 0 in checked.shape:
        raise InputError(f"{name} are empty: shape {checked.shape}")
    if checked.shape[-1] < 2:
        raise InputError(
            f"{name} have one column only; label errors need at least two classes "
            "(for a single binary logit z pass the pair (0, z))"
        )
    return checked


def warn_if_probabilities(logits: NDArray[Any]) -> None:
    """Warn when logits (N, K) look like probabilities: softmax would be applied to them a second time."""
    rows = _some_finite_rows(logits)
    if len(rows) and rows.min() >= 0 and np.allclose(rows.sum(axis=1), 1, atol=1e-3):
        warnings.warn(
            "these rows sum to one: they look like probabilities, not logits; pass logits, or np.log(p) of them",
            stacklevel=3,
        )


def warn_if_softmax_twice(logits: NDArray[Any]) -> None:
    """Warn when logits (N, K) of a trained model look like the logarithm of a softmax of probabilities.

    Probabilities are at most 1 apart, so their softmax hardly tells classes apart; nor does an untrained model.
    """
    rows = _some_finite_rows(logits)
    if len(rows) > 1 and (np.ptp(rows, axis=1) <= 1).all() and np.allclose(np.exp(rows).sum(axis=1), 1, atol=1e-3):
        warnings.warn(
            "these look like the logarithm of a softmax applied twice: no class is over e times as likely as another",
            stacklevel=3,
        )


def _some_finite_rows(logits: NDArray[Any]) -> Floats:
    rows = np.asarray(logits[:_ROWS_LOOKED_AT], dtype=np.float64)
    return rows[np.isfinite(rows).all(axis=1)]
