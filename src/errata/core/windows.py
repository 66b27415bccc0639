"""Scores over many aggregation windows of a run. Windows share sums over segments, so 1,275 cost about as much as two.

A window is a pair (start, end) of epochs, both included.
"""

from collections.abc import Sequence
from itertools import pairwise
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core._measure_kernels import window_ratios
from errata.core.aggregations import Last, Mean, MeanProb
from errata.core.checks import Floats
from errata.core.composed_method import ComposedMethod
from errata.core.jit import over_blocks, row_blocks
from errata.core.method_parts import SampleArrays
from errata.core.methods import Method
from errata.core.replay import Epochs, reduce_block, replay
from errata.errors import InputError

Window = tuple[int, int]
_BLOCK_NUMBERS = 1 << 21  # in a block of samples, for all segments
_CACHED_SAMPLES = 256  # processed together for all windows, so that they stay in the cache


def check_window(window: Window | None, epochs: int) -> slice:
    """A window as a slice of `epochs` epochs; None is the whole run."""
    if window is None:
        return slice(0, epochs)
    try:
        start, end = map(index, window)
    except (TypeError, ValueError):
        raise InputError(f"window must be two whole numbers, the first and last epoch, not {window!r}") from None
    if not 0 <= start <= end < epochs:
        raise InputError(f"window [{start}, {end}] is not within epochs 0..{epochs - 1}")
    return slice(start, end + 1)


def epoch_grid(epochs: int, points: int = 50) -> NDArray[np.int64]:
    """The paper's equally spaced epochs: the distinct values of floor(linspace(0, E - 1, points))."""
    return np.unique(np.floor(np.linspace(0, epochs - 1, points)).astype(np.int64))


def grid_windows(epochs: int, points: int = 50) -> list[Window]:
    """All windows that start and end on the grid: 1,275 for 50 points."""
    grid = epoch_grid(epochs, points).tolist()
    return [(start, end) for position, start in enumerate(grid) for end in grid[position:]]


def window_scores(epochs: Epochs, method: Method, windows: Sequence[Window]) -> Floats:
    """Scores (W, N) of one method over every window.

    Mean, MeanProb and Last share work between windows; other methods are replayed for every window.
    """
    for window in windows:
        check_window(window, len(epochs.logits))
    if len(set(windows)) < len(windows):
        raise InputError("the same window is given twice")
    composed = isinstance(method, ComposedMethod) and not method.uses_other_samples
    if not composed or epochs.allow_missing or type(method.aggregation) not in (Last, Mean, MeanProb):
        return np.stack([replay(_slice(epochs, window), [method])[0].scores for window in windows])
    assert isinstance(method, ComposedMethod)
    segments = _Segments(windows)
    result = np.empty((len(windows), epochs.logits.shape[1]))
    blocks, work = {
        Last: (_BLOCK_NUMBERS, segments.last),
        Mean: (_BLOCK_NUMBERS // len(segments.bounds), segments.mean),
        MeanProb: (_BLOCK_NUMBERS // (len(segments.bounds) * epochs.logits.shape[2]), segments.mean_probability),
    }[type(method.aggregation)]
    over_blocks(len(epochs.labels), max(1, blocks), lambda block: work(epochs, method, block, result))
    return result


class _Segments:
    """The epochs, cut at the start and after the end of every window, so that a window consists of whole segments.

    first: each window's first segment (W,). window_at[i, j]: the window from segment i to segment j, or -1.
    """

    def __init__(self, windows: Sequence[Window]) -> None:
        self.windows = list(windows)
        spans = np.asarray(windows, dtype=np.int64)
        cuts = np.unique(np.concatenate([spans[:, 0], spans[:, 1] + 1]))
        self.bounds = [(int(start), int(stop) - 1) for start, stop in pairwise(cuts)]
        self.first = np.searchsorted(cuts, spans[:, 0])
        self.window_at = np.full((len(self.bounds),) * 2, -1, dtype=np.int64)
        self.window_at[self.first, np.searchsorted(cuts, spans[:, 1] + 1) - 1] = np.arange(len(windows))
        self.ends = spans[:, 1]
        self.lengths = spans[:, 1] + 1 - spans[:, 0]

    def last(self, epochs: Epochs, method: ComposedMethod, block: slice, result: Floats) -> None:
        """Write the scores of the last epoch of every window."""
        for end in np.unique(self.ends):
            (state,) = _folded(epochs, method, [(int(end), int(end))], block)
            result[self.ends == end, block] = method.sample_arrays(state, epochs.labels[block], 1)["scores"]

    def mean(self, epochs: Epochs, method: ComposedMethod, block: slice, result: Floats) -> None:
        """Write means, from running sums that start at each first segment."""
        totals = [state["total"] for state in _folded(epochs, method, self.bounds, block)]
        for first in np.unique(self.first):
            running = np.zeros(block.stop - block.start)
            for segment in range(first, len(totals)):
                running += totals[segment]
                window = self.window_at[first, segment]
                if window >= 0:
                    np.divide(running, self.lengths[window], out=result[window, block])

    def mean_probability(self, epochs: Epochs, method: ComposedMethod, block: slice, result: Floats) -> None:
        """Write the measure of summed probabilities; the divisor of the mean cancels out."""
        states = _folded(epochs, method, self.bounds, block)
        labels = epochs.labels[block]
        every = np.arange(len(labels))
        label_first = np.stack([state["probabilities"] for state in states])
        label_first[:, every, labels], label_first[:, :, 0] = (
            label_first[:, :, 0].copy(),
            label_first[:, every, labels].copy(),
        )
        ratios = np.empty((len(self.windows), len(labels)))
        for part in row_blocks(len(labels), _CACHED_SAMPLES):
            few = np.ascontiguousarray(label_first[:, part].transpose(0, 2, 1))
            window_ratios(few, self.window_at, method.measure.statistic == "margin", ratios[:, part])
        tiny = np.flatnonzero(label_first.min(axis=(0, 2)) < 0)  # stored as logarithms, which cannot be added here
        ratios[:, tiny] = 1.0
        result[:, block] = method.measure.formula(np.log(ratios, out=ratios))
        if len(tiny):
            rows = block.start + tiny
            samples = Epochs(epochs.logits[:, rows], epochs.labels[rows])
            result[:, rows] = [replay(_slice(samples, window), [method])[0].scores for window in self.windows]


def _folded(epochs: Epochs, method: ComposedMethod, windows: Sequence[Window], block: slice) -> list[SampleArrays]:
    """The states of the method's reduction over every window, for one block of samples."""
    return [reduce_block(_slice(epochs, window), [method.reduction], block)[method.reduction] for window in windows]


def _slice(epochs: Epochs, window: Window) -> Epochs:
    part: NDArray[Any] = epochs.logits[check_window(window, len(epochs.logits))]
    return Epochs(part, epochs.labels, allow_missing=epochs.allow_missing, context=epochs.context)
