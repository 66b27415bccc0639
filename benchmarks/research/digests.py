"""Reduce stored dynamics to what the study needs, so that the files of GPU runs are small enough to copy.

    python -m errata bench run --setting cifar10n-worse --keep-dynamics --out results
    python benchmarks/research/digests.py results digests

The digest of a run contains features (8 bits per number), probabilities averaged over parts of the run (16 bits, or 8
bits of their logarithm if there are many classes), and the agreement of each epoch with the given labels.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.store import Dynamics

MANY_CLASSES = 30
LOG_STEPS = 16  # steps per nat in the 8-bit code
BLOCK = 5000


@dataclass(frozen=True)
class Digest:
    """A reduced run: log_parts (P, N, K) over P equal parts of its epochs; other arrays have one row per sample."""

    labels: NDArray[np.int64]
    log_parts: NDArray[np.float32]
    features: NDArray[np.float32] | None
    inputs: NDArray[np.float32] | None
    agreement: NDArray[np.float32]
    loss: NDArray[np.float32]
    epochs: int


def write(dynamics: Dynamics, path: Path) -> None:
    """Write the digest of a run to one .npz file."""
    assert dynamics.logits is not None
    parts = 2 if dynamics.num_classes > MANY_CLASSES else 4
    log_parts, agreement, loss = _parts(dynamics, parts)
    arrays = {"labels": dynamics.labels.astype(np.uint8), "agreement": agreement, "loss": loss}
    if dynamics.num_classes > MANY_CLASSES:
        arrays["log_code"] = np.clip(np.round(-log_parts * LOG_STEPS), 0, 255).astype(np.uint8)
    else:
        arrays["log_parts"] = np.maximum(log_parts, -60000).astype(np.float16)
    if dynamics.features is not None:
        values = np.asarray(dynamics.features, dtype=np.float32)
        low, high = values.min(axis=0), values.max(axis=0)
        scale = np.where(high > low, (high - low) / 255, 1)
        arrays |= {"low": low, "scale": scale, "code": np.round((values - low) / scale).astype(np.uint8)}
    if dynamics.inputs is not None:
        arrays["inputs"] = np.asarray(dynamics.inputs, dtype=np.float32)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, epochs=np.int64(dynamics.epochs), **arrays)


def read(path: Path) -> Digest:
    """A digest from its file."""
    with np.load(path) as stored:
        coded = "log_code" in stored
        log_parts = -stored["log_code"].astype(np.float32) / LOG_STEPS if coded else stored["log_parts"]
        features = stored["low"] + stored["code"] * stored["scale"] if "code" in stored else None
        return Digest(
            labels=stored["labels"].astype(np.int64),
            log_parts=log_parts.astype(np.float32),
            features=None if features is None else features.astype(np.float32),
            inputs=stored.get("inputs", None),
            agreement=stored["agreement"],
            loss=stored["loss"],
            epochs=int(stored["epochs"]),
        )


def _parts(dynamics: Dynamics, parts: int) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    from scipy.special import log_softmax

    assert dynamics.logits is not None
    epochs, samples, classes = dynamics.logits.shape
    bounds = np.linspace(0, epochs, min(parts, epochs) + 1).astype(int)
    log_parts = np.empty((len(bounds) - 1, samples, classes), dtype=np.float32)
    agreement, loss = np.zeros(epochs, dtype=np.float64), np.zeros(epochs, dtype=np.float64)
    for start in range(0, samples, BLOCK):
        block = slice(start, start + BLOCK)
        labels = dynamics.labels[block]
        log_p = log_softmax(np.asarray(dynamics.logits[:, block], dtype=np.float32), axis=2)
        for part in range(len(bounds) - 1):
            mean = np.exp(log_p[bounds[part] : bounds[part + 1]]).mean(axis=0)
            log_parts[part, block] = np.log(np.maximum(mean, 1e-30))
        agreement += (log_p.argmax(axis=2) == labels).sum(axis=1)
        loss -= log_p[:, np.arange(len(labels)), labels].sum(axis=1)
    return log_parts, (agreement / samples).astype(np.float32), (loss / samples).astype(np.float32)


def main(results: Path, out: Path) -> None:
    """Write the missing digests of the runs in results/work."""
    for folder in sorted((results / "work").glob("*-in-sample/seed*/dynamics")):
        setting = folder.parents[1].name.removesuffix("-in-sample")
        path = out / f"{setting}.{folder.parent.name}.npz"
        if not path.exists() and (folder.parent / "trained.pt").exists():
            write(Dynamics.open(folder), path)
            print(path.name, f"{path.stat().st_size / 2**20:.1f} MiB", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
