"""Malformed logits in .npz and .npy files, and what is not logits but was saved as such."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from torture.array_files import Arrays, Marker, damaged_archives, lying, not_executed, npy, npz
from torture.cases import Case
from torture.hostile import mentions, write
from torture.scenarios import numbers
from torture.victims import command

ROWS, CLASSES = 48, 2
NOTICED = ("warning:",)  # probabilities are noticed by a warning
INPUTS, LABELS = numbers()
LOGITS = np.random.default_rng(1).normal(size=(6, ROWS, CLASSES)).astype(np.float32) * 3
STRUCTURED = np.zeros(ROWS, dtype=[("x", "i4"), ("y", "f4")])
PROBABILITIES = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=-1, keepdims=True)
SIGMOID = 1 / (1 + np.exp(-LOGITS))
MULTILABEL = np.random.default_rng(2).normal(size=(6, ROWS, 5)).astype(np.float32) * 3
SOME_EPOCHS = np.where(np.arange(6)[:, None, None] < 3, PROBABILITIES, LOGITS)
NOTICE: list[tuple[str, Any]] = [
    ("probabilities", PROBABILITIES),
    ("probabilities in the first epochs only", SOME_EPOCHS),
    ("probabilities in the last epochs only", SOME_EPOCHS[::-1]),
    ("probabilities in one epoch in the middle", np.where(np.arange(6)[:, None, None] == 2, PROBABILITIES, LOGITS)),
    ("percentages", 100 * PROBABILITIES),
    ("percentages, rounded", (100 * PROBABILITIES).round(1)),
    ("probabilities in half precision", PROBABILITIES.astype(np.float16)),
    ("outputs of a sigmoid", SIGMOID),
    ("outputs of a sigmoid for five classes", 1 / (1 + np.exp(-MULTILABEL))),
    ("predicted classes, one-hot", np.eye(CLASSES)[LOGITS.argmax(axis=-1)]),
    ("percentages in the first epochs only", np.where(np.arange(6)[:, None, None] < 3, 100 * PROBABILITIES, LOGITS)),
    ("outputs of a sigmoid in the first epochs only", np.where(np.arange(6)[:, None, None] < 3, SIGMOID, LOGITS)),
]

STRANGE_LOGITS: list[tuple[str, Arrays, Any]] = [
    ("whole", {}, "read"),
    ("logarithms of probabilities", {"logits": np.log(PROBABILITIES)}, "read"),
    ("big-endian", {"logits": LOGITS.astype(">f4"), "labels": LABELS.astype(">i8")}, "read"),
    ("longdouble", {"logits": LOGITS.astype(np.longdouble)}, "either"),
    ("whole numbers", {"logits": LOGITS.astype(np.int32)}, "read"),
    ("complex", {"logits": LOGITS.astype(complex)}, "refused"),
    ("flags", {"logits": LOGITS > 0}, "refused"),
    ("text", {"logits": LOGITS.astype(str)}, "refused"),
    ("structured", {"logits": STRUCTURED}, "refused"),
    ("NaN", {"logits": np.where(LOGITS > 4, np.nan, LOGITS)}, "refused"),
    ("infinity", {"logits": np.where(LOGITS > 4, np.inf, LOGITS)}, "refused"),
    ("minus infinity", {"logits": np.where(LOGITS < -4, -np.inf, LOGITS)}, "either"),
    ("an epoch of NaN", {"logits": np.where(np.arange(6)[:, None, None] == 3, np.nan, LOGITS)}, "refused"),
    ("one class", {"logits": LOGITS[..., :1]}, "refused"),
    ("no class", {"logits": LOGITS[..., :0]}, "refused"),
    ("no epoch", {"logits": LOGITS[:0]}, "refused"),
    ("one epoch", {"logits": LOGITS[0]}, "read"),
    ("no sample", {"logits": LOGITS[:, :0], "labels": LABELS[:0]}, "refused"),
    ("one dimension", {"logits": LOGITS[0, :, 0]}, "refused"),
    ("four dimensions", {"logits": LOGITS[None]}, "refused"),
    ("samples first", {"logits": LOGITS.transpose(1, 0, 2)}, "refused"),
    ("1e30", {"logits": LOGITS * np.float32(1e30)}, "either"),
    ("1e300", {"logits": LOGITS.astype(float) * 1e300}, "either"),
    ("all the same", {"logits": np.zeros_like(LOGITS)}, "either"),
    ("labels too large", {"labels": LABELS + 1}, "refused"),
    ("labels of 10^7", {"labels": LABELS * 10**7}, "refused"),
    ("labels beyond 2^63", {"labels": LABELS.astype(np.uint64) + np.uint64(2**63)}, "refused"),
    ("negative labels", {"labels": LABELS - 1}, "refused"),
    ("labels with fractions", {"labels": LABELS + 0.5}, "refused"),
    ("labels with NaN", {"labels": np.where(LABELS == 1, np.nan, 0.0)}, "refused"),
    ("labels as text", {"labels": np.array(["no", "yes"])[LABELS]}, "refused"),
    ("structured labels", {"labels": STRUCTURED}, "refused"),
    ("labels of dates", {"labels": LABELS.astype("M8[D]")}, "refused"),
    ("too few labels", {"labels": LABELS[:-1]}, "refused"),
    ("one-hot labels", {"labels": np.eye(2)[LABELS]}, "refused"),
    ("no labels", {"labels": None}, "refused"),
    ("no logits", {"logits": None}, "refused"),
    ("repeated ids", {"ids": np.zeros(ROWS, int)}, "refused"),
    ("too few ids", {"ids": np.arange(3)}, "refused"),
    ("ids with NaN", {"ids": np.full(ROWS, np.nan)}, "refused"),
    ("structured ids", {"ids": STRUCTURED}, "refused"),
    ("ids of two dimensions", {"ids": np.arange(2 * ROWS).reshape(ROWS, 2)}, "refused"),
    ("ids beyond 2^53", {"ids": np.arange(ROWS) + 2**53}, "read"),
    ("too few class names", {"classes": np.array(["no"])}, "refused"),
    ("a repeated class name", {"classes": np.array(["no", "no"]), "labels": np.full(ROWS, "no")}, "refused"),
    ("class names of two dimensions", {"classes": np.array([["no", "yes"]])}, "refused"),
    ("a single class name", {"classes": np.array("no")}, "refused"),
    ("structured class names", {"classes": STRUCTURED[:2], "labels": STRUCTURED}, "refused"),
    ("features of another length", {"features": INPUTS[:-1]}, "refused"),
    ("features with NaN", {"features": np.full((ROWS, 4), np.nan)}, "refused"),
    ("features of one dimension", {"features": INPUTS[:, 0]}, "refused"),
    ("features as text", {"features": INPUTS.astype(str)}, "refused"),
    ("complex features", {"features": INPUTS.astype(complex)}, "refused"),
    ("inputs with infinity", {"inputs": np.full((ROWS, 4), np.inf)}, "refused"),
    ("features without columns", {"features": INPUTS[:, :0]}, "refused"),
    ("folds of another length", {"fold": np.zeros(3, int)}, "refused"),
    ("averaged logits of another shape", {"swa_logits": np.zeros((ROWS, 3))}, "refused"),
    ("averaged logits with NaN", {"swa_logits": np.full((ROWS, 2), np.nan)}, "refused"),
]


def cases() -> Iterator[Case]:
    """All malformed logits."""
    arrays = {"logits": LOGITS, "labels": LABELS}
    rank = command("rank", "logits.npz", "--top", "2")
    for name, (content, expected) in damaged_archives(arrays).items():
        yield Case(f"logits.npz: {name}", write("logits.npz", content), rank, expected, not_executed)
    for name, changes, expected in STRANGE_LOGITS:
        kept = {key: array for key, array in (arrays | changes).items() if array is not None}
        check = no_warning if name == "whole" else None
        yield Case(f"logits.npz: {name}", write("logits.npz", partial(npz, kept)), rank, expected, check)
    for name, values in NOTICE:
        prepare = write("logits.npz", partial(npz, {"logits": np.asarray(values), "labels": LABELS}))
        yield Case(f"logits.npz: {name} (must be noticed)", prepare, rank, "either", mentions(*NOTICED))
    yield from _npy_files()


def no_warning(folder: Path, output: str) -> str:
    """Check that real logits are accepted without a warning."""
    return output if "warning:" in output else ""


def _npy_files() -> Iterator[Case]:
    """Logits in one .npy file, labels in another."""

    def both(logits: bytes, labels: bytes) -> Callable[[Path], None]:
        return lambda folder: (write("logits.npy", logits)(folder), write("labels.npy", labels)(folder))[0]

    whole, labels = npy(LOGITS), npy(LABELS)
    pickled = npy(np.array([Marker()] * ROWS, dtype=object))
    work = command("rank", "logits.npy", "--labels", "labels.npy", "--top", "2")
    for name, files, expected in (
        ("whole", (whole, labels), "read"),
        ("logits cut", (whole[:-5], labels), "refused"),
        ("labels cut", (whole, labels[:-5]), "refused"),
        ("logits empty", (b"", labels), "refused"),
        ("labels empty", (whole, b""), "refused"),
        ("logits pickled", (pickled, labels), "refused"),
        ("labels pickled", (whole, pickled), "refused"),
        ("labels an archive", (whole, npz({"labels": LABELS})), "refused"),
        ("logits and labels exchanged", (labels, whole), "refused"),
        ("a lying header", (lying(LOGITS, "(999999, 48, 2)"), labels), "refused"),
        ("longer than its header says", (whole + bytes(64), labels), "either"),
        ("labels as text", (whole, b"0\n1\n"), "refused"),
        ("a header cut", (whole[:60], labels), "refused"),
        ("only the magic bytes", (whole[:6], labels), "refused"),
    ):
        yield Case(f"logits.npy: {name}", both(*files), work, expected, not_executed)  # type: ignore[arg-type]
    find = command("find", "logits.npy", "--label", "gone.npy")
    yield Case("logits.npy: labels missing", both(whole, labels), find)
