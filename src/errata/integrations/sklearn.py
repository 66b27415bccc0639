"""Record scikit-learn: a loop of `partial_fit`, or the stages of a boosted model."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import as_numpy
from errata.errors import InputError
from errata.integrations.batches import BatchOptions, BatchRecorder, log_of, two_columns
from errata.integrations.margins import MarginRecorder, RecorderOptions


class SklearnRecorder(BatchRecorder):
    """Keeps what a model says of every sample each time `record` is called.

    scikit-learn shows no outputs of its training pass: each call is a pass of its own over the inputs.
    inputs: what the model is trained on, N samples. labels (N,): their given labels, of any type. classes: the names of
    the model's columns in their order, by default its own. Other options are those of `errata.Recorder`.
    """

    _how_to_record = "call record(model) after every partial_fit"

    def __init__(
        self,
        inputs: Any,
        path: str | Path | None = None,
        *,
        labels: Any,
        classes: Sequence[Any] | None = None,
        **options: Unpack[BatchOptions],
    ) -> None:
        super().__init__(path, _version(), as_numpy(labels), classes, options)
        self._inputs = inputs

    def record(self, model: Any) -> None:
        """Keep what the model says now: the end of an epoch."""
        if self._classes is None:
            self._classes = _columns(model)
        logits = two_columns(_logits(model, self._inputs))
        if len(logits) != len(self._labels):
            raise InputError(f"there are {len(self._labels)} labels for {len(logits)} inputs")
        self._keep_rows(np.arange(len(logits)), logits)
        self._end_epoch()


class SklearnStageRecorder(MarginRecorder):
    """Keeps the margins of every sample after every stage of a fitted boosted model, in one walk through its trees.

    labels (N,): the given labels, of any type. classes: the names of the model's columns in their order, by default its
    own. every: record every n-th stage only. Other options are those of `errata.Recorder`.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        labels: Any,
        classes: Sequence[Any] | None = None,
        every: int = 1,
        **options: Unpack[RecorderOptions],
    ) -> None:
        super().__init__(path, _version(), labels, classes, every, options)

    def record(self, model: Any, inputs: Any) -> None:
        """Keep the stages of a fitted model on its training inputs."""
        stages = _stages(model, inputs)
        self._begin()
        if self._classes is None:
            self._classes = _columns(model)
        for stage, margins in enumerate(stages, start=1):
            if self._is_due(stage):
                self._keep(two_columns(margins), None)


def _version() -> str:
    from sklearn import __version__

    return f"scikit-learn {__version__}"


def _columns(model: Any) -> list[Any]:
    """The classes of a fitted model, in the order of its columns."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    if not hasattr(model, "classes_"):
        raise InputError(f"{type(model).__name__} does not tell classes apart; record a classifier")
    columns: list[Any] = np.asarray(model.classes_).tolist()
    return columns


def _logits(model: Any, inputs: Any) -> NDArray[Any]:
    """What a model says of its inputs: margins (n, K) or (n,) where it has them, or else log-probabilities (n, K)."""
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(inputs))
    if hasattr(model, "predict_proba"):
        return log_of(np.asarray(model.predict_proba(inputs)))
    raise InputError(f"{type(model).__name__} gives neither margins nor probabilities, only its choice of a class")


def _stages(model: Any, inputs: Any) -> Iterator[NDArray[Any]]:
    if not hasattr(model, "staged_decision_function"):
        raise InputError(
            f"{type(model).__name__} keeps no stages; record a gradient boosting, or a loop of partial_fit "
            "with SklearnRecorder"
        )
    stages: Iterator[NDArray[Any]] = model.staged_decision_function(inputs)
    return stages
