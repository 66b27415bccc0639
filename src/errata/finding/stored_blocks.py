"""Vectors of all samples, computed block by block. Each block becomes a file, so that an interrupted call resumes."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.files import replace_atomically
from errata.terminal import TrainingProgress

Vectors = NDArray[np.float32]
ComputeBlocks = Callable[[Sequence[range]], Iterator[Vectors]]


def stored_blocks(
    samples: int, block: int, folder: Path | None, compute: ComputeBlocks, title: str, progress: TrainingProgress
) -> Vectors:
    """Vectors (samples, D). Blocks whose file is in the folder are read, the others are computed and written.

    block: samples per file; after Ctrl-C at most one block is computed again. compute: gets the rows of each missing
    block and yields their vectors (n, D), in order. title: what progress shows, with the count and the time left.
    """
    blocks = [range(start, min(start + block, samples)) for start in range(0, samples, block)]
    stored = [None if folder is None else _read(folder / _file_name(rows), rows) for rows in blocks]
    missing = [rows for rows, vectors in zip(blocks, stored, strict=True) if vectors is None]
    computed = compute(missing)
    started, left = time.monotonic(), sum(map(len, missing))
    to_compute = left
    parts: list[Vectors] = []
    for rows, known in zip(blocks, stored, strict=True):
        if known is None:
            seconds = _seconds_left(time.monotonic() - started, to_compute - left, left)
            progress.begin(f"{title}: {rows.start:,} of {samples:,}{_in_words(seconds)}", 0)
            vectors = next(computed)
            left -= len(rows)
            if folder is not None:
                _write(folder / _file_name(rows), vectors)
        parts.append(vectors if known is None else known)
    return np.concatenate(parts)


def _file_name(rows: range) -> str:
    return f"{rows.start}.npy"


def _read(file: Path, rows: range) -> Vectors | None:
    """The stored vectors of a block; None if there is no such file, or if it is damaged."""
    try:
        vectors: Vectors = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return vectors if vectors.ndim == 2 and len(vectors) == len(rows) else None


def _write(file: Path, vectors: Vectors) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_atomically(file, lambda to: np.save(to, vectors))


def _seconds_left(elapsed: float, done: int, left: int) -> float | None:
    """The time that the remaining samples will take, by the time of those that are done; None if none is done."""
    return elapsed / done * left if done else None


def _in_words(seconds: float | None) -> str:
    """`, about 3 min left`; empty if unknown or less than half a minute."""
    return "" if seconds is None or seconds < 30 else f", about {max(1, round(seconds / 60)):,} min left"
