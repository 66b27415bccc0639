"""Record a Hugging Face `Trainer`: `HuggingFaceRecorder(trainer)` before `trainer.train()`."""

from collections import UserDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from transformers import TrainerCallback, __version__  # at the top: a callback has to be a TrainerCallback

from errata.errors import InputError
from errata.integrations.batches import BatchOptions, BatchRecorder

ROWS = "errata_rows"
_LABEL_COLUMNS = ("label", "labels")


class HuggingFaceRecorder(BatchRecorder, TrainerCallback):  # type: ignore[misc]
    """Keeps the logits of the training pass of a Trainer, and lets its samples say who they are meanwhile.

    labels: the given labels (N,), of any type, or the name of their column; by default the column "label" or "labels".
    ids: names of the samples (N,) or the name of their column, by default their rows. A column that the model does not
    take will do: it is read here and never reaches the model.
    classes: the names of the model's columns in their order, by default the labels sorted. Other options are those of
    `errata.Recorder`; resume=True goes on with the folder where a checkpoint goes on.
    """

    _how_to_record = "make the recorder before trainer.train()"

    def __init__(
        self,
        trainer: Any,
        path: str | Path | None = None,
        *,
        labels: Any | None = None,
        classes: Sequence[Any] | None = None,
        **options: Unpack[BatchOptions],
    ) -> None:
        dataset = trainer.train_dataset
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise InputError("the samples of a streamed train_dataset have no rows; record a dataset with a length")
        if trainer.args.n_gpu > 1:
            raise InputError("DataParallel is not recorded; start the script with torchrun, one process a GPU")
        ids = options.get("ids")
        given = _labels(dataset) if labels is None else _column(dataset, labels) if isinstance(labels, str) else labels
        if len(given) != len(dataset):
            raise InputError(f"there are {len(given)} labels, but train_dataset has {len(dataset)} samples")
        if isinstance(ids, str):
            options["ids"] = _column(dataset, ids)
        super().__init__(path, f"transformers {__version__}", given, classes, options)
        self._rows: Any = None
        self._attach(trainer)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Called by the Trainer."""
        self._begin_epoch(int(state.epoch or 0))

    def on_epoch_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Called by the Trainer, also where max_steps ends the training within an epoch."""
        self._end_epoch(whole=float(state.epoch).is_integer())

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Called by the Trainer; leaves it and the model as they were."""
        self._detach()

    def _attach(self, trainer: Any) -> None:
        dataset, collate = trainer.train_dataset, trainer.data_collator
        # The Trainer takes columns away from whatever is a dict when it is collated: here, behind the row's back.
        without_unused = trainer._get_collator_with_removed_columns(collate, description="training")
        trainer.train_dataset = _Numbered(dataset)
        trainer.data_collator = _CollateAndTell(collate, without_unused)
        hooks = [
            trainer.model.register_forward_pre_hook(self._take_rows, with_kwargs=True),
            trainer.model.register_forward_hook(self._listen),
        ]
        trainer.add_callback(self)

        def detach() -> None:
            trainer.train_dataset, trainer.data_collator = dataset, collate
            for hook in hooks:
                hook.remove()

        self._detach: Callable[[], None] = detach

    def _take_rows(self, model: Any, args: Any, inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Before the model sees a batch: only one of the training set says which rows it has."""
        self._rows = inputs.get(ROWS)
        return args, {name: value for name, value in inputs.items() if name != ROWS}

    def _listen(self, model: Any, args: Any, output: Any) -> None:
        rows, self._rows = self._rows, None
        if rows is None:
            return
        logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
        if logits is None:
            raise InputError(f"{type(model).__name__} does not return its logits; record a model for classification")
        self._keep_rows(rows, logits)


class _Item(UserDict[str, Any]):
    """A sample that knows its row."""

    def __init__(self, item: Mapping[str, Any], row: int) -> None:
        self.data = item  # type: ignore[assignment]  # not copied: nobody writes to it
        self.row = row


class _Numbered:
    """A dataset whose samples know their rows."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, row: int) -> _Item:
        return _Item(self._dataset[row], row)

    def __getitems__(self, rows: list[int]) -> list[_Item]:
        if not hasattr(self._dataset, "__getitems__"):
            return [self[row] for row in rows]
        return [_Item(item, row) for item, row in zip(self._dataset.__getitems__(rows), rows, strict=True)]


class _CollateAndTell:
    """Collates as ever, and says of training samples which rows they are."""

    def __init__(self, collate: Callable[[Any], Any], without_unused: Callable[[Any], Any]) -> None:
        self._collate, self._without_unused = collate, without_unused

    def __call__(self, samples: list[Any]) -> Any:
        if not isinstance(samples[0], _Item):
            return self._collate(samples)
        batch = self._without_unused([sample.data for sample in samples])
        batch[ROWS] = np.array([sample.row for sample in samples])
        return batch


def _column(dataset: Any, name: str) -> list[Any]:
    if name not in (getattr(dataset, "column_names", None) or ()):
        raise InputError(f"train_dataset has no column {name!r}; pass the values themselves instead of a name")
    return list(dataset[name])


def _labels(dataset: Any) -> list[Any]:
    for name in _LABEL_COLUMNS:
        if name in (getattr(dataset, "column_names", None) or ()):
            return _column(dataset, name)
    raise InputError("train_dataset has no column 'label' or 'labels'; pass the given labels as labels=")
