"""The base classes of recorders: labels of any type become class numbers, and outputs of a trainer become logits."""

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import as_numpy, check_labels
from errata.core.methods import Gathering, Method
from errata.dynamics.files import is_url
from errata.dynamics.growing_shards import stored_shards
from errata.dynamics.places import Place
from errata.dynamics.recorder import Recorder
from errata.dynamics.run import stored_run
from errata.dynamics.shards import has_shards
from errata.dynamics.store import Dynamics
from errata.errors import InputError

ONE_TRAINING = "this recorder has recorded a training already; make a new one for every training"


class RecorderOptions(TypedDict, total=False):
    """Options of every recorder. All but `classes` are those of `errata.Recorder`.

    classes: the names of the model's outputs in their order, by default the sorted labels.
    """

    classes: Sequence[Any] | None
    ids: Any
    keep: Literal["all", "stream"]
    methods: Sequence[str | Method] | None
    dtype: Literal["float16", "float32", "float64"]
    gathering: Gathering
    settings: dict[str, Any] | None
    overwrite: bool
    quiet: bool


class BatchOptions(RecorderOptions, total=False):
    """Options of a recorder of batches, also as for `errata.Recorder`."""

    partial: Literal["error", "allow"]
    resume: bool


class MarginOptions(RecorderOptions, total=False):
    """Options of a recorder of boosting rounds. every: record only every n-th round."""

    every: int


class BatchRecorder:
    """Records the logits of every batch of a training; a subclass receives them from its trainer.

    In a process group of several ranks, all ranks record into one folder.

    >>> from errata.integrations import BatchRecorder
    >>> class MyRecorder(BatchRecorder):
    ...     "Receives the logits from a trainer of your own."
    >>> issubclass(MyRecorder, BatchRecorder)
    True
    """

    _how_to_record = "pass the recorder to the trainer in callbacks=[...]"

    def __init__(self, path: str | Path | None, trainer: str, labels: Any, options: BatchOptions) -> None:
        self._path = path
        if path is not None:
            allowed = options.get("resume", False), options.get("overwrite", False)
            if _holds_shards(path):
                stored_shards(Place(str(path)), *allowed)
            else:
                stored_run(Path(path), *allowed)
        self._labels = labels
        self._classes, self._resume = options.pop("classes", None), options.pop("resume", False)
        settings = {"trainer": trainer} | (options.get("settings") or {})
        self._options: dict[str, Any] = {**options, "settings": settings}
        ids = options.get("ids")
        self._names = None if ids is None else np.fromiter(ids, dtype=object, count=len(ids))
        self._epochs_before: int | None = None
        self._in_epoch = False
        self._recorder: Recorder | None = None

    def finish(self, *, features: Any | None = None, inputs: Any | None = None) -> Dynamics:
        """The recorded dynamics. An epoch that was interrupted is left out, with a warning.

        features (N, D): to find neighbours. inputs (N, D): scaled columns, to predict labels that are held out.
        """
        if self._recorder is None:
            raise InputError(f"no batch was recorded; {self._how_to_record}")
        if self._in_epoch:
            warnings.warn(f"epoch {self._recorder.epoch} was interrupted and is left out", stacklevel=2)
            self._recorder.drop_epoch()
            self._in_epoch = False
        return self._recorder.finish(features=features, inputs=inputs)

    def _begin_epoch(self, epochs_before: int) -> None:
        """Start an epoch; `epochs_before` is above 0 at the start of a training that resumes from a checkpoint."""
        if self._epochs_before is not None and (self._in_epoch or epochs_before != self._epochs_before + 1):
            raise InputError(ONE_TRAINING)
        self._epochs_before = epochs_before

    def _record(self, ids: Any, outputs: Any) -> None:
        """Record the logits (n, K) of a batch, or (n,) or (n, 1) for the second of two classes."""
        logits = two_columns(as_numpy(outputs))
        if self._recorder is None:
            self._recorder = self._open(logits)
        self._recorder.update(ids, logits)
        self._in_epoch = True

    def _record_rows(self, rows: NDArray[np.int64], outputs: Any) -> None:
        """Record the logits of a batch whose samples are known by their rows (n,)."""
        self._record(rows if self._names is None else self._names[rows].tolist(), outputs)

    def _end_epoch(self, *, complete: bool = True) -> None:
        """End the epoch; one that is not complete stays open, and `finish` leaves it out."""
        if complete and self._recorder is not None:
            self._recorder.end_epoch()
            self._in_epoch = False

    def _open(self, logits: NDArray[Any]) -> Recorder:
        if logits.ndim != 2:
            raise InputError(f"logits of a batch must have shape (n, K), not {logits.shape}")
        labels, num_classes = as_numpy(self._labels), logits.shape[1]
        classes = column_names(labels, num_classes) if self._classes is None else self._classes
        resume: bool | int = (self._epochs_before or 0) if self._resume else False
        arguments = {"labels": labels, "num_classes": num_classes, "classes": classes, "resume": resume}
        if not _is_distributed() and (self._path is None or not _holds_shards(self._path)):
            return Recorder(self._path, **arguments, **self._options)
        if self._path is None:
            raise InputError("several processes record into one folder; pass its path to the recorder")
        from errata.integrations.distributed import DistributedRecorder

        return DistributedRecorder(self._path, **arguments, **self._options)


