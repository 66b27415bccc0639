"""Every aggregation window of a run at once: sums over segments are shared, so 1,275 windows cost about as much as two.

A window is a pair (start, end) of epochs, both included.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.aggregations import Last, Mean, MeanProb
from errata.core.checks import Floats
from errata.core.jit import over_blocks
from errata.core.methods import Composed, Method
from errata.core.replay import Epochs, fold_block, replay
from errata.errors import InputError

Window = tuple[int, int]
SEGMENT_BYTES = 1 << 24  # probabilities of all segments of one block of samples


def check_window(window: Window | None, epochs: int) -> slice:
    """A window as a slice of `epochs` epochs; None is the whole run."""
    if window is None:
        return slice(0, epochs)
    start, end = window
    if not 0 <= start <= end < epochs:
        raise InputError(f"window [{start}, {end}] is not within epochs 0..{epochs - 1}")
    return slice(int(start), int(end) + 1)


def epoch_grid(epochs: int, points: int = 50) -> NDArray[np.int64]:
    """The paper's equally spaced epochs, floor(linspace(0, E - 1, points)), each once."""
    return np.unique(np.floor(np.linspace(0, epochs - 1, points)).astype(np.int64))


def grid_windows(epochs: int, points: int = 50) -> list[Window]:
    """All windows that start and end on the grid: 1,275 for 50 points."""
    grid = epoch_grid(epochs, points).tolist()
    return [(start, end) for position, start in enumerate(grid) for end in grid[position:]]


def window_scores(epochs: Epochs, method: Method, windows: Sequence[Window]) -> Floats:
    """Scores (W, N) of one method over every window.

    Mean, MeanProb and Last share their work between windows; any other method is replayed window by window.
    """
    for window in windows:
        check_window(window, len(epochs.logits))
    if len(set(windows)) < len(windows):
        raise InputError("the same window is given twice")
    shared = isinstance(method, Composed) and isinstance(method.aggregation, Mean | MeanProb | Last)
    if not shared or epochs.allow_missing:
        return np.stack([replay(_slice(epochs, window), [method])[0].scores for window in windows])
    assert isinstance(method, Composed)
    _, samples, classes = epochs.logits.shape
    result = np.empty((len(windows), samples))
    segments = _Segments(windows)
    block_samples = max(1, SEGMENT_BYTES // (8 * classes * max(1, len(segments.bounds))))
    over_blocks(samples, block_samples, lambda block: segments.score(epochs, method, block, result))
    return result


class _Segments:
    """The run cut at every start and after every end of the windows: a window is a run of consecutive segments."""

    def __init__(self, windows: Sequence[Window]) -> None:
        spans = np.asarray(windows, dtype=np.int64).reshape(-1, 2)
        self.ends = spans[:, 1]
        cuts = np.unique(np.concatenate([spans[:, 0], spans[:, 1] + 1]))
        self.bounds = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
        self.first = np.searchsorted(cuts, spans[:, 0])
        self.last = np.searchsorted(cuts, spans[:, 1] + 1) - 1
        self.lengths = spans[:, 1] + 1 - spans[:, 0]

    def score(self, epochs: Epochs, method: Composed, block: slice, result: Floats) -> None:
        if isinstance(method.aggregation, Last):
            self._last(epochs, method, block, result)
        elif isinstance(method.aggregation, Mean):
            self._mean(epochs, method, block, result)
        else:
            self._mean_probability(epochs, method, block, result)

    def _folded(self, epochs: Epochs, method: Composed, block: slice, key: str) -> Floats:
        """The state `key` of the method's fold over every segment, (S, n, ...)."""
        return np.stack(
            [
                fold_block(_slice(epochs, (start, stop - 1)), [method.fold], block)[method.fold][key]
                for start, stop in self.bounds
            ]
        )

    def _last(self, epochs: Epochs, method: Composed, block: slice, result: Floats) -> None:
        for end in np.unique(self.ends):
            only = _slice(epochs, (int(end), int(end)))
            state = fold_block(only, [method.fold], block)[method.fold]
            result[self.ends == end, block] = method.rows(state, epochs.labels[block], 1)["scores"]

    def _mean(self, epochs: Epochs, method: Composed, block: slice, result: Floats) -> None:
        totals = self._folded(epochs, method, block, "total")
        for first in np.unique(self.first):
            running = np.cumsum(totals[first:], axis=0)
            mine = np.flatnonzero(self.first == first)
            result[mine, block] = running[self.last[mine] - first] / self.lengths[mine, None]

    def _mean_probability(self, epochs: Epochs, method: Composed, block: slice, result: Floats) -> None:
        from errata.core._measure_kernels import window_statistics

        probabilities = self._folded(epochs, method, block, "probabilities")
        wanted = np.full((len(self.bounds), len(self.bounds)), -1, dtype=np.int64)
        wanted[self.first, self.last] = np.arange(len(self.first))
        statistic = np.empty((len(result), block.stop - block.start))
        labels = epochs.labels[block]
        window_statistics(probabilities, labels, wanted, method.measure.statistic == "margin", statistic)
        result[:, block] = method.measure.of(statistic)


def _slice(epochs: Epochs, window: Window) -> Epochs:
    part: NDArray[Any] = epochs.logits[check_window(window, len(epochs.logits))]
    return Epochs(part, epochs.labels, allow_missing=epochs.allow_missing)
