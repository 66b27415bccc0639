"""Record a Keras 3 training on torch: `model.fit(rec.with_rows(x), y, callbacks=[rec])`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from keras import __version__, backend, callbacks  # imported here because the recorder must be a Callback

from errata.core.checks import as_numpy
from errata.errors import InputError
from errata.integrations.base import BatchOptions, BatchRecorder

INPUTS, ROWS = "inputs", "row"


class KerasRecorder(BatchRecorder, callbacks.Callback):  # type: ignore[misc]
    """A callback that records the logits of the training pass; Keras must run on torch.

    model: the model to train, compiled or not. labels (N,): the given labels, of any type. `BatchOptions` lists the
    other options. If the model ends in a softmax or a sigmoid, the logits before it are recorded.

    >>> import keras  # with the environment variable KERAS_BACKEND=torch
    >>> from errata.integrations import KerasRecorder
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
    >>> model.compile("adam", "sparse_categorical_crossentropy")
    >>> recorder = KerasRecorder(model, labels=y)
    >>> _ = model.fit(recorder.with_rows(X), y, epochs=3, verbose=0, callbacks=[recorder])
    >>> recorder.finish()
    Dynamics(3 epochs, 150 samples, 3 classes)
    """

    _how_to_record = "pass the recorder to model.fit in callbacks=[...]"

    def __init__(
        self, model: Any, path: str | Path | None = None, *, labels: Any, **options: Unpack[BatchOptions]
    ) -> None:
        if backend.backend() != "torch":
            raise InputError(
                f"Keras runs on {backend.backend()}, which gives no access to the outputs of its compiled training; "
                "set KERAS_BACKEND=torch before Keras is imported"
            )
        BatchRecorder.__init__(self, path, f"keras {__version__}", labels, options)
        callbacks.Callback.__init__(self)
        self._rows: Any = None
        self._batches = 0
        self._attach(model)

    def with_rows(self, x: Any) -> dict[str, Any]:
        """The inputs with their rows, to pass to `fit`; the model receives the inputs only.

        Your own data loader yields {"inputs": inputs, "row": rows} instead of the inputs.

        >>> import keras, numpy as np
        >>> from errata.integrations import KerasRecorder
        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
        >>> sorted(KerasRecorder(model, labels=[0, 1]).with_rows(np.eye(2)))
        ['inputs', 'row']
        """
        samples = len(as_numpy(self._labels))
        first = x
        while isinstance(first, Mapping | list | tuple):
            first = next(iter(first.values() if isinstance(first, Mapping) else first))
        if len(first) != samples:
            raise InputError(f"there are {samples} labels for {len(first)} inputs")
        return {INPUTS: x, ROWS: np.arange(samples)}

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._begin_epoch(epoch)
        self._batches = 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Also called if stop_training ends the training within an epoch."""
        self._end_epoch(complete=self.params.get("steps") in (None, self._batches))

    def on_train_end(self, logs: Any = None) -> None:
        self._detach()

    def _attach(self, model: Any) -> None:
        train_step, test_step, compute_loss = model.train_step, model.test_step, model.compute_loss
        symbolic_build = model._symbolic_build

        def step_without_rows(data: Any) -> Any:
            self._rows, data = _split_rows(data)
            if self._rows is None:
                raise InputError("a batch has no rows; fit the model on rec.with_rows(x)")
            return train_step(data)

        def loss_and_record(
            x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
        ) -> Any:
            if training and self._rows is not None:
                self._record_outputs(y_pred)
            return compute_loss(x, y, y_pred, sample_weight, training)

        def build_without_rows(iterator: Any = None, data_batch: Any = None) -> None:
            if data_batch is None:
                _, _, batches = next(iter(iterator))
                data_batch = batches[0]
            symbolic_build(data_batch=_split_rows(data_batch)[1])

        model.train_step = step_without_rows
        model.test_step = lambda data: test_step(_split_rows(data)[1])
        model.compute_loss = loss_and_record
        model._symbolic_build = build_without_rows  # fit() builds the model from a batch first

        def detach() -> None:
            for name in ("train_step", "test_step", "compute_loss", "_symbolic_build"):
                delattr(model, name)

        self._detach: Callable[[], None] = detach

    def _record_outputs(self, outputs: Any) -> None:
        rows, self._rows = as_numpy(self._rows), None
        logits = getattr(outputs, "_keras_logits", outputs)  # set by a final softmax or sigmoid
        self._record_rows(rows, logits)
        self._batches += 1


def _split_rows(data: Any) -> tuple[Any, Any]:
    """The rows of a batch, or None if it has none, and the batch without them."""
    x, *rest = data if isinstance(data, tuple | list) else (data,)
    if not isinstance(x, Mapping) or set(x) != {INPUTS, ROWS}:
        return None, data
    return x[ROWS], (x[INPUTS], *rest)
