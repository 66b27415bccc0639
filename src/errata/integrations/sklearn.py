"""Record scikit-learn: a loop of `partial_fit`, or the stages of a boosted model."""

from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import as_numpy
from errata.errors import InputError
from errata.integrations.base import BatchOptions, BatchRecorder, MarginOptions, MarginRecorder, log_of, two_columns


class SklearnRecorder(BatchRecorder):
    """Records the outputs of a model for every sample each time `record` is called.

    scikit-learn gives no access to the outputs of its training pass, so each call evaluates all inputs.
    inputs: the N training samples. labels (N,): their given labels, of any type. `BatchOptions` lists the other
    options; classes are by default those of the model.

    >>> from errata.integrations import SklearnRecorder
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import SGDClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model, recorder = SGDClassifier(random_state=0), SklearnRecorder(X, labels=y)
    >>> for epoch in range(3):
    ...     recorder.record(model.partial_fit(X, y, classes=range(3)))
    >>> recorder.finish()
    Dynamics(3 epochs, 150 samples, 3 classes)
    """

    _how_to_record = "call record(model) after every partial_fit"

    def __init__(
        self, inputs: Any, path: str | Path | None = None, *, labels: Any, **options: Unpack[BatchOptions]
    ) -> None:
        super().__init__(path, _version(), as_numpy(labels), options)
        self._inputs = inputs

    def record(self, model: Any) -> None:
        """Record the outputs of the model at the end of an epoch."""
        if self._classes is None:
            self._classes = _model_classes(model)
        logits = two_columns(_logits(model, self._inputs))
        if len(logits) != len(self._labels):
            raise InputError(f"there are {len(self._labels)} labels for {len(logits)} inputs")
        self._record_rows(np.arange(len(logits)), logits)
        self._end_epoch()


class SklearnStageRecorder(MarginRecorder):
    """Records the margins of every sample after every stage of a fitted boosted model.

    labels (N,): the given labels, of any type. `MarginOptions` lists the other options; classes are by default those of
    the model.

    >>> from errata.integrations import SklearnStageRecorder
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> recorder = SklearnStageRecorder(labels=y)
    >>> recorder.record(HistGradientBoostingClassifier(max_iter=3).fit(X, y), X)
    >>> recorder.finish()
    Dynamics(3 epochs, 150 samples, 3 classes)
    """

    def __init__(self, path: str | Path | None = None, *, labels: Any, **options: Unpack[MarginOptions]) -> None:
        super().__init__(path, _version(), labels, options)

    def record(self, model: Any, inputs: Any) -> None:
        """Record the stages of a fitted model for its training inputs."""
        if not hasattr(model, "staged_decision_function"):
            raise InputError(
                f"{type(model).__name__} has no stages; record gradient boosting, or a loop of partial_fit "
                "with SklearnRecorder"
            )
        self._begin()
        if self._classes is None:
            self._classes = _model_classes(model)
        for stage, margins in enumerate(model.staged_decision_function(inputs), start=1):
            if self._is_recorded(stage):
                self._record(margins, None)


def _version() -> str:
    from sklearn import __version__

    return f"scikit-learn {__version__}"


def _model_classes(model: Any) -> list[Any]:
    """The classes of a fitted model, in the order of its outputs."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    if not hasattr(model, "classes_"):
        raise InputError(f"{type(model).__name__} is not a classifier")
    classes: list[Any] = np.asarray(model.classes_).tolist()
    return classes


def _logits(model: Any, inputs: Any) -> NDArray[Any]:
    """The margins (n, K) or (n,) of a model if it has them, else its log-probabilities (n, K)."""
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(inputs))
    if hasattr(model, "predict_proba"):
        return log_of(np.asarray(model.predict_proba(inputs)))
    raise InputError(f"{type(model).__name__} has neither decision_function nor predict_proba")
