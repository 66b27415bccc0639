"""Record a skorch training: `NeuralNetClassifier(..., train_split=None, callbacks=[SkorchRecorder()])`."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray
from skorch import __version__  # imported here because the recorder must be a skorch Callback
from skorch.callbacks import Callback

from errata.core.checks import as_numpy
from errata.errors import InputError
from errata.integrations.base import BatchOptions, BatchRecorder, log_odds_of, log_of


class SkorchRecorder(BatchRecorder, Callback):  # type: ignore[misc]
    """A callback that records the logits of the training pass.

    labels (N,): the given labels, of any type, by default the `y` passed to `fit`. `BatchOptions` lists the other
    options. If the criterion takes probabilities, as the default one does, their logarithms are recorded.

    >>> import skorch, torch
    >>> from errata.integrations import SkorchRecorder
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> recorder = SkorchRecorder()
    >>> options = {"max_epochs": 3, "train_split": None, "verbose": 0, "criterion": torch.nn.CrossEntropyLoss}
    >>> net = skorch.NeuralNetClassifier(torch.nn.Linear(4, 3), callbacks=[recorder], **options)
    >>> _ = net.fit(X.astype("float32"), y)
    >>> recorder.finish()
    Dynamics(3 epochs, 150 samples, 3 classes)
    """

    def __init__(
        self, path: str | Path | None = None, *, labels: Any | None = None, **options: Unpack[BatchOptions]
    ) -> None:
        super().__init__(path, f"skorch {__version__}", labels, options)
        self._rows: Any = None

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **others: Any) -> None:
        """Replace the training iterator by one that notes the rows of each batch."""
        if self._labels is None and y is None:
            raise InputError("fit was given no y; pass the given labels as labels=")
        self._labels = as_numpy(y) if self._labels is None else self._labels
        get_iterator = net.get_iterator

        def get_iterator_with_rows(dataset: Any, training: bool = False) -> Any:
            if not training:
                return get_iterator(dataset, training=False)
            _check_size(len(dataset), len(as_numpy(self._labels)))
            from torch.utils.data import StackDataset

            rows: Any = range(len(dataset))
            return _RowLoader(get_iterator(StackDataset(dataset, rows), training=True), self._set_rows)

        net.get_iterator = get_iterator_with_rows

    def on_epoch_begin(self, net: Any, **others: Any) -> None:
        self._begin_epoch(len(net.history) - 1)

    def on_batch_end(self, net: Any, batch: Any = None, training: Any = None, **step: Any) -> None:
        if not training:
            return
        outputs = step["y_pred"][0] if isinstance(step["y_pred"], tuple) else step["y_pred"]
        self._record_rows(self._rows, _logits(outputs, net.criterion_))

    def on_epoch_end(self, net: Any, **others: Any) -> None:
        self._end_epoch()

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **others: Any) -> None:
        """Also called after Ctrl-C; restores the iterator of the net."""
        del net.get_iterator

    def _set_rows(self, rows: NDArray[np.int64]) -> None:
        self._rows = rows


class _RowLoader:
    """A data loader that reports the rows of a batch before it yields the batch."""

    def __init__(self, loader: Any, set_rows: Callable[[NDArray[np.int64]], None]) -> None:
        if not hasattr(loader, "collate_fn"):
            raise InputError(f"iterator_train is a {type(loader).__name__}; only a torch DataLoader can be recorded")
        loader.collate_fn = partial(_collate_pairs, loader.collate_fn)
        self._loader, self._set_rows = loader, set_rows

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        for batch, rows in self._loader:
            self._set_rows(rows)
            yield batch


def _collate_pairs(collate: Callable[[Any], Any], pairs: list[tuple[Any, int]]) -> tuple[Any, NDArray[np.int64]]:
    """The samples collated as before, and their rows."""
    samples, rows = zip(*pairs, strict=True)
    return collate(list(samples)), np.array(rows)


def _check_size(train_samples: int, labels: int) -> None:
    if train_samples < labels:
        raise InputError(
            f"skorch trains on {train_samples} of the {labels} samples and validates on the others; "
            "set train_split=None to record all of them"
        )
    if train_samples > labels:
        raise InputError(f"there are {labels} labels for {train_samples} samples")


def _logits(outputs: Any, criterion: Any) -> NDArray[Any]:
    """The logits of a module's outputs. For NLLLoss these are probabilities: skorch takes the logarithm itself."""
    from torch import nn

    values = as_numpy(outputs)
    if isinstance(criterion, nn.NLLLoss):
        return log_of(values)
    return log_odds_of(values) if isinstance(criterion, nn.BCELoss) else values
