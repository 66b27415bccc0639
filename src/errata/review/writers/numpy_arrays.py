"""NumPy files: .npz with inputs and labels, .npy with labels. All other arrays stay byte for byte the same."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.files import replace_atomically, save_array
from errata.errors import InputError
from errata.readers.arrays import LABEL_NAMES
from errata.review.writers.label_writer import LabelEdits, LabelledSamples, LabelWriter, Progress, WriterFactory
from errata.wording import listed


@dataclass(frozen=True, eq=False)
class NpzFile(LabelWriter):
    """A .npz file. label: the name of the array with the labels."""

    label: str

    def check(self, edits: LabelEdits) -> None:
        with np.load(self.path, allow_pickle=False) as arrays:
            self._relabelled(arrays, edits)

    def write(self, edits: LabelEdits, target: Path, progress: Progress) -> list[str]:
        """Write the copy. Dropped rows are removed from every array with one row per sample."""
        with np.load(self.path, allow_pickle=False) as arrays:
            changed = {self.label: self._relabelled(arrays, edits)}
            if edits.drop:
                rows = len(changed[self.label])
                names = [name for name in arrays.files if np.ndim(arrays[name]) and len(arrays[name]) == rows]
                changed = {name: arrays[name][edits.rows_to_keep(rows)] for name in names}
        replace_atomically(target, lambda file: self._write_members(changed, file))
        return [f"rows were removed from the arrays {', '.join(changed)}"] if edits.drop else []

    def _relabelled(self, arrays: Any, edits: LabelEdits) -> NDArray[Any]:
        return _relabelled(arrays[self.label], edits, f"the array {self.label!r} of {self.path}")

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


class LabelArray(LabelWriter):
    """A .npy file with labels. Their inputs are in another file, which needs no copy."""

    def check(self, edits: LabelEdits) -> None:
        if edits.drop:
            raise InputError(
                f"{self.path} contains labels only, so samples cannot be removed. Save inputs and labels in one .npz."
            )
        self._relabelled(edits)

    def write(self, edits: LabelEdits, target: Path, progress: Progress) -> list[str]:
        save_array(target, self._relabelled(edits))
        return []

    def _relabelled(self, edits: LabelEdits) -> NDArray[Any]:
        return _relabelled(np.load(self.path, allow_pickle=False), edits, str(self.path))


def label_array(path: Path, samples: LabelledSamples, label: str) -> LabelArray:
    """The writer for inputs in a .npy file: `label` is the path of the labels."""
    return LabelArray(Path(label).expanduser(), samples)


WRITERS: dict[str, WriterFactory] = {".npz": npz_file, ".npy": label_array}


def _relabelled(labels: NDArray[Any], edits: LabelEdits, where: str) -> NDArray[Any]:
    """The labels (N,) or (N, 1) with the new labels. where: what messages call the array."""
    flat = labels.reshape(-1)
    if edits.new_classes:
        flat = np.concatenate([flat, _new_labels(edits.new_classes, labels.dtype, where)])
    return flat[edits.label_rows(len(labels))].reshape(labels.shape)


def _new_labels(values: list[Any], dtype: np.dtype[Any], where: str) -> NDArray[Any]:
    """The new classes as values of the array type. Text may be longer than before."""
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
        raise InputError(f"{where} has the type {dtype}, which cannot hold the new label {listed(values)}")
    return new
