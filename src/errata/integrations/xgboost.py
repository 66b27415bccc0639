"""Record the rounds of an XGBoost training: `callbacks=[XGBoostRecorder(dtrain)]`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray
from xgboost import Booster, DMatrix, __version__  # at the top: a callback has to be a TrainingCallback
from xgboost.callback import TrainingCallback

from errata.errors import InputError
from errata.integrations.margins import MarginRecorder, RecorderOptions


class XGBoostRecorder(MarginRecorder, TrainingCallback):
    """A callback that keeps the margins of every sample after every round.

    data: the DMatrix trained on, whose margins XGBoost keeps up to date while it boosts, or another DMatrix; for the
    scikit-learn interface, which makes its DMatrix itself, the inputs passed to `fit`: of these each round's new trees
    are evaluated, and no others.
    labels (N,): the given labels, of any type, by default those of the DMatrix. classes: the names of the model's
    columns in their order, by default the labels sorted. every: record every n-th round only. Other options are those
    of `errata.Recorder`.
    """

    def __init__(
        self,
        data: Any,
        path: str | Path | None = None,
        *,
        labels: Any | None = None,
        classes: Sequence[Any] | None = None,
        every: int = 1,
        **options: Unpack[RecorderOptions],
    ) -> None:
        super().__init__(path, f"xgboost {__version__}", labels, classes, every, options)
        self._data = data if isinstance(data, DMatrix) else DMatrix(data, enable_categorical=True)
        self._trained_on = _labels(self._data)
        if labels is None and self._trained_on is None:
            raise InputError("data has no labels; pass the given ones as labels=")

    def before_training(self, model: Any) -> Any:
        """Called by XGBoost; refuses what is not one model's training."""
        if not isinstance(model, Booster):
            raise InputError("xgboost.cv trains several models at once; record one xgboost.train a fold")
        self._begin()
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: TrainingCallback.EvalsLog) -> bool:
        """Called by XGBoost after every round; never asks it to stop."""
        if self._is_due(epoch + 1):
            # XGBoost remembers the margins of a DMatrix and the trees they are of: only new trees are added.
            self._keep(model.predict(self._data, output_margin=True), self._trained_on)
        return False


def _labels(data: DMatrix) -> NDArray[np.float64] | None:
    """The labels (N,) of a DMatrix, if it has any."""
    labels = np.asarray(data.get_label(), dtype=np.float64)
    return labels if len(labels) else None
