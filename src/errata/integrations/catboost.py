"""Record the rounds of a CatBoost model: `rec.record(model, pool)` after `fit`."""

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from errata.errors import InputError
from errata.integrations.margins import MarginRecorder, RecorderOptions


class CatBoostRecorder(MarginRecorder):
    """Keeps the margins of every sample after every round, from one walk through the trees of a fitted model.

    CatBoost trains on its samples in an order of its own that it tells nobody, so what it boosts on cannot be told
    apart by sample; `record` has the finished model add up its trees one by one instead. That takes time in proportion
    to rounds x samples, once.
    labels (N,): the given labels, of any type, by default those of the Pool. classes: the names of the model's columns
    in their order, by default its own. every: record every n-th round only. Other options are those of
    `errata.Recorder`.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        labels: Any | None = None,
        classes: Sequence[Any] | None = None,
        every: int = 1,
        **options: Unpack[RecorderOptions],
    ) -> None:
        from catboost import __version__

        super().__init__(path, f"catboost {__version__}", labels, classes, every, options)

    def record(self, model: Any, data: Any) -> None:
        """Keep the margins of the samples in `data`, a Pool or whatever `fit` was given."""
        from catboost import Pool

        if not model.is_fitted():
            raise InputError("the model is not fitted; call record() after fit()")
        if not len(model.classes_):
            raise InputError("the model does not tell classes apart; record a classifier")
        if self._labels is None and isinstance(data, Pool):
            self._labels = data.get_label()
        if self._labels is None:
            raise InputError("data has no labels; pass a Pool that has, or the given ones as labels=")
        self._begin()
        if self._classes is None:
            self._classes = np.asarray(model.classes_).tolist()
        stages: Iterable[NDArray[np.float64]] = model.staged_predict(
            data, prediction_type="RawFormulaVal", eval_period=self._every
        )
        for margins in islice(stages, model.tree_count_ // self._every):  # the last one may be of fewer rounds
            self._keep(margins, None)
