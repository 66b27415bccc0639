"""A user's own data, understood: what it holds, which labels are given, and the features a model takes."""

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
    """What a model takes: matrix (N, D) of finite float32, and the name of each of its D columns."""

    matrix: NDArray[np.float32]
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class UserData:
    """N labelled samples, in the order of their source.

    labels (N,): class numbers; classes: the K values as they were given. ids (N,): numbers or text, by default the row
    (the first is 0) or the path of an image. rows (N,): the row of the source that each sample is. inputs: a data frame
    of N rows without the labels; an array (N, D), sparse or not; images (N, 3, H, W) of uint8; or the paths (N,) of
    image files below `root`; or `StoredImages`. columns: each column and how it is understood. remarks: what a user
    should know. embedded: texts are vectors of a sentence model, not weighted terms.
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
    embedded: bool = False

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
        """The columns that no model is given, and why; one that holds the ids is not among them."""
        said = {name: treatment.partition(": ") for name, treatment in self.columns.items()}
        return {name: why for name, (treatment, _, why) in said.items() if treatment == "left out"}

    @property
    def is_terms(self) -> bool:
        """Whether all that a model is given of a sample is which terms it holds."""
        return self.kind == "text" and not self.embedded

    def prepare(self, train_rows: ArrayLike | None = None) -> Features:
        """Features of all samples, with every statistic (means, categories, terms) taken from `train_rows` alone.

        train_rows: row numbers (n,) or a mask (N,); None takes all rows. What only other rows hold is unknown: an
        unseen category counts as a rare one, an unseen word as none. Whether a column is a number, a category or text
        was settled when the data was opened, from all rows.
        """
        if self.fit_features is None:
            raise InputError("images are trained on as they are: features are prepared of tables and text only")
        return self.fit_features(self._checked(train_rows))

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of inputs, labels and ids: the same data gives the same hash. Image files count by size and time."""
        digest = hashlib.sha256()
        for part in (*_hashes(self.inputs, self.root), array_hash(self.labels), array_hash(self.ids)):
            digest.update(part.encode())
        digest.update(repr(self.classes).encode())
        return digest.hexdigest()

    def _checked(self, train_rows: ArrayLike | None) -> Rows:
        if train_rows is None:
            return np.arange(self.samples)
        rows = np.asarray(train_rows)
        if rows.dtype == np.bool_ and rows.shape == (self.samples,):
            rows = np.flatnonzero(rows)
        if rows.ndim != 1 or not len(rows):
            raise InputError(f"train_rows must be rows (n,) or a mask ({self.samples},), and at least one row")
        if rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= self.samples:
            raise InputError(f"train_rows must be whole numbers from 0 to {self.samples - 1}")
        return rows.astype(np.int64)


def _hashes(inputs: Any, root: Path | None) -> list[str]:
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

    nested = column.dtype == object
    return array_hash(hash_pandas_object(column.map(repr) if nested else column, index=False).to_numpy())
