"""The n-th largest value of each of many groups of a run in parts: exact, with a small state.

A value has a key of several words of 64 bits, and the n-th largest value has the n-th smallest key. Words 0 and 1 are
those of the value, words 2 and 3 decide between equal values:

0. its place between -1 and 1 in fixed point, so that bins of equal width divide values evenly;
1. its bits, in the order of values;
2. a hash of what else is known of the sample; 3. a hash of its row, which no other sample has.

A RankSelection knows, for each group, between which keys the wanted one is. A round counts the keys in bins of the
first word that is not known yet, and the bin of the wanted key is kept. Once at most MOST_COLLECTED keys are left in
all groups together, a round collects and sorts them. So the state does not grow with the run, however close values are.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Floats
from errata.core.factored_method import State

Words = NDArray[np.uint64]
Numbers = NDArray[Any]

HISTOGRAM_CELLS, MOST_BINS, FEWEST_BINS = 1 << 22, 1024, 16
MOST_COLLECTED = 1 << 18
_LARGEST = np.uint64(2**64 - 1)
_SIGN = np.uint64(1 << 63)


class GroupValues(NamedTuple):
    """Values (M,) of some samples of a part: the group of each, its place between -1 and 1 in the same order, its row.

    ties: words 2 and 3 of all rows, or None if equal values are all wanted.
    """

    groups: Numbers
    places: Floats
    values: Floats
    rows: Numbers
    ties: Callable[[], tuple[Words, Words]] | None = None

    def words(self, chosen: Numbers, first: int, count: int) -> list[Words]:
        """`count` words of the chosen candidates, from the word `first` on."""
        found: list[Words] = []
        if first < 2:
            fixed_point = ((np.clip(self.places[chosen], -1, 1) + 1) * 2.0**62).astype(np.uint64)
            bits = (self.values[chosen].astype(np.float64) + 0.0).view(np.uint64)  # -0.0 becomes 0.0
            ordered = np.where(bits & _SIGN, ~bits, bits | _SIGN)
            found = [~fixed_point, ~ordered][first:]
        if first + count > 2 and self.ties is not None:
            found += [hashes[self.rows[chosen]] for hashes in self.ties()[max(0, first - 2) :]]
        return found[:count]


@dataclass(frozen=True)
class Extent:
    """The smallest and largest keys of each group, (W, G) each; extents of parts are added."""

    low: Words
    high: Words

    def __add__(self, other: "Extent") -> "Extent":
        return Extent(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


@dataclass(frozen=True)
class RankSelection:
    """What is known of the wanted keys of G groups.

    ranks (G,): which of the keys that are left is wanted, from 1; 0: none. low, high (W, G): the words of a key that is
    left are between these. left (G,): how many keys are left.
    """

    ranks: NDArray[np.int64]
    low: Words
    high: Words
    left: NDArray[np.int64]
    counted: bool = False

    @classmethod
    def start(cls, groups: int, words: int) -> "RankSelection":
        """Nothing is known, and a key of every group is wanted."""
        low = np.zeros((words, groups), dtype=np.uint64)
        low[0] = _SIGN - np.uint64(1)  # places between 0 and 2^63, complemented
        every = np.ones(groups, dtype=np.int64)
        return cls(every, low, np.full_like(low, _LARGEST), every * np.iinfo(np.int32).max)

    @property
    def _open(self) -> NDArray[np.bool_]:
        """The groups whose wanted key is not known."""
        return np.asarray((self.ranks > 0) & (self.low != self.high).any(axis=0))

    @property
    def done(self) -> bool:
        """Whether the wanted keys of all groups are known."""
        return not self._open.any()

    @property
    def _collects(self) -> bool:
        return int(self.left[self._open].sum()) <= MOST_COLLECTED

    def state(self, parts: Iterable[GroupValues]) -> State:
        """What a part of a run adds to the next round."""
        words, groups = self.low.shape
        collected: list[tuple[Numbers, Words]] = []
        bins = _bins(groups)
        histogram = np.zeros((0 if self._collects else groups, bins), dtype=np.int64)
        extent = Extent(np.full_like(self.low, _LARGEST), np.zeros_like(self.low))
        level = np.argmax(self.low != self.high, axis=0)
        level_low, width = self._bin_widths(level, bins)
        for part in parts:
            kept, keys = self._inside(part)
            group = part.groups[kept]
            if not len(group):
                continue
            if self._collects:
                collected.append((group, keys))
                continue
            key = keys[level[group], np.arange(len(group))] if len(keys) > 1 else keys[0]
            cells = ((key - level_low[group]) // width[group]).astype(np.int64)
            first, end = int(group.min()), int(group.max()) + 1
            counts = np.bincount((group - first) * bins + cells, minlength=(end - first) * bins)
            histogram[first:end] += counts.reshape(-1, bins)
            for word in range(words if self.counted else 0):
                np.minimum.at(extent.low[word], group, keys[word])
                np.maximum.at(extent.high[word], group, keys[word])
        if self._collects:
            return {"collected": tuple(collected)}
        return {"histogram": histogram} | ({"extent": extent} if self.counted else {})

    def narrowed(self, state: State) -> "RankSelection":
        """What is known after a round, from the sum of the states of all parts."""
        if "collected" in state:
            return self._found(state["collected"])
        still, level, every = self._open, np.argmax(self.low != self.high, axis=0), np.arange(len(self.ranks))
        histogram = state["histogram"]
        bins = histogram.shape[1]
        level_low, width = self._bin_widths(level, bins)
        reached = np.cumsum(histogram, axis=1)
        place = np.minimum((reached < self.ranks[:, None]).sum(axis=1), bins - 1)
        low, high = self.low.copy(), self.high.copy()
        first = level_low + place.astype(np.uint64) * width
        high[level, every] = first + np.minimum(high[level, every] - first, width - np.uint64(1))
        low[level, every] = first
        if "extent" in state:
            low, high = np.maximum(low, state["extent"].low), np.minimum(high, state["extent"].high)
        count = histogram[every, place]
        return RankSelection(
            ranks=np.where(still, self.ranks - (reached[every, place] - count), self.ranks),
            low=np.where(still, low, self.low),
            high=np.where(still, high, self.high),
            left=count,
            counted=True,
        )

    def reached(self, part: GroupValues) -> NDArray[np.bool_]:
        """True (M,) for values that are at least as large as the wanted one of their group."""
        result = np.zeros(len(part.groups), dtype=np.bool_)
        equal = np.flatnonzero(self.ranks[part.groups] > 0)
        for word in range(len(self.low)):
            (key,), bound = part.words(equal, word, 1), self.low[word, part.groups[equal]]
            result[equal[key < bound]] = True
            equal = equal[key == bound]
            if not len(equal):
                break
        result[equal] = True
        return result

    def _inside(self, part: GroupValues) -> tuple[Numbers, Words]:
        """Which candidates (m,) are left, and their words (W, m); before the first count all, and word 0 (1, m)."""
        kept = np.flatnonzero(self._open[part.groups])
        if not self.counted:
            return kept, np.array(part.words(kept, 0, 1))
        for first, count in ((0, 2), (2, 2))[: len(self.low) // 2]:
            group = part.groups[kept]
            inside = np.ones(len(kept), dtype=np.bool_)
            for number, word in enumerate(part.words(kept, first, count), first):
                inside &= (self.low[number, group] <= word) & (word <= self.high[number, group])
            kept = kept[inside]
        return kept, np.array(part.words(kept, 0, len(self.low)))

    def _bin_widths(self, level: Numbers, bins: int) -> tuple[Words, Words]:
        """The first key and the width of the bins of each group (G,)."""
        low, high = (np.take_along_axis(bound, level[None], axis=0)[0] for bound in (self.low, self.high))
        return low, (high - low) // np.uint64(bins) + np.uint64(1)

    def _found(self, collected: Iterable[tuple[Numbers, Words]]) -> "RankSelection":
        """The wanted keys, among all that are left."""
        groups = np.concatenate([group for group, _ in collected])
        keys = np.concatenate([words for _, words in collected], axis=1)
        order = np.lexsort((*keys[::-1], groups))
        unknown = np.flatnonzero(self._open)
        at = order[np.searchsorted(groups[order], unknown) + self.ranks[unknown] - 1]
        low = self.low.copy()
        low[:, unknown] = keys[:, at]
        high = self.high.copy()
        high[:, unknown] = keys[:, at]
        return replace(self, low=low, high=high)


def _bins(groups: int) -> int:
    return int(np.clip(HISTOGRAM_CELLS // groups, FEWEST_BINS, MOST_BINS))
