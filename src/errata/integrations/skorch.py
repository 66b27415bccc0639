"""Record a skorch training: `NeuralNetClassifier(..., train_split=None, callbacks=[SkorchRecorder()])`."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray
from skorch import __version__  # at the top: a callback has to be a skorch Callback
from skorch.callbacks import Callback

from errata.core.checks import as_numpy
from errata.errors import InputError
from errata.integrations.batches import BatchOptions, BatchRecorder, log_odds_of, log_of


class SkorchRecorder(BatchRecorder, Callback):  # type: ignore[misc]
    """A callback that keeps the logits of the training pass.

    labels (N,): the given labels, of any type, by default the `y` passed to `fit`. classes: the names of the model's
    columns in their order, by default the labels sorted. Other options are those of `errata.Recorder`.
    Probabilities, which the default criterion asks of a module, are recorded as their logarithms.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        labels: Any | None = None,
        classes: Sequence[Any] | None = None,
        **options: Unpack[BatchOptions],
    ) -> None:
        super().__init__(path, f"skorch {__version__}", labels, classes, options)
        self._rows: Any = None

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **others: Any) -> None:
        """Called by skorch; lets the batches of the training set say which rows they have."""
        if self._labels is None and y is None:
            raise InputError("fit was given no y; pass the given labels as labels=")
        self._labels = as_numpy(y) if self._labels is None else self._labels
        get_iterator = net.get_iterator

        def get_numbered_iterator(dataset: Any, training: bool = False) -> Any:
            if not training:
                return get_iterator(dataset, training=False)
            _refuse_a_part(len(dataset), len(as_numpy(self._labels)))
            return _Batches(get_iterator(_Numbered(dataset), training=True), self._note)

        net.get_iterator = get_numbered_iterator

    def on_epoch_begin(self, net: Any, **others: Any) -> None:
        """Called by skorch."""
        self._begin_epoch(len(net.history) - 1)

    def on_batch_end(self, net: Any, batch: Any = None, training: Any = None, **step: Any) -> None:
        """Called by skorch with the outputs of the step."""
        if not training:
            return
        outputs = step["y_pred"][0] if isinstance(step["y_pred"], tuple) else step["y_pred"]
        self._keep_rows(self._rows, _logits(outputs, net.criterion_))

    def on_epoch_end(self, net: Any, **others: Any) -> None:
        """Called by skorch."""
        self._end_epoch()

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **others: Any) -> None:
        """Called by skorch, also after Ctrl-C; leaves the net as it was."""
        del net.get_iterator

    def _note(self, rows: NDArray[np.int64]) -> None:
        self._rows = rows


class _Numbered:
    """A dataset whose samples come with their rows."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, row: int) -> tuple[Any, int]:
        return self._dataset[row], row


class _Batches:
    """A data loader that says which rows a batch has before it hands the batch on."""

    def __init__(self, loader: Any, note: Callable[[NDArray[np.int64]], None]) -> None:
        if not hasattr(loader, "collate_fn"):
            raise InputError(f"iterator_train is a {type(loader).__name__}; only a torch DataLoader can be recorded")
        loader.collate_fn = _CollateApart(loader.collate_fn)
        self._loader, self._note = loader, note

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        for batch, rows in self._loader:
            self._note(rows)
            yield batch


class _CollateApart:
    """Collates the samples as ever, and their rows besides."""

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self._collate = collate

    def __call__(self, numbered: list[tuple[Any, int]]) -> tuple[Any, NDArray[np.int64]]:
        samples, rows = zip(*numbered, strict=True)
        return self._collate(list(samples)), np.array(rows)


def _refuse_a_part(trained_on: int, samples: int) -> None:
    if trained_on < samples:
        raise InputError(
            f"skorch trains on {trained_on} of the {samples} samples and holds back the others to validate on; "
            "record all of them with train_split=None"
        )
    if trained_on > samples:
        raise InputError(f"there are {samples} labels for {trained_on} samples")


def _logits(outputs: Any, criterion: Any) -> NDArray[Any]:
    """Logits from what a module returns for its criterion: skorch takes the logarithm for NLLLoss itself."""
    losses = sys.modules["torch"].nn
    values = as_numpy(outputs)
    if isinstance(criterion, losses.NLLLoss):
        return log_of(values)
    return log_odds_of(values) if isinstance(criterion, losses.BCELoss) else values
