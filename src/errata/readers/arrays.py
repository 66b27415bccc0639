"""Arrays of inputs and labels as a user's own data: numpy, torch, scipy-sparse, lists of text, and files of arrays."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import as_numpy
from errata.errors import DataError, InputError, MissingDataError
from errata.readers.columns import LARGEST
from errata.readers.features import dense_features, sparse_features
from errata.readers.label_encoding import Encoded, encode_labels, sample_ids
from errata.readers.memory import check_fits
from errata.readers.table_rows import from_frame, is_name
from errata.readers.user_data import UserData
from errata.wording import counted, listed, one_line

if TYPE_CHECKING:
    import pandas as pd

INPUT_NAMES = ("X", "inputs", "data", "images", "x")
LABEL_NAMES = ("y", "labels", "target")
SMALLEST_IMAGE = 16  # pixels a side: what is smaller is too small for convolutions, and taken as a table
CHANNELS = (1, 3, 4)
BYTES_AT_ONCE = 1 << 26


def from_arrays(inputs: Any, labels: Any, id: Any = None, text: Any = None) -> UserData:  # noqa: A002
    """Inputs of N samples and their labels (N,).

    A data frame and an array of objects are tables. Text (N,) is a table of one column. Numbers are a table (N, D) or
    images (N, H, W), (N, H, W, C) or (N, C, H, W) of whole numbers from 0 to 255 or fractions from 0 to 1.
    """
    frame = _as_frame(inputs)
    if frame is not None:
        return from_frame(frame, labels, text, id, origin="the inputs")
    if text is not None:
        raise InputError("text= names a column of a table, and these inputs have none")
    values = inputs.tocsr() if _is_sparse(inputs) else _as_array(inputs)
    if values.ndim < 2 or not values.shape[0] or values.dtype.kind not in "biuf":
        raise InputError(f"inputs must be numbers (N, D), images or text (N,), not {values.dtype} {values.shape}")
    _check_length(labels, "labels", values.shape[0])
    if id is not None:
        _check_length(id, "ids", values.shape[0])
    encoded = encode_labels(labels, "the list of labels")
    ids = sample_ids(id, encoded.rows, "the list of ids")
    if len(encoded.rows) < values.shape[0]:
        values = values[encoded.rows]
    if _is_sparse(inputs):
        return _sparse(values, encoded, ids)
    _refuse_infinite(values, encoded.rows)
    pixels = _as_images(values)
    return _table(values, encoded, ids) if pixels is None else _images(pixels, values, encoded, ids)


def from_named(arrays: Mapping[str, Any], label: Any, id: Any, text: Any, origin: str) -> UserData:  # noqa: A002
    """Arrays by name: what a .npz file or a dataset of scikit-learn holds."""
    inputs = _named(arrays, INPUT_NAMES, origin, "inputs")
    if label is None or is_name(label):
        label = _named(arrays, LABEL_NAMES if label is None else (str(label),), origin, "labels")
        label = _with_names(label, arrays.get("target_names"))
    if is_name(id):
        id = _named(arrays, (str(id),), origin, "ids")  # noqa: A001
    return from_arrays(inputs, label, id, text)


def read_npz(path: Path, label: Any, id: Any) -> UserData:  # noqa: A002
    """A .npz file with inputs and labels; `label` and `id` may name arrays in it."""
    with _reading(path), ZipFile(path) as packed:
        size = sum(member.file_size for member in packed.infolist())
    check_fits(size, f"the arrays in {path}")
    with _reading(path), np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    if not any(name in arrays for name in INPUT_NAMES):
        inputs = ", ".join(map(repr, INPUT_NAMES))
        raise InputError(
            f"{path} has neither inputs ({inputs}) nor a model's 'logits', for which the logarithm of probabilities "
            f"will do; {_held(arrays)}"
        )
    return from_named(arrays, label, id, None, str(path))


def read_npy(path: Path, label: Any, id: Any) -> UserData:  # noqa: A002
    """A .npy file of inputs, with labels given, or in a .npy file of their own."""
    if label is None:
        raise InputError(f"{path} holds no labels: name a .npy file of them with --label (label=, or give an array)")
    return from_arrays(_npy(path), *(_npy(Path(given)) if is_name(given) else given for given in (label, id)))


def _npy(path: Path) -> NDArray[Any]:
    if not path.is_file():
        raise MissingDataError(f"{path} is not there")
    with _reading(path):
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Name the file where what it holds is not whole, or not arrays."""
    try:
        yield
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise DataError(f"{path} cannot be read: {one_line(error)}") from error


