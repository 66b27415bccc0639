"""Record a Keras 3 training on torch: `model.fit(rec.with_rows(x), y, callbacks=[rec])`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from keras import __version__, backend, callbacks  # at the top: a callback has to be a keras Callback

from errata.core.checks import as_numpy
from errata.errors import InputError
from errata.integrations.batches import BatchOptions, BatchRecorder

INPUTS, ROWS = "inputs", "row"


class KerasRecorder(BatchRecorder, callbacks.Callback):  # type: ignore[misc]
    """A callback that keeps the logits of the training pass; Keras has to run on torch.

    model: the one to train, compiled or not. labels (N,): the given labels, of any type. classes: the names of the
    model's columns in their order, by default the labels sorted. Other options are those of `errata.Recorder`.
    Probabilities from a softmax or a sigmoid at the end of the model are recorded as the logits that went into it.
    """

    _how_to_record = "pass the recorder to model.fit in callbacks=[...]"

    def __init__(
        self,
        model: Any,
        path: str | Path | None = None,
        *,
        labels: Any,
        classes: Sequence[Any] | None = None,
        **options: Unpack[BatchOptions],
    ) -> None:
        if backend.backend() != "torch":
            raise InputError(
                f"Keras runs on {backend.backend()}, which shows no outputs of its compiled training; "
                "set KERAS_BACKEND=torch before Keras is imported"
            )
        BatchRecorder.__init__(self, path, f"keras {__version__}", labels, classes, options)
        callbacks.Callback.__init__(self)
        self._rows: Any = None
        self._batches = 0
        self._attach(model)

    def with_rows(self, x: Any) -> dict[str, Any]:
        """The inputs with the row of each, which shuffling keeps together; the model gets the inputs only.

        A data loader of your own yields the same: {"inputs": inputs, "row": rows} instead of the inputs.
        """
        samples = len(as_numpy(self._labels))
        first = x
        while isinstance(first, Mapping | list | tuple):
            first = next(iter(first.values() if isinstance(first, Mapping) else first))
        if len(first) != samples:
            raise InputError(f"there are {samples} labels for {len(first)} inputs")
        return {INPUTS: x, ROWS: np.arange(samples)}

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Called by Keras."""
        self._begin_epoch(epoch)
        self._batches = 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Called by Keras, also where stop_training ends the training within an epoch."""
        self._end_epoch(whole=self.params.get("steps") in (None, self._batches))

    def on_train_end(self, logs: Any = None) -> None:
        """Called by Keras; leaves the model as it was."""
        self._detach()

    def _attach(self, model: Any) -> None:
        train_step, test_step, compute_loss = model.train_step, model.test_step, model.compute_loss
        symbolic_build = model._symbolic_build

        def step_without_rows(data: Any) -> Any:
            self._rows, data = _apart(data)
            if self._rows is None:
                raise InputError("a batch does not say which samples are in it; fit the model on rec.with_rows(x)")
            return train_step(data)

        def loss_and_record(
            x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
        ) -> Any:
            if training and self._rows is not None:
                self._take_in(y_pred)
            return compute_loss(x, y, y_pred, sample_weight, training)

        def build_without_rows(iterator: Any = None, data_batch: Any = None) -> None:
            if data_batch is None:
                _, _, batches = next(iter(iterator))
                data_batch = batches[0]
            symbolic_build(data_batch=_apart(data_batch)[1])

        model.train_step = step_without_rows
        model.test_step = lambda data: test_step(_apart(data)[1])
        model.compute_loss = loss_and_record
        model._symbolic_build = build_without_rows  # fit() shows the model a batch before the first callback

        def detach() -> None:
            for name in ("train_step", "test_step", "compute_loss", "_symbolic_build"):
                delattr(model, name)

        self._detach: Callable[[], None] = detach

    def _take_in(self, outputs: Any) -> None:
        rows, self._rows = as_numpy(self._rows), None
        logits = getattr(outputs, "_keras_logits", outputs)  # where a softmax or a sigmoid came last
        self._keep_rows(rows, logits)
        self._batches += 1


def _apart(data: Any) -> tuple[Any, Any]:
    """The rows of a batch, if it has any, and the batch as the model knows it."""
    x, *rest = data if isinstance(data, tuple | list) else (data,)
    if not isinstance(x, Mapping) or set(x) != {INPUTS, ROWS}:
        return None, data
    return x[ROWS], (x[INPUTS], *rest)
