"""User data: inputs, labels, ids, and the features of tables."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.errors import InputError
from errata.readers.hashing import array_hash

Kind = Literal["table", "text", "images", "image files"]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Features:
    """Inputs of a model: matrix (N, D) of finite float32, and the names of its D columns."""

    matrix: NDArray[np.float32]
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class UserData:
    """N labelled samples, in the order of their source.

    inputs: a data frame of N rows without the labels; an array (N, D), dense or sparse; images (N, 3, H, W) of uint8;
    paths (N,) of image files below `root`; or `StoredImages`. labels (N,): class numbers. classes (K,): the label
    values. ids (N,): numbers or text; by default the row number or the path of an image. rows (N,): rows of the source.
    columns: the treatment of each column. remarks: messages for the user. backbone: the name of the pretrained
    model that the features come from, if any.
    """

    kind: Kind
    inputs: Any
    labels: NDArray[np.int64]
    classes: tuple[Any, ...]
    ids: NDArray[Any]
    rows: Rows
    columns: dict[str, str]
    remarks: tuple[str, ...] = ()
    root: Path | None = None
    fit_features: Callable[[Rows], Features] | None = field(default=None, repr=False)
    backbone: str = ""

    @property
    def samples(self) -> int:
        """N."""
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        """K."""
        return len(self.classes)

    @property
    def left_out(self) -> dict[str, str]:
        """The columns that no model uses, with the reason; the column of ids is not among them."""
        parts = {name: treatment.partition(": ") for name, treatment in self.columns.items()}
        return {name: reason for name, (treatment, _, reason) in parts.items() if treatment == "left out"}

    @property
    def embedded(self) -> bool:
        """Whether the features come from a pretrained model."""
        return bool(self.backbone)

    @property
    def is_terms(self) -> bool:
        """Whether the only inputs of a model are TF-IDF terms."""
        return self.kind == "text" and not self.embedded

    def prepare(self, train_rows: ArrayLike | None = None) -> Features:
        """Features of all samples, with all statistics (means, categories, terms) fitted on `train_rows`.

        train_rows: row numbers (n,) or a mask (N,); None for all rows. A category that occurs in other rows only counts
        as a rare one; a word that occurs in other rows only is ignored. The type of each column was inferred from all
        rows when the data was opened.
        """
        if self.fit_features is None:
            raise InputError("Images have no features: models are trained on the pixels")
        if train_rows is None:
            return self.fit_features(np.arange(self.samples))
        rows = np.asarray(train_rows)
        if rows.dtype == np.bool_ and rows.shape == (self.samples,):
            rows = np.flatnonzero(rows)
        if rows.ndim != 1 or not len(rows):
            raise InputError(f"train_rows must be row numbers (n,) or a mask ({self.samples},) with at least one row")
        if rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= self.samples:
            raise InputError(f"train_rows must be whole numbers from 0 to {self.samples - 1}")
        return self.fit_features(rows.astype(np.int64))

    @cached_property
    def input_hashes(self) -> tuple[str, ...]:
        """A hash of each part of the inputs. For image files, sizes and modification times are hashed."""
        return tuple(_input_hashes(self.inputs, self.root))

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of inputs, labels and ids. For image files, sizes and modification times are hashed."""
        digest = hashlib.sha256()
        for part in (*self.input_hashes, array_hash(self.labels), array_hash(self.ids)):
            digest.update(part.encode())
        digest.update(repr(self.classes).encode())
        return digest.hexdigest()


def _input_hashes(inputs: Any, root: Path | None) -> list[str]:
    """A hash of each part of the inputs."""
    if root is not None:
        stats = [(root / path).stat() for path in inputs.tolist()]
        return [array_hash(inputs), array_hash(np.array([[stat.st_size, stat.st_mtime_ns] for stat in stats]))]
    if isinstance(inputs, np.ndarray):
        return [array_hash(inputs)]
    if hasattr(inputs, "digests"):
        return [digest.hex() for digest in inputs.digests()]
    if hasattr(inputs, "indptr"):
        return [array_hash(part) for part in (inputs.data, inputs.indices, inputs.indptr)]
    return [text for name in inputs.columns for text in (str(name), _column_hash(inputs[name]))]


def _column_hash(column: Any) -> str:
    from pandas.util import hash_pandas_object

    values = column.map(repr) if column.dtype == object else column
    return array_hash(hash_pandas_object(values, index=False).to_numpy())
