"""Record the rounds of a LightGBM training: `callbacks=[LightGBMRecorder()]`."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from errata.errors import InputError
from errata.integrations.margins import MarginRecorder, RecorderOptions

if TYPE_CHECKING:
    from lightgbm import Booster, Dataset
    from lightgbm.callback import CallbackEnv

Floats = NDArray[np.float64]

LOWEST = float(np.log(np.finfo(np.float64).smallest_subnormal))
HIGHEST = -float(np.log(np.finfo(np.float64).epsneg))


class LightGBMRecorder(MarginRecorder):
    """A callback that keeps the margins of every sample after every round, from the scores LightGBM boosts on.

    data: the Dataset to record, by default the one trained on; another has to be among `valid_sets`.
    labels (N,): the given labels, of any type, by default the class numbers in the Dataset. classes: the names of the
    model's columns in their order, by default the labels sorted, as LGBMClassifier has them. every: record every n-th
    round only. Other options are those of `errata.Recorder`.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        data: "Dataset | None" = None,
        labels: Any | None = None,
        classes: Sequence[Any] | None = None,
        every: int = 1,
        **options: Unpack[RecorderOptions],
    ) -> None:
        from lightgbm import __version__

        super().__init__(path, f"lightgbm {__version__}", labels, classes, every, options)
        self._data = data
        self._as_margins: Callable[[Floats], Floats] | None = None

    def __call__(self, env: "CallbackEnv") -> None:
        """Called by LightGBM after every round."""
        from lightgbm import Booster

        if not isinstance(env.model, Booster):
            raise InputError("lightgbm.cv trains several models at once; record one lightgbm.train a fold")
        if env.iteration == env.begin_iteration:
            self._begin()
        if self._is_due(env.iteration - env.begin_iteration + 1):
            self._record(env.model)

    def _record(self, model: "Booster") -> None:
        data = model.train_set if self._data is None else self._data
        if self._as_margins is None:
            self._as_margins = _inverse_link(model)
        self._keep(self._as_margins(_predictions(model, data)), np.asarray(data.get_label(), dtype=np.float64))


def _predictions(model: "Booster", data: "Dataset") -> Floats:
    """What the model says of a Dataset, from the scores it boosts on: no tree is walked again."""
    index = next((i for i, one in enumerate([model.train_set, *model.valid_sets]) if one is data), None)
    if index is None:
        raise InputError("the Dataset to record is neither the one trained on nor in valid_sets")
    of_scores: Callable[..., Floats] | None = getattr(model, "_Booster__inner_predict", None)
    return _shown_to_a_metric(model, data) if of_scores is None else of_scores(data_idx=index)


def _shown_to_a_metric(model: "Booster", data: "Dataset") -> Floats:
    """The same the public way, which takes longer: every metric of the training is worked out besides."""
    shown = []

    def look(predictions: Floats, _: "Dataset") -> tuple[str, float, bool]:
        shown.append(predictions)
        return "recorded", 0.0, True

    model.eval(data, "recorded", look)
    return shown[0]


def _inverse_link(model: "Booster") -> Callable[[Floats], Floats]:
    """What turns predictions, as a metric is shown them, back into margins."""
    objective = str(model.dump_model(num_iteration=1).get("objective", "custom")).split()[0]
    if objective == "multiclass":
        return _log
    if objective in ("binary", "cross_entropy", "multiclassova"):
        return _log_odds
    if objective == "custom":
        return np.asarray
    raise InputError(f"the objective {objective!r} does not tell classes apart; record a classifier")


def _log(probabilities: Floats) -> Floats:
    """Margins but for a constant a sample, which no measure sees."""
    with np.errstate(divide="ignore"):
        return _bounded(np.log(probabilities))


def _log_odds(probabilities: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return _bounded(np.log(probabilities) - np.log1p(-probabilities))


def _bounded(margins: Floats) -> Floats:
    """Margins at which a probability is still above 0 and below 1 in double precision."""
    if np.isfinite(margins).all():
        return margins
    warnings.warn(
        f"margins that LightGBM rounds to a probability of 0 or 1 are recorded as {LOWEST:.0f} or {HIGHEST:.0f}",
        stacklevel=2,
    )
    return np.clip(margins, LOWEST, HIGHEST)
