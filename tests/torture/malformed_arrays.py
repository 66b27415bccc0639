"""Malformed .npz files with inputs and labels, also for `errata choose`. Logits are in malformed_logits."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from torture import malformed_logits
from torture.array_files import Arrays, damaged_archives, not_executed, npz
from torture.cases import Case, Expected
from torture.hostile import read_and_rank, write
from torture.malformed_logits import STRUCTURED
from torture.scenarios import numbers
from torture.victims import command

ROWS = 48
RNG = np.random.default_rng(7)
INPUTS, LABELS = numbers()
STRANGE_INPUTS: list[tuple[str, Arrays, Any]] = [
    ("whole", {}, "read"),
    ("big-endian y", {"y": LABELS.astype(">i8")}, "read"),
    ("big-endian X", {"X": INPUTS.astype(">f8")}, "read"),
    ("longdouble X", {"X": INPUTS.astype(np.longdouble)}, "either"),
    ("half precision X", {"X": INPUTS.astype(np.float16)}, "read"),
    ("complex X", {"X": INPUTS.astype(complex)}, "refused"),
    ("structured y", {"y": STRUCTURED}, "refused"),
    ("structured X", {"X": STRUCTURED}, "either"),
    ("dates as X", {"X": INPUTS.astype("M8[s]")}, "either"),
    ("dates as y", {"y": LABELS.astype("M8[D]")}, "either"),
    ("void y", {"y": np.zeros(ROWS, "V8")}, "refused"),
    ("X in Fortran order", {"X": np.asfortranarray(INPUTS)}, "read"),
    ("X of one dimension", {"X": INPUTS[:, 0]}, "refused"),
    ("X of five dimensions", {"X": INPUTS.reshape(ROWS, 1, 2, 1, 2)}, "either"),
    ("X without rows", {"X": INPUTS[:0], "y": LABELS[:0]}, "refused"),
    ("X without columns", {"X": INPUTS[:, :0]}, "refused"),
    ("X with NaN", {"X": np.where(INPUTS > 2, np.nan, INPUTS)}, "refused"),
    ("X with infinity", {"X": np.where(INPUTS > 2, np.inf, INPUTS)}, "refused"),
    ("X constant", {"X": np.ones((ROWS, 4))}, "refused"),
    ("y shorter than X", {"y": LABELS[:-1]}, "refused"),
    ("y one-hot", {"y": np.eye(2)[LABELS]}, "refused"),
    ("y a single number", {"y": np.array(1)}, "refused"),
    ("y of one class", {"y": np.zeros(ROWS, int)}, "refused"),
    ("y with NaN", {"y": np.where(LABELS == 1, np.nan, 0.0)}, "refused"),
    ("y of bytes that are not UTF-8", {"y": np.array([b"\xff", b"\xfe"])[LABELS]}, "either"),
    ("y of text with NUL", {"y": np.array(["a\0b", "c"])[LABELS]}, "either"),
    ("y beyond 2^63", {"y": (LABELS.astype(np.uint64) + np.uint64(2**63))}, "either"),
    ("y complex", {"y": LABELS.astype(complex)}, "refused"),
    ("no y", {"y": None}, "refused"),
    ("no X", {"X": None}, "refused"),
    ("images of one pixel", {"X": np.zeros((ROWS, 1, 1, 3), np.uint8)}, "refused"),
    ("images with 17 channels", {"X": RNG.integers(0, 255, (ROWS, 17, 20, 20)).astype(np.uint8)}, "either"),
]


def cases() -> Iterator[Case]:
    """All malformed arrays."""
    arrays = {"X": INPUTS, "y": LABELS}
    read = read_and_rank("inputs.npz", None)
    for name, (content, expected) in damaged_archives(arrays).items():
        yield Case(f"inputs.npz: {name}", write("inputs.npz", content), read, expected, not_executed)
    for name, changes, expected in STRANGE_INPUTS:
        kept = {key: array for key, array in (arrays | changes).items() if array is not None}
        yield Case(f"inputs.npz: {name}", write("inputs.npz", partial(npz, kept)), read, expected)
    content = partial(npz, {"X": INPUTS.astype(np.longdouble), "y": LABELS})
    find = command("find", "inputs.npz", "--model", "mlp", "--device", "cpu")
    yield Case("inputs.npz: longdouble X, trained on", write("inputs.npz", content), find, "either")
    yield from malformed_logits.cases()
    yield from _choose()


def _choose() -> Iterator[Case]:
    """`errata choose`. A label that is a large number is a class like any other."""
    work = command("choose", "choose.npz", "--max-epochs", "1", "--device", "cpu")
    for name, changes in {
        "a label of 10^7": {"labels": np.where(np.arange(ROWS) == 5, 10**7, LABELS)},
        "a label of 2^62": {"labels": np.where(np.arange(ROWS) == 5, 2**62, LABELS)},
        "inputs with NaN": {"inputs": np.full((ROWS, 4), np.nan)},
        "inputs of one dimension": {"inputs": INPUTS[:, 0]},
        "no rows": {"inputs": INPUTS[:0], "labels": LABELS[:0]},
        "one class": {"labels": LABELS * 0},
        "too few labels": {"labels": LABELS[:-1]},
        "structured labels": {"labels": STRUCTURED},
        "complex inputs": {"inputs": INPUTS.astype(complex)},
    }.items():
        content = partial(npz, {"inputs": INPUTS, "labels": LABELS} | changes)
        expected: Expected = "read" if name.startswith("a label of") else "refused"
        yield Case(f"choose.npz: {name}", write("choose.npz", content), work, expected)
