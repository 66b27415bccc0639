"""Checks of arrays that users pass. An InputError says what is wrong, and in which sample."""

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.errors import InputError
from errata.wording import one_line

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]

_CHECKED_ROWS = 1000


def is_tensor(array: object) -> bool:
    """Whether `array` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def as_numpy(array: Any) -> NDArray[Any]:
    """Any array-like as a numpy array; a tensor is copied to the CPU, bfloat16 as float32."""
    if is_tensor(array):
        tensor = array.detach()
        if tensor.dtype is sys.modules["torch"].bfloat16:
            tensor = tensor.float()
        on_cpu: NDArray[Any] = tensor.cpu().numpy()
        return on_cpu
    return np.asarray(array)


def check_labels(labels: ArrayLike, num_classes: int | None, classes: Sequence[Any] | None = None) -> Labels:
    """Labels (N,) as column numbers 0..K-1. With `classes`, the names of the columns, labels are names.

    num_classes=None: any class number is accepted.
    """
    array = as_numpy(labels)
    if array.ndim != 1:
        raise InputError(f"labels must have shape (N,), not {array.shape}")
    return _class_numbers(array, num_classes) if classes is None else _encode(array, num_classes, list(classes))


def _class_numbers(array: NDArray[Any], num_classes: int | None) -> Labels:
    if array.dtype.kind in "USO" and len(array):
        raise InputError(
            f"labels are names (the first is {array.tolist()[0]!r}), but the columns of logits have numbers; "
            "pass classes=[...] with the names in the order of the columns"
        )
    if array.dtype.kind not in "biuf":
        raise InputError(f"labels must be class numbers, not {array.dtype}")
    if array.dtype.kind == "f":
        _refuse_labels(array, ~np.isfinite(array) | (array != np.floor(array)), "not a class number")
    if num_classes is None:
        _refuse_labels(array, array < 0, "below 0")
    else:
        _refuse_labels(array, (array < 0) | (array >= num_classes), f"outside 0..{num_classes - 1}")
    return np.ascontiguousarray(array, dtype=np.int64)


def _encode(array: NDArray[Any], num_classes: int | None, names: list[Any]) -> Labels:
    if num_classes is not None and len(names) != num_classes:
        raise InputError(f"classes has {len(names)} names but the logits have {num_classes} columns")
    column = {name: number for number, name in enumerate(names)}
    if len(column) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise InputError(f"class {repeated!r} is twice in classes")
    encoded = np.array([column.get(name, -1) for name in array.tolist()], dtype=np.int64)
    _refuse_labels(array, encoded < 0, "which is not in classes; with classes, labels are names")
    return encoded


def _refuse_labels(array: NDArray[Any], refused: NDArray[np.bool_], why: str) -> None:
    if refused.any():
        row = int(np.argmax(refused))
        raise InputError(f"label of sample {row} is {array[row : row + 1].tolist()[0]!r}, {why}")


def rows_by_class(labels: NDArray[Any], num_classes: int) -> list[NDArray[np.intp]]:
    """The rows of each class, ascending."""
    by_class = np.argsort(labels, kind="stable")
    return np.split(by_class, np.cumsum(np.bincount(labels, minlength=num_classes))[:-1])


def check_seed(seed: object) -> int:
    """A seed: a whole number from 0 to 2^63 - 1."""
    return check_whole("seed", seed, 0)


def check_whole(name: str, value: object, least: int) -> int:
    """A whole number from `least` to 2^63 - 1."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value < 2**63:
        shown = one_line(repr(value))
        raise InputError(f"{name} must be a whole number, {least} or above and below 2^63, not {shown}")
    return int(value)


def check_scores(scores: ArrayLike) -> Floats:
    """Scores (N,) as float64, without NaN."""
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
    """Logits (..., N, K) of a float type with at least two classes; their values are checked when they are read."""
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
            f"{name} have one column; at least two classes are needed "
            "(for a single binary logit z pass the pair (0, z))"
        )
    return checked


def check_points(name: str, array: Any | None, samples: int) -> NDArray[Any] | None:
    """Points (N, D) in which neighbours are searched, checked."""
    checked = check_aligned(name, array, samples)
    if checked is not None and (checked.ndim != 2 or checked.dtype.kind not in "fiu"):
        raise InputError(f"{name} must be numbers of shape ({samples}, D), not {checked.dtype} {checked.shape}")
    return checked


def check_aligned(name: str, array: Any | None, samples: int, columns: int | None = None) -> NDArray[Any] | None:
    """An array with one row per sample, of numbers or text; with `columns`, finite logits (N, columns)."""
    if array is None:
        return None
    checked = array if isinstance(array, np.ndarray) else as_numpy(array)
    if checked.shape[:1] != (samples,) or (columns is not None and checked.shape != (samples, columns)):
        shape = f"({samples}, {columns})" if columns else f"({samples}, ...)"
        raise InputError(f"{name} must have shape {shape}, not {checked.shape}")
    if checked.dtype.hasobject or (columns is not None and checked.dtype.kind not in "fiu"):
        raise InputError(f"{name} must be numbers, not {checked.dtype}")
    if columns is not None and not np.isfinite(checked).all():
        row = int(np.argmin(np.isfinite(checked).all(axis=1)))
        raise InputError(f"{name} of sample {row} are not finite")
    return checked


def warn_if_probabilities(logits: NDArray[Any]) -> None:
    """Warn if logits (N, K) look like probabilities: softmax would be applied twice."""
    rows = _some_finite_rows(logits)
    if len(rows) and rows.min() >= 0 and np.allclose(rows.sum(axis=1), 1, atol=1e-3):
        warnings.warn(
            "these rows sum to one: they look like probabilities, not logits; pass logits or np.log(p)",
            stacklevel=3,
        )


def warn_if_softmax_twice(logits: NDArray[Any]) -> None:
    """Warn if logits (N, K) of a trained model look like the logarithm of a softmax of probabilities.

    Probabilities differ by at most 1, so their softmax is nearly uniform. So are the outputs of an untrained model.
    """
    rows = _some_finite_rows(logits)
    if len(rows) > 1 and (np.ptp(rows, axis=1) <= 1).all() and np.allclose(np.exp(rows).sum(axis=1), 1, atol=1e-3):
        warnings.warn(
            "these look like the logarithm of a softmax applied twice: no class is over e times as likely as another",
            stacklevel=3,
        )


def _some_finite_rows(logits: NDArray[Any]) -> Floats:
    rows = np.asarray(logits[:_CHECKED_ROWS], dtype=np.float64)
    return rows[np.isfinite(rows).all(axis=1)]
