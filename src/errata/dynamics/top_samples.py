"""The most suspicious samples of a run of any size: a part of the samples is in memory at a time."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Floats
from errata.core.rates import NoiseRate, from_positive
from errata.dynamics.ids import portable_ids

if TYPE_CHECKING:
    import pandas as pd


class TopSamples:
    """The `count` samples with the highest scores of all that were added, in the order of `errata.rank`."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._kept: tuple[NDArray[Any], Floats, NDArray[np.uint64]] | None = None

    def add(self, ids: NDArray[Any], scores: Floats) -> None:
        """Add samples; only the highest scores so far are kept. Of equal ones, a hash of the id decides."""
        import pandas as pd

        added = ids, scores, pd.util.hash_array(portable_ids(ids))
        if self._kept is not None:
            added = tuple(map(np.concatenate, zip(self._kept, added, strict=True)))  # type: ignore[assignment]
        order = np.lexsort((added[2], -added[1]))[: self._count]
        self._kept = added[0][order], added[1][order], added[2][order]

    @property
    def lowest(self) -> float:
        """The lowest of the kept scores: the quantile of all scores for a budget of `count` samples."""
        assert self._kept is not None
        return float(self._kept[1][-1])

    def table(self, method: str) -> "pd.DataFrame":
        """One row per sample, the most suspicious first: id, and its score in a column with the name of the method."""
        import pandas as pd

        assert self._kept is not None
        return pd.DataFrame({"id": self._kept[0], method: self._kept[1]})


class ScoreSummary:
    """What is known of the scores of a run after each of its samples was seen once, with a small state.

    top: how many samples are written; None: all. count_positive: estimate the share of wrong labels by positive scores.
    """

    def __init__(self, top: int | None, *, count_positive: bool = False) -> None:
        self._kept = None if top is None else TopSamples(top)
        self._positive = 0 if count_positive else None
        self._samples = 0

    def written(
        self, tables: "Iterable[pd.DataFrame]", advance: Callable[[int], object] = lambda samples: None
    ) -> "Iterator[pd.DataFrame]":
        """The tables to write, of ids and scores; those of the parts of a run, or at the end one of the top samples."""
        method = ""
        for table in tables:
            method = table.columns[1]
            scores = table[method].to_numpy()
            self._samples += len(table)
            if self._positive is not None:
                self._positive += int((scores > 0).sum())
            if self._kept is None:
                yield table
            else:
                self._kept.add(table["id"].to_numpy(), scores)
            advance(len(table))
        if self._kept is not None:
            yield self._kept.table(method)

    @property
    def lowest(self) -> float | None:
        """The lowest score that was written of the top samples; None if all samples were."""
        return None if self._kept is None else self._kept.lowest

    @property
    def rate(self) -> NoiseRate | None:
        """The share of samples for which the model prefers another class, if it was counted."""
        return None if self._positive is None else from_positive(self._positive, self._samples)
