"""Checks of arrays that users pass. An InputError says what is wrong, and in which sample."""

import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.errors import InputError
from errata.wording import counted, one_line

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]

_CHECKED_ROWS = 1000
_FEWEST_ROWS, _FEWEST_SIGMOIDS = 3, 20  # fewer rows may have the same sum, and fewer values be near 0 and 1, by chance


def is_tensor(array: object) -> bool:
    """Whether `array` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def as_numpy(array: Any, name: str = "the array") -> NDArray[Any]:
    """Any array-like as a numpy array; a tensor is copied to the CPU, with float32 for types that numpy lacks.

    Refuses masked values, and tensors that hold no values or not one per element.
    """
    if type(array) in (np.ndarray, np.memmap):
        return array  # type: ignore[no-any-return]
    if is_tensor(array):
        return _from_tensor(array, name)
    if isinstance(array, list | tuple) and any(isinstance(item, np.ma.MaskedArray) for item in array):
        array = np.ma.array(array)
    if isinstance(array, np.ma.MaskedArray):
        _refuse_masked(array, name)
        array = array.data
    try:
        return np.asarray(array)
    except ValueError as error:  # rows of different lengths
        raise InputError(f"{name} cannot be read as an array: {one_line(error)}") from None


def _refuse_masked(array: Any, name: str) -> None:
    masked = np.argwhere(np.ma.getmaskarray(array))
    if len(masked):
        raise InputError(f"{name}: the value at {masked[0].tolist()} is masked; drop or fill masked values")


def _from_tensor(tensor: Any, name: str) -> NDArray[Any]:
    torch = sys.modules["torch"]
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        raise InputError(f"{name}: the parameter is not initialised and holds no values")
    if tensor.is_nested:
        raise InputError(f"{name}: a nested tensor has no shape; pass a padded or stacked one")
    if tensor.is_meta:
        raise InputError(f"{name}: a tensor on the device 'meta' holds no values")
    if tensor.layout is not torch.strided:
        raise InputError(f"{name}: the tensor is sparse; pass tensor.to_dense()")
    sharded = sys.modules.get("torch.distributed.tensor")
    if sharded is not None and isinstance(tensor, sharded.DTensor):
        raise InputError(
            f"{name}: the tensor is distributed over ranks (DTensor), and this rank holds only a part of it; "
            "pass tensor.full_tensor()"
        )
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.is_floating_point() and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        tensor = tensor.float()  # bfloat16 and float8
    try:
        on_cpu: NDArray[Any] = tensor.cpu().resolve_conj().resolve_neg().numpy()
    except TypeError as error:
        raise InputError(f"{name}: a tensor of {tensor.dtype} cannot be read: {one_line(error)}") from None
    return on_cpu


def check_classes(classes: Any, num_classes: int | None = None) -> tuple[Any, ...]:
    """The names of the columns of logits: distinct numbers, text or other hashable values."""
    try:
        names = None if isinstance(classes, str | bytes | Mapping) else tuple(classes)
    except TypeError:
        names = None
    if names is None:
        raise InputError(f"classes must be a list of names, not {one_line(repr(classes))}")
    if num_classes is not None and len(names) != num_classes:
        raise InputError(f"classes has {counted(len(names), 'name')}, but there are {num_classes} classes")
    first: dict[Any, int] = {}
    for number, name in enumerate(names):
        try:
            again = first.setdefault(name, number) != number
            missing = name is None or bool(name != name)
            str(name).encode()
        except UnicodeEncodeError:
            raise InputError(f"the name of class {number}, {name!r}, is not valid text") from None
        except TypeError:
            raise InputError(f"class {number} is {one_line(repr(name))}, not a number or text") from None
        if missing:
            raise InputError(f"class {number} has no name, but {name!r}")
        if again:
            raise InputError(f"class {name!r} is twice in classes")
    return names


def check_labels(labels: ArrayLike, num_classes: int | None, classes: Sequence[Any] | None = None) -> Labels:
    """Labels (N,) as column numbers 0..K-1. With `classes`, the names of the columns, labels are names.

    num_classes=None: any class number is accepted.
    """
    array = as_numpy(labels, "labels")
    if array.ndim != 1:
        raise InputError(f"labels must have shape (N,), not {array.shape}")
    return _class_numbers(array, num_classes) if classes is None else _encode(array, num_classes, classes)


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


def _encode(array: NDArray[Any], num_classes: int | None, names: Sequence[Any]) -> Labels:
    column = {name: number for number, name in enumerate(check_classes(names, num_classes))}
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
    checked = as_numpy(scores, "scores")
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
    checked = as_numpy(logits, name)
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


def check_points(name: str, array: Any | None, samples: int, *, finite: bool = True) -> NDArray[Any] | None:
    """Points (N, D) in which neighbours are searched, checked. finite: read all values and refuse NaN and infinity."""
    checked = check_aligned(name, array, samples)
    if checked is None:
        return None
    if checked.ndim != 2 or not checked.shape[1] or checked.dtype.kind not in "fiu":
        raise InputError(f"{name} must be numbers of shape ({samples}, D), not {checked.dtype} {checked.shape}")
    if finite:
        _refuse_not_finite(name, checked)
    return checked


def check_aligned(name: str, array: Any | None, samples: int, columns: int | None = None) -> NDArray[Any] | None:
    """An array with one row per sample, of numbers or text; with `columns`, finite logits (N, columns)."""
    if array is None:
        return None
    checked = as_numpy(array, name)
    if checked.shape[:1] != (samples,) or (columns is not None and checked.shape != (samples, columns)):
        shape = f"({samples}, {columns})" if columns else f"({samples}, ...)"
        raise InputError(f"{name} must have shape {shape}, not {checked.shape}")
    if checked.dtype.hasobject or (columns is not None and checked.dtype.kind not in "fiu"):
        raise InputError(f"{name} must be numbers, not {checked.dtype}")
    if columns is not None:
        _refuse_not_finite(name, checked)
    return checked


def _refuse_not_finite(name: str, array: NDArray[Any]) -> None:
    for start in range(0, len(array), _CHECKED_ROWS):
        finite = np.isfinite(array[start : start + _CHECKED_ROWS]).all(axis=1)
        if not finite.all():
            raise InputError(f"{name} of sample {start + int(np.argmin(finite))} are not finite")


def warn_if_probabilities(logits: NDArray[Any], epoch: int | None = None) -> bool:
    """Warn if logits (N, K) look like outputs of a softmax or a sigmoid, which would be applied again; True if so.

    epoch: the number of the epoch, for the message.
    """
    if (logits[:_CHECKED_ROWS] < 0).any():
        return False
    rows = _some_finite_rows(logits)
    if len(rows) < _FEWEST_ROWS:
        return False
    sums = rows.sum(axis=1)
    rounding = rows.shape[1] / 2 if (rows == rows.round()).all() else 1.0
    if np.allclose(sums, 1, atol=1e-3):
        seen = "rows sum to one: they look like probabilities, not logits; pass logits or np.log(p)"
    elif np.allclose(sums, 100, rtol=0, atol=rounding):
        seen = "rows sum to 100: they look like percentages, not logits; pass logits or np.log(p)"
    elif _looks_like_sigmoid(rows):
        seen = "values look like outputs of a sigmoid, not logits; pass logits or np.log(p / (1 - p))"
    else:
        return False
    warnings.warn(f"these {seen}" if epoch is None else f"epoch {epoch}: these {seen}", stacklevel=3)
    return True


def _looks_like_sigmoid(rows: Floats) -> bool:
    """Whether all values are between 0 and 1, and most of them near 0 or 1, as after some training.

    Columns of one value do not count: the logits of a binary model are (0, z).
    """
    values = rows[:, np.ptp(rows, axis=0) > 0]
    if values.size < _FEWEST_SIGMOIDS or not (values.min() < 0.1 and 0.9 < values.max() <= 1):
        return False
    return bool(np.median(np.minimum(values, 1 - values)) < 0.15)  # 0.25 if they were evenly distributed


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
