"""What a result was made from, so that it is never taken for the result of something else."""

import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.errors import StoreError
from errata.training.jobs import TrainingJob

_WITHOUT_EFFECT = {"checkpoint_seconds"}


def provenance(job: TrainingJob, labels: NDArray[np.int64], options: dict[str, Any]) -> dict[str, Any]:
    """All that decides what becomes of a job, but for its inputs and its model."""
    arrays = {"labels": labels, "train_rows": job.train_rows, "watched": job.watched}
    hashes = {name: zlib.crc32(array.astype("<i8").tobytes()) for name, array in arrays.items()}
    wanted = {name: value for name, value in options.items() if name not in _WITHOUT_EFFECT and value is not None}
    return asdict(job.recipe) | wanted | hashes


def refuse_another(folder: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse a folder where something else was trained."""
    for name, value in wanted.items():
        if found.get(name) != value:
            raise StoreError(f"{folder} holds a run with another {name}; take another folder, or delete that one")
