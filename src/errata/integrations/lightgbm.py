"""Record the rounds of a LightGBM training: `callbacks=[LightGBMRecorder()]`."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from errata.errors import InputError
from errata.integrations.base import MarginOptions, MarginRecorder

if TYPE_CHECKING:
    from lightgbm import Booster, Dataset
    from lightgbm.callback import CallbackEnv

Floats = NDArray[np.float64]

LOWEST = float(np.log(np.finfo(np.float64).smallest_subnormal))
HIGHEST = -float(np.log(np.finfo(np.float64).epsneg))


class LightGBMRecorder(MarginRecorder):
    """A callback that records the margins of every sample after every round, from the scores that LightGBM keeps.

    data: the Dataset to record, by default the training set; another one must be in `valid_sets`.
    labels (N,): the given labels, of any type, by default the class numbers in the Dataset. `MarginOptions` lists the
    other options.

    >>> import lightgbm
    >>> from errata.integrations import LightGBMRecorder
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> options = {"objective": "multiclass", "num_class": 3, "verbose": -1}
    >>> recorder = LightGBMRecorder()
    >>> _ = lightgbm.train(options, lightgbm.Dataset(X, y), num_boost_round=3, callbacks=[recorder])
    >>> recorder.finish()
    Dynamics(3 epochs, 150 samples, 3 classes)
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        data: "Dataset | None" = None,
        labels: Any | None = None,
        **options: Unpack[MarginOptions],
    ) -> None:
        from lightgbm import __version__

        super().__init__(path, f"lightgbm {__version__}", labels, options)
        self._data = data
        self._objective: str | None = None

    def __call__(self, env: "CallbackEnv") -> None:
        from lightgbm import Booster

        if not isinstance(env.model, Booster):
            raise InputError("lightgbm.cv trains several models at once; record one lightgbm.train per fold")
        if env.iteration == env.begin_iteration:
            self._begin()
        if not self._is_recorded(env.iteration - env.begin_iteration + 1):
            return
        data = env.model.train_set if self._data is None else self._data
        if self._objective is None:
            self._objective = str(env.model.dump_model(num_iteration=1).get("objective", "custom")).split()[0]
        margins = _margins(_predictions(env.model, data), self._objective)
        self._record(margins, np.asarray(data.get_label(), dtype=np.float64))


def _predictions(model: "Booster", data: "Dataset") -> Floats:
    """The predictions for a Dataset from the scores that LightGBM keeps, so that no tree is evaluated again.

    LightGBM passes them to metrics only.
    """
    if all(one is not data for one in (model.train_set, *model.valid_sets)):
        raise InputError("the Dataset to record is neither the training set nor in valid_sets")
    received = []

    def metric(predictions: Floats, _: "Dataset") -> tuple[str, float, bool]:
        received.append(predictions)
        return "recorded", 0.0, True

    model.eval(data, "recorded", metric)
    return received[0]


def _margins(predictions: Floats, objective: str) -> Floats:
    """Margins from predictions, limited to where a probability is above 0 and below 1 in double precision.

    For several classes they are margins up to a constant per sample, which no measure depends on.
    """
    if objective == "custom":
        return predictions
    if objective not in ("multiclass", "binary", "cross_entropy", "multiclassova"):
        raise InputError(f"the objective {objective!r} is not one of classification; record a classifier")
    with np.errstate(divide="ignore"):
        margins = np.log(predictions)
        if objective != "multiclass":
            margins -= np.log1p(-predictions)
    if np.isfinite(margins).all():
        return margins
    warnings.warn(
        f"margins that LightGBM rounds to a probability of 0 or 1 are recorded as {LOWEST:.0f} or {HIGHEST:.0f}",
        stacklevel=2,
    )
    return np.clip(margins, LOWEST, HIGHEST)
