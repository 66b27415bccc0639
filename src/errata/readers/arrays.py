"""Arrays of inputs and labels as user data: numpy, torch, scipy sparse, lists of text."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import as_numpy
from errata.errors import InputError
from errata.memory import check_fits
from errata.readers.columns import LARGEST
from errata.readers.data_frames import from_frame, is_name, refuse_column_names
from errata.readers.features import dense_features, sparse_features
from errata.readers.label_encoding import EncodedLabels, encode_labels, plain_array, sample_ids
from errata.readers.user_data import UserData
from errata.wording import counted, listed

if TYPE_CHECKING:
    import pandas as pd

INPUT_NAMES = ("X", "inputs", "data", "images", "x")
LABEL_NAMES = ("y", "labels", "target")
MIN_IMAGE_SIDE = 16  # pixels; smaller images are too small for convolutions and are read as tables
CHANNELS = (1, 3, 4)
BLOCK_BYTES = 1 << 26


def from_arrays(inputs: Any, labels: Any, id: Any = None, text: Any = None, ignore: Any = None) -> UserData:  # noqa: A002
    """User data from inputs of N samples and labels (N,).

    Data frames and arrays of objects are tables. Text (N,) is a table with one column. Numbers are a table (N, D) or
    images (N, H, W), (N, H, W, C) or (N, C, H, W) of whole numbers from 0 to 255 or fractions from 0 to 1.
    """
    frame = _as_table(inputs)
    if frame is not None:
        return from_frame(frame, labels, text, id, ignore, origin="the inputs")
    refuse_column_names("the inputs are an array", text=text, ignore=ignore)
    sparse = hasattr(inputs, "tocsr")
    values = inputs.tocsr() if sparse else _as_array(inputs)
    if values.ndim < 2 or not values.shape[0] or values.dtype.kind not in "biuf":
        raise InputError(f"Inputs must be numbers (N, D), images or text (N,), not {values.dtype} {values.shape}")
    _check_length(labels, "labels", values.shape[0])
    if id is not None:
        _check_length(id, "ids", values.shape[0])
    encoded = encode_labels(labels, "the list of labels")
    ids = sample_ids(id, "the list of ids", encoded.rows)
    if len(encoded.rows) < values.shape[0]:
        values = values[encoded.rows]
    if sparse:
        return _sparse_table(values, encoded, ids)
    _check_finite(values, encoded.rows)
    pixels = _as_images(values)
    return _table(values, encoded, ids) if pixels is None else _images(pixels, values, encoded, ids)


def from_named(
    arrays: Mapping[str, Any],
    label: Any,
    id: Any,  # noqa: A002
    origin: str,
    text: Any = None,
    ignore: Any = None,
) -> UserData:
    """User data from named arrays: a .npz file or a dataset of scikit-learn."""
    inputs = _find_array(arrays, INPUT_NAMES, origin, "inputs")
    if label is None or is_name(label):
        label = _find_array(arrays, LABEL_NAMES if label is None else (str(label),), origin, "labels")
        label = _class_names(label, arrays.get("target_names"))
    if is_name(id):
        id = _find_array(arrays, (str(id),), origin, "ids")  # noqa: A001
    return from_arrays(inputs, label, id, text, ignore)


def _find_array(arrays: Mapping[str, Any], names: tuple[str, ...], origin: str, role: str) -> Any:
    for name in names:
        if name in arrays:
            return arrays[name]
    available = listed(arrays) or "no arrays"
    raise InputError(f"{origin} has no {role} named {' or '.join(map(repr, names))}. It has {available}")


def _class_names(labels: Any, names: Any) -> Any:
    """Class numbers replaced by the class names of a scikit-learn dataset, if they fit."""
    numbers = as_numpy(labels)
    if names is None or numbers.dtype.kind not in "iu" or not len(numbers):
        return labels
    if numbers.min() < 0 or numbers.max() >= len(names) or len(set(names)) < len(names):
        return labels
    return [str(names[number]) for number in numbers.tolist()]


def _as_table(inputs: Any) -> "pd.DataFrame | None":
    """Inputs that are not plain numbers as a data frame: a list of text, an array of objects or records."""
    import pandas as pd

    if isinstance(inputs, pd.DataFrame):
        return inputs
    is_text = isinstance(inputs, list | tuple) and all(item is None or isinstance(item, str | bytes) for item in inputs)
    if isinstance(inputs, pd.Series) or (is_text and len(inputs)):
        return pd.DataFrame({"text": [_decoded(item) for item in inputs]})
    if hasattr(inputs, "tocsr"):
        return None
    array = _as_array(inputs)
    if array.dtype.names is not None:
        return pd.DataFrame(array)
    if array.ndim > 2 or array.dtype.kind not in "OUS":
        return None
    if array.ndim == 1:
        return pd.DataFrame({"text": [_decoded(item) for item in array.tolist()]})
    return pd.DataFrame(array.astype(object)).infer_objects()


def _as_array(inputs: Any) -> NDArray[Any]:
    """Inputs as a numpy array. Raise an error if rows have different shapes."""
    try:
        array = plain_array(inputs)
    except ValueError as error:
        sizes = [len(row) if hasattr(row, "__len__") else None for row in inputs]
        other = next((row for row, size in enumerate(sizes) if size != sizes[0]), None)
        if other is None and isinstance(error, InputError):  # such as a masked value
            raise
        where = "" if other is None else f"; row {other} differs from row 0"
        raise InputError(f"The rows of the inputs must have the same shape{where}") from error
    if not array.ndim:
        raise InputError(f"Inputs must be numbers (N, D), images or text (N,), not one {type(inputs).__name__}")
    return array


def _check_length(values: Any, role: str, samples: int) -> None:
    if not hasattr(values, "__len__") or getattr(values, "shape", None) == ():
        raise InputError(f"There must be one of the {role} per sample (N,), not one {type(values).__name__}")
    if len(values) != samples:
        raise InputError(f"There are {samples:,} inputs and {len(values):,} {role}")


def _decoded(item: Any) -> Any:
    return item.decode("utf-8", errors="replace") if isinstance(item, bytes) else item


def _table(values: NDArray[Any], encoded: EncodedLabels, ids: NDArray[Any]) -> UserData:
    remarks = []
    if values.ndim > 2:
        shape = " × ".join(map(str, values.shape[1:]))
        values = values.reshape(len(values), -1)
        remarks.append(
            f"inputs of {shape} are too small for images or not numbers from 0 to 255: "
            f"read as {values.shape[1]:,} columns"
        )
    varying = np.zeros(values.shape[1], dtype=np.bool_)
    for block in _blocks(values):
        varying |= (block != values[0]).any(axis=0)
    used = np.flatnonzero(varying)
    if not len(used):
        raise InputError("There is nothing to learn from: every column of the inputs is constant")
    constant = values.shape[1] - len(used)
    if constant:
        remarks.append(f"{counted(constant, 'column is', 'columns are')} constant and left out")
    columns = counted(len(used), "column of numbers", "columns of numbers")
    return _user_data("table", values, encoded, ids, columns, remarks, partial(dense_features, values, used))


def _sparse_table(values: Any, encoded: EncodedLabels, ids: NDArray[Any]) -> UserData:
    infinite = ~np.isfinite(values.data)
    if infinite.any():
        row = int(np.searchsorted(values.indptr, np.argmax(infinite), side="right")) - 1
        raise InputError(f"Row {encoded.rows[row]} of the inputs has a value that is not finite")
    columns = f"{counted(values.shape[1], 'column of numbers', 'columns of numbers')}, sparse"
    floats = values.astype(np.float32)
    return _user_data("table", floats, encoded, ids, columns, [], partial(sparse_features, floats))


def _images(pixels: NDArray[np.uint8], values: NDArray[Any], encoded: EncodedLabels, ids: NDArray[Any]) -> UserData:
    height, width = pixels.shape[2:]
    remarks = []
    if values.dtype.kind == "f" and pixels.max() > values.max():
        remarks.append("inputs from 0 to 1 are read as images and scaled to whole numbers from 0 to 255")
    return _user_data("images", pixels, encoded, ids, f"images of {width} × {height} pixels", remarks, None)


def _user_data(
    kind: Any, inputs: Any, encoded: EncodedLabels, ids: NDArray[Any], columns: str, remarks: list[str], fit: Any
) -> UserData:
    labels, all_remarks = (encoded.labels, encoded.classes), (*encoded.remarks, *remarks)
    return UserData(kind, inputs, *labels, ids, encoded.rows, {"inputs": columns}, all_remarks, fit_features=fit)


def _check_finite(values: NDArray[Any], rows: NDArray[np.int64]) -> None:
    """Raise an error for the first row with a missing, infinite or too large number."""
    if values.dtype.kind != "f":
        return
    start = 0
    for block in _blocks(values):
        usable = np.abs(block.astype(np.float64)) <= LARGEST  # False for NaN
        if not usable.all():
            row = rows[start + int(np.argmin(usable.reshape(len(block), -1).all(axis=1)))]
            raise InputError(
                f"Row {row} of the inputs has a value that is missing, infinite or larger than {LARGEST:.0e}. "
                "Missing values are supported in data frames"
            )
        start += len(block)


def _as_images(values: NDArray[Any]) -> NDArray[np.uint8] | None:
    """Images (N, 3, H, W) of uint8, or None if the values are not images."""
    if values.ndim == 3:
        values = values[..., None]
    elif values.ndim == 4 and values.shape[3] not in CHANNELS and values.shape[1] in CHANNELS:
        values = values.transpose(0, 2, 3, 1)
    if values.ndim != 4 or values.shape[3] not in CHANNELS or min(values.shape[1:3]) < MIN_IMAGE_SIDE:
        return None
    scale = _pixel_scale(values)
    if scale is None:
        return None
    samples, height, width, channels = values.shape
    check_fits(3.0 * samples * height * width, f"{samples:,} images of {width} × {height} pixels")
    pixels = np.empty((samples, 3, height, width), dtype=np.uint8)
    start = 0
    for block in _blocks(values):
        colours = block[..., :3] if channels > 1 else np.repeat(block, 3, axis=3)
        scaled = colours if scale == 1 else np.round(colours * scale)
        pixels[start : start + len(block)] = scaled.astype(np.uint8).transpose(0, 3, 1, 2)
        start += len(block)
    return pixels


def _pixel_scale(values: NDArray[Any]) -> float | None:
    """The factor to 0..255: 1 for whole numbers in that range, 255 for fractions from 0 to 1, None for others."""
    if values.dtype == np.uint8:
        return 1.0
    smallest, largest = values.min(), values.max()
    if smallest < 0 or largest > 255:
        return None
    if values.dtype.kind in "iu":
        return 1.0
    if largest <= 1:
        return 255.0
    return 1.0 if all((block == np.floor(block)).all() for block in _blocks(values)) else None


def _blocks(values: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Blocks of rows, so that intermediate results stay small."""
    rows = max(1, BLOCK_BYTES // max(1, 8 * int(np.prod(values.shape[1:]))))
    return (values[start : start + rows] for start in range(0, len(values), rows))