def _named(arrays: Mapping[str, Any], names: tuple[str, ...], origin: str, role: str) -> Any:
    for name in names:
        if name in arrays:
            return arrays[name]
    raise InputError(f"{origin} has no {role} named {' or '.join(map(repr, names))}; {_held(arrays)}")


def _held(arrays: Mapping[str, Any]) -> str:
    return f"there are {listed(arrays)}" if arrays else "it holds nothing"


def _with_names(labels: Any, names: Any) -> Any:
    """Class numbers as the names that a dataset of scikit-learn has for them."""
    numbers = as_numpy(labels)
    if names is None or numbers.dtype.kind not in "iu" or not len(numbers):
        return labels
    if numbers.min() < 0 or numbers.max() >= len(names) or len(set(names)) < len(names):
        return labels
    return [str(names[number]) for number in numbers.tolist()]


def _as_frame(inputs: Any) -> "pd.DataFrame | None":
    """Inputs that are not plain numbers as a table: a data frame, a list of text, an array of objects or records."""
    import pandas as pd

    if isinstance(inputs, pd.DataFrame):
        return inputs
    if isinstance(inputs, pd.Series) or (isinstance(inputs, list | tuple) and _all_text(inputs)):
        return pd.DataFrame({"text": [_decoded(item) for item in inputs]})
    if _is_sparse(inputs):
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
    """Inputs as numpy; rows that are not alike, and what is no array at all, are refused."""
    try:
        array = as_numpy(inputs)
    except ValueError as error:
        sizes = [len(row) if hasattr(row, "__len__") else None for row in inputs]
        other = next((row for row, size in enumerate(sizes) if size != sizes[0]), None)
        where = "" if other is None else f", and row {other} is unlike the first"
        raise InputError(f"the rows of the inputs must have one shape{where}") from error
    if not array.ndim:
        raise InputError(f"inputs must be numbers (N, D), images or text (N,), not one {type(inputs).__name__}")
    return array


def _check_length(given: Any, role: str, samples: int) -> None:
    if not hasattr(given, "__len__"):
        raise InputError(f"{role} must be one a sample (N,), not one {type(given).__name__}")
    if len(given) != samples:
        raise InputError(f"there are {samples:,} inputs and {len(given):,} {role}")


def _all_text(items: Any) -> bool:
    return len(items) > 0 and all(item is None or isinstance(item, str | bytes) for item in items)


def _decoded(item: Any) -> Any:
    return item.decode("utf-8", errors="replace") if isinstance(item, bytes) else item


def _is_sparse(inputs: Any) -> bool:
    return hasattr(inputs, "tocsr")


def _table(values: NDArray[Any], encoded: Encoded, ids: NDArray[Any]) -> UserData:
    remarks = []
    if values.ndim > 2:
        shape = " × ".join(map(str, values.shape[1:]))
        values = values.reshape(len(values), -1)
        remarks.append(
            f"inputs of {shape} are no images of 0 to 255, or too small: taken as {values.shape[1]:,} columns"
        )
    varying = np.zeros(values.shape[1], dtype=np.bool_)
    for block in _blocks(values):
        varying |= (block != values[0]).any(axis=0)
    used = np.flatnonzero(varying)
    if not len(used):
        raise InputError("there is nothing to learn from: every column of the inputs is constant")
    constant = values.shape[1] - len(used)
    if constant:
        remarks.append(f"{counted(constant, 'column is', 'columns are')} constant and left out")
    columns = {"inputs": counted(len(used), "column of numbers", "columns of numbers")}
    return _own("table", values, encoded, ids, columns, remarks, partial(dense_features, values, used))


