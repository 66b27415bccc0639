"""What the recorders of training passes share: batches become epochs, labels of any type become column numbers."""

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import as_numpy
from errata.dynamics.files import require_empty
from errata.dynamics.manifest import has_manifest
from errata.dynamics.recorder import Recorder
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.integrations.margins import RecorderOptions, column_names

if TYPE_CHECKING:
    from errata.integrations.distributed import DistributedRecorder


class BatchOptions(RecorderOptions, total=False):
    """Options of `errata.Recorder` that every recorder of epochs takes as well."""

    partial: Literal["error", "allow"]
    resume: bool


class BatchRecorder:
    """Keeps the logits of every batch that a trainer shows; a subclass gets them from its trainer.

    In a process group of several ranks all of them record into one folder, by sample id.
    """

    def __init__(
        self,
        path: str | Path | None,
        trainer: str,
        labels: Any,
        classes: Sequence[Any] | None,
        options: BatchOptions,
    ) -> None:
        self._path = None if path is None else Path(path)
        if self._path is not None and not has_manifest(self._path):
            require_empty(self._path)
        about = {"trainer": trainer} | (options.get("settings") or {})
        self._resume = options.get("resume", False)
        self._options = {name: value for name, value in options.items() if name != "resume"} | {"settings": about}
        self._labels, self._classes = labels, classes
        names = options.get("ids")
        self._names = None if names is None else np.fromiter(names, dtype=object, count=len(names))
        self._begun: int | None = None
        self._in_progress = False
        self._recorder: Recorder | DistributedRecorder | None = None

    def finish(self, *, features: Any | None = None, inputs: Any | None = None) -> Dynamics:
        """The recorded dynamics; features or inputs (N, D) are for methods that ask neighbours.

        An epoch that the training broke off is left out, with a warning.
        """
        if self._recorder is None:
            raise InputError(f"no batch was recorded; {self._how_to_record}")
        if self._in_progress:
            warnings.warn(f"epoch {self._recorder.epoch} was broken off and is left out", stacklevel=2)
            self._recorder.drop_epoch()
            self._in_progress = False
        return self._recorder.finish(features=features, inputs=inputs)

    _how_to_record = "pass the recorder to the trainer in callbacks=[...]"

    def _begin_epoch(self, epochs_before: int) -> None:
        """Say how many epochs the trainer has done; one that goes on from a checkpoint has done some already."""
        if self._begun is not None and (self._in_progress or epochs_before != self._begun + 1):
            raise InputError("this recorder has a training already; make a new one for every training")
        self._begun = epochs_before

    def _keep(self, ids: Any, outputs: Any) -> None:
        """Keep the logits (n, K) of a batch, or (n,) or (n, 1) of the second of two classes."""
        logits = two_columns(as_numpy(outputs))
        if self._recorder is None:
            self._recorder = self._open(logits)
        self._recorder.update(ids, logits)
        self._in_progress = True

    def _keep_rows(self, rows: NDArray[np.int64], outputs: Any) -> None:
        """Keep the logits of a batch of which only the rows (n,) are known."""
        self._keep(rows if self._names is None else self._names[rows].tolist(), outputs)

    def _end_epoch(self, *, whole: bool = True) -> None:
        """Close the epoch; one that the trainer broke off stays open, for `finish` to leave out."""
        if whole and self._recorder is not None:
            self._recorder.end_epoch()
            self._in_progress = False

    def _open(self, logits: NDArray[Any]) -> "Recorder | DistributedRecorder":
        if logits.ndim != 2:
            raise InputError(f"logits of a batch must have shape (n, K), not {logits.shape}")
        given, num_classes = as_numpy(self._labels), logits.shape[1]
        classes = column_names(given, num_classes) if self._classes is None else self._classes
        resume: bool | int = (self._begun or 0) if self._resume else False
        made = {"labels": given, "num_classes": num_classes, "classes": classes, "resume": resume, **self._options}
        if not _has_company():
            return Recorder(self._path, **made)
        if self._path is None:
            raise InputError("several processes record into one folder; name it when you make the recorder")
        from errata.integrations.distributed import DistributedRecorder

        return DistributedRecorder(self._path, **made)


def two_columns(outputs: NDArray[Any]) -> NDArray[Any]:
    """Logits (n, K) as they are; the one logit z of two classes, (n,) or (n, 1), as (0, z)."""
    if outputs.ndim == 2 and outputs.shape[1] == 1:
        outputs = outputs[:, 0]
    return np.stack([np.zeros_like(outputs), outputs], axis=1) if outputs.ndim == 1 else outputs


def log_of(probabilities: NDArray[Any]) -> NDArray[Any]:
    """Logits of probabilities (n, K); one that was rounded to nought counts as the least above it."""
    logits: NDArray[Any] = np.log(np.maximum(probabilities, np.finfo(probabilities.dtype).tiny))
    return logits


def log_odds_of(probabilities: NDArray[Any]) -> NDArray[Any]:
    """The logit of the second of two classes from its probability (n,) or (n, 1)."""
    logits: NDArray[Any] = log_of(probabilities) - log_of(1 - probabilities)
    return logits


def _has_company() -> bool:
    """Whether this process is one of several that train together, without importing torch."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return False
    return bool(torch.distributed.get_world_size() > 1)
