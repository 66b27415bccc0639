"""NumPy files: .npz with inputs and labels, .npy with labels. All other arrays stay byte for byte the same."""

import shutil
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.files import replace_atomically, save_array
from errata.errors import InputError
from errata.readers.arrays import LABEL_NAMES
from errata.readers.label_encoding import as_series
from errata.review.label_numbers import BOOLEANS, exact_float, whole_number
from errata.review.writers.label_writer import LabelEdits, LabelledSamples, LabelWriter, Progress, WriterFactory


class ArrayOfLabels(LabelWriter):
    """Labels in a NumPy array."""

    @abstractmethod
    def load(self) -> NDArray[Any]:
        """The labels (N,) or (N, 1) of the original."""

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type of the array."""
        return self.load().dtype

    @property
    def labels_are(self) -> str:
        return f"{self.path} has labels of the type {self.dtype}"

    def read_label(self, text: str) -> Any:
        """The text as a value of the array type; None if that is not exact, or if the array refers to class names."""
        kind, value = self.dtype.kind, text.strip()
        if kind in "US":
            return text
        if any(isinstance(name, str) for name in self.samples.classes):
            return None
        if kind == "b":
            return BOOLEANS.get(value.casefold())
        if kind == "f":
            return exact_float(value, self.dtype.type)
        if kind in "iu":
            number, limits = whole_number(value), np.iinfo(self.dtype)
            return number if number is not None and limits.min <= number <= limits.max else None
        try:
            date = np.array([value], dtype=self.dtype)
        except ValueError:
            return None
        return None if np.isnat(date).any() else as_series(date, str(self.path)).tolist()[0]

    def relabelled(self, edits: LabelEdits) -> NDArray[Any]:
        """The labels (N,) or (N, 1) with the new labels. Text may be longer than before."""
        labels, new = self.load(), edits.new_classes
        flat = labels.reshape(-1)
        if new:
            values = [value.encode() for value in new] if labels.dtype.kind == "S" else new
            flat = np.concatenate([flat, np.array(values, None if labels.dtype.kind in "US" else labels.dtype)])
        return flat[edits.label_rows(len(labels))].reshape(labels.shape)


@dataclass(frozen=True, eq=False)
class NpzFile(ArrayOfLabels):
    """A .npz file. label: the name of the array with the labels."""

    label: str

    @property
    def labels_are(self) -> str:
        return f"the array {self.label!r} of {self.path} has the type {self.dtype}"

    def load(self) -> NDArray[Any]:
        with np.load(self.path, allow_pickle=False) as arrays:
            labels: NDArray[Any] = arrays[self.label]
        return labels

    def write(self, edits: LabelEdits, target: Path, progress: Progress) -> list[str]:
        """Write the copy. Dropped rows are removed from every array with one row per sample."""
        changed = {self.label: self.relabelled(edits)}
        if edits.drop:
            rows = len(changed[self.label])
            with np.load(self.path, allow_pickle=False) as arrays:
                names = [name for name in arrays.files if np.ndim(arrays[name]) and len(arrays[name]) == rows]
                changed = {name: arrays[name][edits.rows_to_keep(rows)] for name in names}
        replace_atomically(target, lambda file: self._write_members(changed, file))
        return [f"rows were removed from the arrays {', '.join(changed)}"] if edits.drop else []

    def _write_members(self, changed: dict[str, NDArray[Any]], file: BinaryIO) -> None:
        with ZipFile(self.path) as old, ZipFile(file, "w") as new:
            for member in old.infolist():
                name = member.filename.removesuffix(".npy")
                info = ZipInfo(member.filename, member.date_time)
                info.compress_type = member.compress_type
                with old.open(member) as before, new.open(info, "w", force_zip64=True) as after:
                    if name in changed:
                        np.save(after, changed[name], allow_pickle=False)
                    else:
                        shutil.copyfileobj(before, after)


def npz_file(path: Path, samples: LabelledSamples, label: str | None) -> NpzFile:
    """The writer for a .npz file, whose array of labels may have a default name."""
    with np.load(path, allow_pickle=False) as arrays:
        names = LABEL_NAMES if label is None else (label,)
        return NpzFile(path, samples, next(name for name in names if name in arrays.files))


class LabelArray(ArrayOfLabels):
    """A .npy file with labels. Their inputs are in another file, which needs no copy."""

    def check(self, edits: LabelEdits) -> None:
        if edits.drop:
            raise InputError(
                f"{self.path} contains labels only, so samples cannot be removed. Save inputs and labels in one .npz."
            )

    def write(self, edits: LabelEdits, target: Path, progress: Progress) -> list[str]:
        save_array(target, self.relabelled(edits))
        return []

    def load(self) -> NDArray[Any]:
        labels: NDArray[Any] = np.load(self.path, allow_pickle=False)
        return labels


def label_array(path: Path, samples: LabelledSamples, label: str) -> LabelArray:
    """The writer for inputs in a .npy file: `label` is the path of the labels."""
    return LabelArray(Path(label).expanduser(), samples)


WRITERS: dict[str, WriterFactory] = {".npz": npz_file, ".npy": label_array}