def _sparse(values: Any, encoded: Encoded, ids: NDArray[Any]) -> UserData:
    infinite = ~np.isfinite(values.data)
    if infinite.any():
        row = int(np.searchsorted(values.indptr, np.argmax(infinite), side="right")) - 1
        raise InputError(f"row {encoded.rows[row]} of the inputs has a value that is not finite")
    columns = {"inputs": f"{counted(values.shape[1], 'column of numbers', 'columns of numbers')}, sparse"}
    floats = values.astype(np.float32)
    return _own("table", floats, encoded, ids, columns, [], partial(sparse_features, floats))


def _images(pixels: NDArray[np.uint8], values: NDArray[Any], encoded: Encoded, ids: NDArray[Any]) -> UserData:
    height, width = pixels.shape[2:]
    remarks = []
    if values.dtype.kind == "f" and pixels.max() > values.max():
        remarks.append("inputs from 0 to 1 are taken as images, and brought to whole numbers from 0 to 255")
    columns = {"inputs": f"images of {width} × {height} pixels"}
    return _own("images", pixels, encoded, ids, columns, remarks, None)


def _own(kind: Any, inputs: Any, encoded: Encoded, ids: NDArray[Any], columns: Any, remarks: Any, fit: Any) -> UserData:
    said = (*encoded.remarks, *remarks)
    return UserData(kind, inputs, encoded.labels, encoded.classes, ids, encoded.rows, columns, said, fit_features=fit)


def _refuse_infinite(values: NDArray[Any], rows: NDArray[np.int64]) -> None:
    """Name the first row with a number that is missing, infinite, or so large that its square overflows."""
    if values.dtype.kind != "f":
        return
    start = 0
    for block in _blocks(values):
        usable = np.abs(block.astype(np.float64)) <= LARGEST  # NaN is not
        if not usable.all():
            row = rows[start + int(np.argmin(usable.reshape(len(block), -1).all(axis=1)))]
            raise InputError(
                f"row {row} of the inputs has a value that is not finite or beyond {LARGEST:.0e}; "
                "a data frame may have missing values"
            )
        start += len(block)


def _as_images(values: NDArray[Any]) -> NDArray[np.uint8] | None:
    """Images (N, 3, H, W) of uint8, or None where the numbers do not look like it."""
    if values.ndim == 3:
        values = values[..., None]
    elif values.ndim == 4 and values.shape[3] not in CHANNELS and values.shape[1] in CHANNELS:
        values = values.transpose(0, 2, 3, 1)
    if values.ndim != 4 or values.shape[3] not in CHANNELS or min(values.shape[1:3]) < SMALLEST_IMAGE:
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
        part = colours if scale == 1 else np.round(colours * scale)
        pixels[start : start + len(block)] = part.astype(np.uint8).transpose(0, 3, 1, 2)
        start += len(block)
    return pixels


def _pixel_scale(values: NDArray[Any]) -> float | None:
    """What brings values to 0..255: 1 for whole numbers in that range, 255 for fractions from 0 to 1."""
    if values.dtype == np.uint8:
        return 1.0
    least, most = values.min(), values.max()
    if least < 0 or most > 255:
        return None
    if values.dtype.kind in "iu":
        return 1.0
    if most <= 1:
        return 255.0
    return 1.0 if all((block == np.floor(block)).all() for block in _blocks(values)) else None


def _blocks(values: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Some rows at a time, so that what is computed of them stays small."""
    rows = max(1, BYTES_AT_ONCE // max(1, 8 * int(np.prod(values.shape[1:]))))
    return (values[start : start + rows] for start in range(0, len(values), rows))
