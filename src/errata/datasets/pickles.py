"""Pickled dictionaries of numbers, read without running what a pickle may ask for.

An unpickler imports and calls whatever a file names. This one knows only the names that numpy arrays are pickled with,
and puts plain functions of its own in their place: numpy's take types and layouts from the file on trust.
"""

import io
import pickle
import re
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.errors import DataError
from errata.wording import one_line

NUMBERS = re.compile(r"[<>=|]?[biuf]\d{1,2}")  # how numpy writes types of numbers: <i8, |u1, f4


class _Type:
    """Stands for numpy.dtype: a type of numbers and nothing else."""

    def __init__(self, code: str | bytes, *_: Any) -> None:
        self.code = _text(code)
        self.dtype = _number_type(self.code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype = _number_type(_text(state[1]) + self.code)


class _Array:
    """Stands for numpy.ndarray: made empty, then given its values."""

    values: NDArray[Any] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, data = state
        self.values = _array(data, kind, shape, "F" if fortran else "C")


def _number_type(code: str) -> np.dtype[Any]:
    if not NUMBERS.fullmatch(code):
        raise pickle.UnpicklingError(f"{code!r} is not a type of numbers")
    return np.dtype(code)


def _array(data: Any, kind: _Type, shape: tuple[int, ...], order: Any) -> NDArray[Any]:
    raw = data.encode("latin1") if isinstance(data, str) else data  # Python 2 had no bytes
    return np.frombuffer(raw, dtype=kind.dtype).reshape(shape, order=order)


def _reconstruct(*_: Any) -> _Array:
    return _Array()


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes written as {encoding!r}")
    return text.encode("latin1")


KNOWN: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _Type,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.numeric", "_frombuffer"): _array,
    ("numpy._core.numeric", "_frombuffer"): _array,
    ("_codecs", "encode"): _encode,
}


class _ForbiddenError(Exception):
    """The name of something a pickle asked for."""


class _StandIn:
    """What a pickle gets in the place of a global: it can be called, and not changed."""

    __slots__ = ("_call", "_name")

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self._name, self._call = name, call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise _ForbiddenError(f"a change of {self._name}")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """What stands for a global; one that is not known is not even looked up."""
        if (module, name) not in KNOWN:
            raise _ForbiddenError(f"{module}.{name}")
        return _StandIn(f"{module}.{name}", KNOWN[module, name])


def unpickle(pickled: bytes, name: str | Path) -> dict[str, Any]:
    """The dictionary in a pickle, its keys as text and its arrays as arrays; `name` is for messages."""
    try:
        content = _Unpickler(io.BytesIO(pickled), encoding="latin1").load()
    except _ForbiddenError as forbidden:
        raise DataError(f"{name} is refused: it asks for {one_line(forbidden)}, which no numbers need") from None
    except Exception as error:  # a broken pickle raises anything from EOFError to MemoryError
        raise DataError(f"{name} is not a whole pickle of numbers: {one_line(error)}") from error
    if not isinstance(content, dict):
        raise DataError(f"{name} holds no dictionary but one {type(content).__name__}")
    return {_text(key): value.values if isinstance(value, _Array) else value for key, value in content.items()}


def read_pickle(path: Path) -> dict[str, Any]:
    """The dictionary in a pickle file."""
    try:
        pickled = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    return unpickle(pickled, path)


def read_torch(path: Path) -> dict[str, Any]:
    """The dictionary that `torch.save` wrote into a zip archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [name for name in archive.namelist() if name.endswith("/data.pkl")]
            pickled = [archive.read(name) for name in members]
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        raise DataError(f"{path} is not a whole archive of torch: {one_line(error)}") from error
    if len(pickled) != 1:
        raise DataError(f"{path} is not an archive of torch: it holds {len(pickled)} files data.pkl, not one")
    return unpickle(pickled[0], path)


def _text(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)
