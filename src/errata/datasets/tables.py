"""What the readers of tables share."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from errata.datasets.spec import Arrays, Content
from errata.errors import DataError

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


def read_numbers(path: Path, columns: int, separator: str = r"\s+") -> Floats:
    """Numbers (N, columns) of a text file without a header; a line that is cut short or not numbers is named."""
    import pandas as pd

    try:
        table = pd.read_csv(path, sep=separator, header=None, dtype=np.float64)
    except (ValueError, OSError, EOFError) as error:  # what pandas and a decompressor say of a broken file
        raise DataError(f"{path} cannot be read: {error}") from error
    values = table.to_numpy()
    if values.shape[1] != columns:
        raise DataError(f"{path} has {values.shape[1]} columns, not {columns}")
    broken = np.isnan(values).any(axis=1)
    if broken.any():
        raise DataError(f"{path}: line {int(np.argmax(broken)) + 1} is not whole; was the file cut short?")
    return values


def table_content(
    train: Floats, train_labels: Labels, test: Floats, test_labels: Labels, features: Sequence[str]
) -> Content:
    """A prepared table, its numbers as float32."""
    arrays: Arrays = {
        "train_inputs": train.astype(np.float32),
        "train_labels": train_labels.astype(np.int64),
        "test_inputs": test.astype(np.float32),
        "test_labels": test_labels.astype(np.int64),
    }
    return Content(arrays, tuple(features))
