"""Record the rounds of a CatBoost model: `rec.record(model, pool)` after `fit`."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from errata.errors import InputError
from errata.integrations.base import MarginOptions, MarginRecorder


class CatBoostRecorder(MarginRecorder):
    """Records the margins of every sample after every round, from the trees of a fitted model.

    CatBoost trains on its samples in an order of its own, which it does not reveal. So `record` lets the fitted model
    add up its trees one by one, once, in time proportional to rounds x samples.
    labels (N,): the given labels, of any type, by default those of the Pool. `MarginOptions` lists the other options;
    classes are by default those of the model.

    >>> from catboost import CatBoostClassifier
    >>> from errata.integrations import CatBoostRecorder
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CatBoostClassifier(iterations=3, verbose=False, allow_writing_files=False).fit(X, y)
    >>> recorder = CatBoostRecorder(labels=y)
    >>> recorder.record(model, X)
    >>> recorder.finish()
    Dynamics(3 epochs, 150 samples, 3 classes)
    """

    def __init__(
        self, path: str | Path | None = None, *, labels: Any | None = None, **options: Unpack[MarginOptions]
    ) -> None:
        from catboost import __version__

        super().__init__(path, f"catboost {__version__}", labels, options)

    def record(self, model: Any, data: Any) -> None:
        """Record the samples in `data`: a Pool, or what was passed to `fit`."""
        from catboost import Pool

        if not model.is_fitted():
            raise InputError("the model is not fitted; call record() after fit()")
        if not len(model.classes_):
            raise InputError("the model is not a classifier")
        if self._labels is None and isinstance(data, Pool):
            self._labels = data.get_label()
        if self._labels is None:
            raise InputError("data has no labels; pass a Pool that has labels, or pass labels=")
        self._begin()
        if self._classes is None:
            self._classes = np.asarray(model.classes_).tolist()
        stages: Iterable[NDArray[np.float64]] = model.staged_predict(
            data, prediction_type="RawFormulaVal", eval_period=self._every
        )
        for margins in islice(stages, model.tree_count_ // self._every):  # the last stage may have fewer rounds
            self._record(margins, None)
