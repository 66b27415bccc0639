"""All in-sample scores except CTRL from 100 epochs on disk, compared with one softmax pass over the file in numpy."""

import tempfile
from pathlib import Path

import numpy as np

import errata
from common import Row, print_rows, timed
from errata.core.methods import paper_methods

EPOCHS, SAMPLES, CLASSES = 100, 50_000, 10


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "logits.npy"
        labels = write_logits(path, EPOCHS, SAMPLES)

        def one_pass() -> float:
            total = 0.0
            for logits in np.load(path, mmap_mode="r"):
                exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
                total += float((exponentials / exponentials.sum(axis=1, keepdims=True))[0, 0])
            return total

        names = [method.name for method in paper_methods() if method.gathering == "in-sample"]
        names = [name for name in names if not name.startswith(("CTRL", "CL-"))]

        def all_scores() -> object:
            logits = np.load(path, mmap_mode="r")
            dynamics = errata.Dynamics.from_arrays(logits, labels, swa_logits=np.asarray(logits[-1]))
            return errata.score_many(dynamics, names)

        all_scores()
        peer, own = timed(one_pass, 5), timed(all_scores, 5)
    detail = f"{own:.2f} s against {peer:.2f} s; the target is at most 3 times the single pass: a ratio of 0.33"
    return [
        Row(
            f"{len(names)} scores of (100, 50000, 10) on disk",
            "np.load + softmax, one pass",
            peer / own,
            1 / 3,
            detail,
        )
    ]


def write_logits(path: Path, epochs: int, samples: int) -> np.ndarray:
    """Write the logits of a run that learns its labels. Returns the labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, samples)
    logits = np.lib.format.open_memmap(path, "w+", np.float32, (epochs, samples, CLASSES))
    for epoch, gain in enumerate(np.linspace(0, 5, epochs)):
        logits[epoch] = 2 * rng.normal(size=(samples, CLASSES))
        logits[epoch, np.arange(samples), labels] += gain
    logits.flush()
    return labels


if __name__ == "__main__":
    print_rows(run())
