"""Record the rounds of an XGBoost training: `callbacks=[XGBoostRecorder(dtrain)]`."""

from pathlib import Path
from typing import Any, Unpack

import numpy as np
from xgboost import Booster, DMatrix, __version__  # imported here because the recorder must be a TrainingCallback
from xgboost.callback import TrainingCallback

from errata.errors import InputError
from errata.integrations.base import MarginOptions, MarginRecorder


class XGBoostRecorder(MarginRecorder, TrainingCallback):
    """A callback that records the margins of every sample after every round.

    data: the DMatrix trained on, whose margins XGBoost keeps up to date, or another DMatrix. For the scikit-learn
    interface, which makes its own DMatrix, pass the inputs of `fit`; each round, the new trees are evaluated for them.
    labels (N,): the given labels, of any type, by default those of the DMatrix. `MarginOptions` lists other options.

    >>> import xgboost
    >>> from errata.integrations import XGBoostRecorder
    >>> from sklearn.datasets import load_iris
    >>> data = xgboost.DMatrix(*load_iris(return_X_y=True))
    >>> options = {"objective": "multi:softprob", "num_class": 3}
    >>> recorder = XGBoostRecorder(data)
    >>> _ = xgboost.train(options, data, num_boost_round=3, callbacks=[recorder])
    >>> recorder.finish()
    Dynamics(3 epochs, 150 samples, 3 classes)
    """

    def __init__(
        self,
        data: Any,
        path: str | Path | None = None,
        *,
        labels: Any | None = None,
        **options: Unpack[MarginOptions],
    ) -> None:
        super().__init__(path, f"xgboost {__version__}", labels, options)
        self._data = data if isinstance(data, DMatrix) else DMatrix(data, enable_categorical=True)
        trained_labels = np.asarray(self._data.get_label(), dtype=np.float64)
        self._trained_labels = trained_labels if len(trained_labels) else None
        if labels is None and self._trained_labels is None:
            raise InputError("data has no labels; pass the given ones as labels=")

    def before_training(self, model: Any) -> Any:
        if not isinstance(model, Booster):
            raise InputError("xgboost.cv trains several models at once; record one xgboost.train per fold")
        self._begin()
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: TrainingCallback.EvalsLog) -> bool:
        """Returning False continues the training."""
        if self._is_recorded(epoch + 1):
            # XGBoost caches the margins of a DMatrix, so only the new trees are evaluated.
            self._record(model.predict(self._data, output_margin=True), self._trained_labels)
        return False
