"""Record a Hugging Face `Trainer`: `HuggingFaceRecorder(trainer)` before `trainer.train()`."""

from collections import UserDict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from transformers import TrainerCallback, __version__  # imported here because the recorder must be a TrainerCallback

from errata.errors import InputError
from errata.integrations.base import BatchOptions, BatchRecorder

ROWS = "errata_rows"
_LABEL_COLUMNS = ("label", "labels")


class HuggingFaceRecorder(BatchRecorder, TrainerCallback):  # type: ignore[misc]
    """Records the logits of the training pass of a Trainer. Until its training ends, its batches carry their rows.

    labels: the given labels (N,), of any type, or the name of their column; by default the column "label" or "labels".
    ids: names of the samples (N,) or the name of their column, by default their rows. It may be a column that the model
    does not take: it is read here and not passed to the model. `BatchOptions` lists the other options; with
    resume=True, the folder is continued where the training resumes from a checkpoint.

    >>> from datasets import Dataset
    >>> from errata.integrations import HuggingFaceRecorder
    >>> from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
    >>> texts = Dataset.from_dict({"input_ids": [[1, 2, 3], [4, 5, 6]] * 8, "label": [0, 1] * 8})
    >>> config = BertConfig(vocab_size=7, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
    >>> arguments = TrainingArguments("runs/checkpoints", num_train_epochs=3, save_strategy="no", report_to=[])
    >>> trainer = Trainer(BertForSequenceClassification(config), arguments, train_dataset=texts)
    >>> recorder = HuggingFaceRecorder(trainer)
    >>> print(trainer.train().global_step, "steps")
    {'train_runtime': ...
    6 steps
    >>> recorder.finish()
    Dynamics(3 epochs, 16 samples, 2 classes)
    """

    _how_to_record = "make the recorder before trainer.train()"

    def __init__(
        self,
        trainer: Any,
        path: str | Path | None = None,
        *,
        labels: Any | None = None,
        **options: Unpack[BatchOptions],
    ) -> None:
        dataset = trainer.train_dataset
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise InputError("the samples of a streamed train_dataset have no rows; record a dataset with a length")
        if trainer.args.n_gpu > 1:
            raise InputError("DataParallel cannot be recorded; start the script with torchrun, one process per GPU")
        given = _labels(dataset) if labels is None else _column(dataset, labels) if isinstance(labels, str) else labels
        if len(given) != len(dataset):
            raise InputError(f"there are {len(given)} labels, but train_dataset has {len(dataset)} samples")
        ids = options.get("ids")
        if isinstance(ids, str):
            options["ids"] = _column(dataset, ids)
        super().__init__(path, f"transformers {__version__}", given, options)
        self._rows: Any = None
        self._attach(trainer)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._begin_epoch(int(state.epoch or 0))

    def on_epoch_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Also called if max_steps ends the training within an epoch."""
        self._end_epoch(complete=float(state.epoch).is_integer())

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._detach()

    def _attach(self, trainer: Any) -> None:
        dataset, collate = trainer.train_dataset, trainer.data_collator
        # The Trainer removes unused columns from samples that are dicts. `_Sample` is not a dict, so this is done here.
        without_unused = trainer._get_collator_with_removed_columns(collate, description="training")
        trainer.train_dataset = _RowDataset(dataset)
        trainer.data_collator = partial(_collate_rows, collate, without_unused)
        hooks = [
            trainer.model.register_forward_pre_hook(self._remove_rows, with_kwargs=True),
            trainer.model.register_forward_hook(self._on_forward),
        ]
        trainer.add_callback(self)

        def detach() -> None:
            trainer.train_dataset, trainer.data_collator = dataset, collate
            for hook in hooks:
                hook.remove()

        self._detach: Callable[[], None] = detach

    def _remove_rows(self, model: Any, args: Any, inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Take the rows from a batch before the model receives it; only training batches have rows."""
        self._rows = inputs.get(ROWS)
        return args, {name: value for name, value in inputs.items() if name != ROWS}

    def _on_forward(self, model: Any, args: Any, output: Any) -> None:
        rows, self._rows = self._rows, None
        if rows is None:
            return
        logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
        if logits is None:
            raise InputError(f"{type(model).__name__} does not return logits; record a model for classification")
        self._record_rows(rows, logits)


class _Sample(UserDict[str, Any]):
    """A sample with its row."""

    def __init__(self, item: Mapping[str, Any], row: int) -> None:
        self.data = item  # type: ignore[assignment]  # not copied: nothing writes to it
        self.row = row


class _RowDataset:
    """A dataset whose samples have their rows."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, row: int) -> _Sample:
        return _Sample(self._dataset[row], row)

    def __getitems__(self, rows: list[int]) -> list[_Sample]:
        if not hasattr(self._dataset, "__getitems__"):
            return [self[row] for row in rows]
        return [_Sample(item, row) for item, row in zip(self._dataset.__getitems__(rows), rows, strict=True)]


def _collate_rows(collate: Callable[[Any], Any], without_unused: Callable[[Any], Any], samples: list[Any]) -> Any:
    """A batch as before, with the rows of training samples."""
    if not isinstance(samples[0], _Sample):
        return collate(samples)
    batch = without_unused([sample.data for sample in samples])
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
