"""All 1,275 windows of three methods at once, compared with replaying each window separately."""

import tempfile
from pathlib import Path

import numpy as np

from common import Row, peak_growth, print_rows, timed
from errata.core.methods import parse
from errata.core.replay import Epochs, replay
from errata.core.windows import grid_windows, window_scores
from replay import write_logits

EPOCHS, SAMPLES = 150, 50_000
METHODS = ("MeanProb-LM", "Mean-CE", "Last-CE")
WINDOWS_TIMED = 60


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "logits.npy"
        labels = write_logits(path, EPOCHS, SAMPLES)
        logits = np.load(path)
    epochs, windows = Epochs(logits, labels), grid_windows(EPOCHS)
    # Every 21st window is timed: all of them take minutes.
    sample = windows[:: len(windows) // WINDOWS_TIMED]
    own = peer = 0.0
    memory = 0
    for name in METHODS:
        method = parse(name)

        def all_windows(method=method):
            return window_scores(epochs, method, windows)

        def window_by_window(method=method):
            for start, end in sample:
                replay(Epochs(logits[start : end + 1], labels), [method])

        memory = max(memory, peak_growth(all_windows))
        own += timed(all_windows)
        peer += timed(window_by_window, 1) * len(windows) / len(sample)
    detail = f"{own:.1f} s against {peer:.0f} s (from {len(sample)} windows each); memory {memory / 1e9:.2f} GB"
    return [Row(f"{len(windows)} windows of {', '.join(METHODS)}", "errata, window by window", peer / own, 100, detail)]


if __name__ == "__main__":
    print_rows(run())
