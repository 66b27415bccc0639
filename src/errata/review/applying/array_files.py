"""Copies of .npz and .npy files: every array that has nothing to do with labels stays, byte for byte."""

import io
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.files import replace_atomically
from errata.errors import InputError
from errata.review.applying.edits import Advance, Edits, Original

ENDING = ".npy"


@dataclass(frozen=True, eq=False)
class ArraysFile(Original):
    """A .npz file; `label` is the name of the array with the labels."""

    label: str

    def check(self, edits: Edits) -> None:
        """Refuse labels that are not of the array's type."""
        with np.load(self.path, allow_pickle=False) as arrays:
            _relabelled(arrays[self.label], edits, f"the array {self.label!r} of {self.path}")

    def write(self, edits: Edits, target: Path, advance: Advance) -> list[str]:
        """Write the copy; rows are left out of every array that has one for each."""
        with np.load(self.path, allow_pickle=False) as arrays:
            labels = _relabelled(arrays[self.label], edits, f"the array {self.label!r} of {self.path}")
            replaced = {self.label: labels}
            if edits.drop:
                kept = edits.kept(len(labels))
                each = [name for name in arrays.files if np.ndim(arrays[name]) and len(arrays[name]) == len(labels)]
                replaced = {name: arrays[name][kept] for name in each}
        replace_atomically(target, lambda file: self._write(replaced, file))
        return [f"rows were left out of the arrays {', '.join(replaced)}"] if edits.drop else []

    def _write(self, replaced: dict[str, NDArray[Any]], file: BinaryIO) -> None:
        with ZipFile(self.path) as old, ZipFile(file, "w") as new:
            for member in old.infolist():
                name = member.filename.removesuffix(ENDING)
                alike = ZipInfo(member.filename, member.date_time)
                alike.compress_type = member.compress_type
                with old.open(member) as before, new.open(alike, "w", force_zip64=True) as after:
                    content = _as_file(replaced[name]) if name in replaced else before
                    shutil.copyfileobj(content, after)


@dataclass(frozen=True, eq=False)
class LabelsFile(Original):
    """A .npy file with labels of inputs that are in another; that one needs no copy."""

    def check(self, edits: Edits) -> None:
        """Refuse labels that are not of the array's type."""
        if edits.drop:
            raise InputError(f"{self.path} holds labels only: to leave samples out, keep inputs and labels in one .npz")
        _relabelled(np.load(self.path, allow_pickle=False), edits, str(self.path))

    def write(self, edits: Edits, target: Path, advance: Advance) -> list[str]:
        """Write the labels."""
        labels = _relabelled(np.load(self.path, allow_pickle=False), edits, str(self.path))
        replace_atomically(target, lambda file: np.save(file, labels, allow_pickle=False))
        return []


def _relabelled(labels: NDArray[Any], edits: Edits, where: str) -> NDArray[Any]:
    """Labels (N,) or (N, 1), in which a row that changes takes its label from another row, or from the new classes."""
    flat = labels.reshape(-1)
    if edits.fresh:
        flat = np.concatenate([flat, _new_labels(edits.fresh, labels.dtype, where)])
    return flat[edits.taken(len(labels))].reshape(labels.shape)


def _new_labels(values: list[Any], dtype: np.dtype[Any], where: str) -> NDArray[Any]:
    """The classes that are new, as the type of the array; text may be longer than any before."""
    texts = [str(value) for value in values]
    if dtype.kind == "U":
        return np.array(texts)
    if dtype.kind == "S":
        return np.array([text.encode() for text in texts])
    try:
        new = np.array(values, dtype=dtype)
    except (ValueError, TypeError, OverflowError):
        new = np.empty(0, dtype)
    if new.tolist() != values:
        raise InputError(f"{where} is of type {dtype}, and cannot hold the new label {', '.join(map(repr, values))}")
    return new


def _as_file(array: NDArray[Any]) -> io.BytesIO:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    file.seek(0)
    return file
