"""Hashes of array contents. They do not depend on the file format or the memory layout."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def array_hash(array: NDArray[Any]) -> str:
    """SHA-256 of the shape, type and values of an array. Text is hashed as UTF-8, independent of its width."""
    values = np.char.encode(array, "utf-8") if array.dtype.kind == "U" else array
    if values.dtype.kind == "S":
        header = f"text {values.shape} "
        body = b"".join(len(item).to_bytes(4, "little") + item for item in values.ravel().tolist())
    else:
        little = values.dtype.newbyteorder("<")
        header = f"{little.kind}{little.itemsize} {values.shape} "
        body = np.ascontiguousarray(values, dtype=little).data  # type: ignore[assignment]
    digest = hashlib.sha256(header.encode())
    digest.update(body)
    return digest.hexdigest()


def content_hash(arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of named arrays, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {array_hash(arrays[name])}\n".encode())
    return digest.hexdigest()
