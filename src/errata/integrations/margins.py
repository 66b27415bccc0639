"""What the recorders of boosting rounds share: margins become logits, labels of any type become column numbers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Labels, as_numpy, check_labels
from errata.core.methods import Gathering, Method
from errata.dynamics.files import require_empty
from errata.dynamics.recorder import Recorder
from errata.dynamics.store import Dynamics
from errata.errors import InputError


class RecorderOptions(TypedDict, total=False):
    """Options of `errata.Recorder` that every recorder of rounds takes as well."""

    ids: Any
    keep: Literal["all", "stream"]
    methods: Sequence[str | Method] | None
    dtype: Literal["float16", "float32", "float64"]
    gathering: Gathering
    settings: dict[str, Any] | None
    quiet: bool


class MarginRecorder:
    """Keeps the logits of all samples round after round; a subclass gets them from its trainer."""

    def __init__(
        self,
        path: str | Path | None,
        trainer: str,
        labels: Any | None,
        classes: Sequence[Any] | None,
        every: int,
        options: RecorderOptions,
    ) -> None:
        if not isinstance(every, int | np.integer) or every < 1:
            raise InputError(f"every must be a whole number of rounds, 1 or more, not {every!r}")
        if path is not None:
            require_empty(Path(path))
        about = {"trainer": trainer, "every": int(every)} | (options.get("settings") or {})
        self._path, self._every, self._options = path, every, options | RecorderOptions(settings=about)
        self._labels, self._classes = labels, classes
        self._begun = False
        self._recorder: Recorder | None = None
        self._total: NDArray[np.float64] | None = None

    def finish(self, *, inputs: Any | None = None) -> Dynamics:
        """The recorded dynamics; with inputs (N, D), as scaled columns, methods that ask neighbours work on them.

        A boosted model is linear in its trees: the model averaged over the rounds has the mean of their margins.
        """
        if self._recorder is None or self._total is None:
            raise InputError("no round was recorded; pass the recorder to the trainer in callbacks=[...]")
        return self._recorder.finish(swa_logits=self._total / self._recorder.epoch, inputs=inputs)

    def _begin(self) -> None:
        """Refuse to mix two trainings."""
        if self._begun:
            raise InputError("this recorder has a training already; make a new one for every training")
        self._begun = True

    def _is_due(self, rounds: int) -> bool:
        """Whether a round is recorded, counted from 1."""
        return rounds % self._every == 0

    def _keep(self, margins: NDArray[Any], trained_on: NDArray[Any] | None) -> None:
        """Keep a round's margins (N, K), or (N,) of the second of two classes.

        trained_on (N,): the labels as the trainer has them, where it tells.
        """
        logits = margins if margins.ndim == 2 else np.stack([np.zeros_like(margins), margins], axis=1)
        if self._recorder is None:
            self._recorder = self._open(logits.shape[1], trained_on)
            self._total = np.zeros_like(logits, dtype=np.float64)  # laid out as the margins: quicker to add
        assert self._total is not None
        self._recorder.update_all(logits)
        self._total += logits
        self._recorder.end_epoch(durable=False)  # a boosting that is killed starts over: nobody goes on from this round

    def _open(self, num_classes: int, trained_on: NDArray[Any] | None) -> Recorder:
        given = trained_on if self._labels is None else as_numpy(self._labels)
        if given is None:
            raise InputError("the trainer does not tell its labels; pass them as labels=")
        classes = column_names(given, num_classes) if self._classes is None else self._classes
        if trained_on is not None and given is not trained_on:
            columns = check_labels(given, num_classes, classes)
            _refuse_others(columns, check_labels(trained_on, num_classes, column_names(trained_on, num_classes)))
        return Recorder(self._path, labels=given, num_classes=num_classes, classes=classes, **self._options)


def column_names(given: NDArray[Any], num_classes: int) -> list[Any] | None:
    """The labels in the order of the model's columns, which is scikit-learn's; None where they are column numbers."""
    if given.dtype.kind in "iuf" and np.isin(given, np.arange(num_classes)).all():
        return None
    names: list[Any] = sorted(set(given.tolist()))
    if len(names) != num_classes:
        raise InputError(
            f"labels have {len(names)} different values, but the model tells {num_classes} classes apart; "
            "if some class has no sample, name all with classes=, in the order of the model's columns"
        )
    return names


def _refuse_others(columns: Labels, trained_on: Labels) -> None:
    """Refuse labels (N,) that are not the trainer's, or come in another order."""
    if len(columns) != len(trained_on):
        raise InputError(f"there are {len(columns)} labels, but the trainer has {len(trained_on)} samples")
    different = columns != trained_on
    if different.any():
        row = int(np.argmax(different))
        raise InputError(
            f"sample {row} is of class {columns[row]} by labels=, but of class {trained_on[row]} to the trainer; "
            "pass the labels in the order of the samples it was given"
        )