class MarginRecorder:
    """Records the margins of all samples after every boosting round; a subclass receives them from its trainer.

    >>> from errata.integrations import LightGBMRecorder, MarginRecorder
    >>> issubclass(LightGBMRecorder, MarginRecorder)
    True
    """

    def __init__(self, path: str | Path | None, trainer: str, labels: Any | None, options: MarginOptions) -> None:
        every = options.pop("every", 1)
        if not isinstance(every, int | np.integer) or every < 1:
            raise InputError(f"every must be a whole number of rounds, 1 or more, not {every!r}")
        if path is not None:
            stored_run(Path(path), False, options.get("overwrite", False))
        self._path, self._every, self._labels, self._classes = path, every, labels, options.pop("classes", None)
        settings = {"trainer": trainer, "every": int(every)} | (options.get("settings") or {})
        self._options: dict[str, Any] = {**options, "settings": settings}
        self._begun = False
        self._recorder: Recorder | None = None
        self._total: NDArray[np.float64] | None = None

    def finish(self, *, inputs: Any | None = None) -> Dynamics:
        """The recorded dynamics. inputs (N, D): scaled columns, to predict labels that are held out.

        A boosted model is linear in its trees, so the logits of the averaged model are the mean of all margins.
        """
        if self._recorder is None or self._total is None:
            raise InputError("no round was recorded; pass the recorder to the trainer in callbacks=[...]")
        return self._recorder.finish(swa_logits=self._total / self._recorder.epoch, inputs=inputs)

    def _begin(self) -> None:
        """Start a training."""
        if self._begun:
            raise InputError(ONE_TRAINING)
        self._begun = True

    def _is_recorded(self, round_number: int) -> bool:
        """Whether a round, counted from 1, is recorded."""
        return round_number % self._every == 0

    def _record(self, margins: NDArray[Any], trained_labels: NDArray[Any] | None) -> None:
        """Record the margins (N, K) of a round, or (N,) for the second of two classes.

        trained_labels (N,): the labels that the trainer has, if it gives access to them.
        """
        logits = two_columns(margins)
        if self._recorder is None:
            self._recorder = self._open(logits.shape[1], trained_labels)
            self._total = np.zeros_like(logits, dtype=np.float64)  # in the memory order of the margins: faster to add
        assert self._total is not None
        self._recorder.update_all(logits)
        self._total += logits
        self._recorder.end_epoch(durable=False)  # boosting is not resumed, so a round need not survive a crash

    def _open(self, num_classes: int, trained_labels: NDArray[Any] | None) -> Recorder:
        labels = trained_labels if self._labels is None else as_numpy(self._labels)
        if labels is None:
            raise InputError("the trainer gives no access to its labels; pass them as labels=")
        classes = column_names(labels, num_classes) if self._classes is None else self._classes
        if trained_labels is not None and labels is not trained_labels:
            if len(labels) != len(trained_labels):
                raise InputError(f"there are {len(labels)} labels, but the trainer has {len(trained_labels)} samples")
            own = check_labels(labels, num_classes, classes)
            trained = check_labels(trained_labels, num_classes, column_names(trained_labels, num_classes))
            if (own != trained).any():
                row = int(np.argmax(own != trained))
                raise InputError(
                    f"sample {row} has class {own[row]} in labels=, but class {trained[row]} in the trainer; "
                    "pass the labels in the order of the training samples"
                )
        return Recorder(self._path, labels=labels, num_classes=num_classes, classes=classes, **self._options)


def column_names(labels: NDArray[Any], num_classes: int) -> list[Any] | None:
    """The sorted labels, which are the columns of scikit-learn models; None if labels are column numbers."""
    if labels.dtype.kind in "iuf" and np.isin(labels, np.arange(num_classes)).all():
        return None
    names: list[Any] = sorted(set(labels.tolist()))
    if len(names) != num_classes:
        raise InputError(
            f"labels have {len(names)} different values, but the model has {num_classes} classes; "
            "if some class has no sample, pass all with classes=, in the order of the model's outputs"
        )
    return names


def two_columns(outputs: NDArray[Any]) -> NDArray[Any]:
    """Logits (n, K) unchanged; the single logit z of two classes, (n,) or (n, 1), as (0, z)."""
    if outputs.ndim == 2 and outputs.shape[1] == 1:
        outputs = outputs[:, 0]
    return np.stack([np.zeros_like(outputs), outputs], axis=1) if outputs.ndim == 1 else outputs


def log_of(probabilities: NDArray[Any]) -> NDArray[Any]:
    """Logits of probabilities (n, K); a probability of 0 becomes the smallest positive number first."""
    logits: NDArray[Any] = np.log(np.maximum(probabilities, np.finfo(probabilities.dtype).tiny))
    return logits


def log_odds_of(probabilities: NDArray[Any]) -> NDArray[Any]:
    """The logit of the second of two classes from its probability (n,) or (n, 1)."""
    logits: NDArray[Any] = log_of(probabilities) - log_of(1 - probabilities)
    return logits


def _holds_shards(path: str | Path) -> bool:
    """Whether a run in this place is recorded in shards even by one process."""
    return is_url(path) or has_shards(Place(str(path)))


def _is_distributed() -> bool:
    """Whether several processes train together. Does not import torch."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return False
    return bool(torch.distributed.get_world_size() > 1)
