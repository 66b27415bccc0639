"""Recorder: stores the logits of a training loop with two lines of code."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import as_numpy, check_aligned, check_classes, check_labels
from errata.core.jit import compiled
from errata.core.methods import Gathering, Method
from errata.dynamics.files import check_path
from errata.dynamics.ids import SampleIds
from errata.dynamics.manifest import check_gathering
from errata.dynamics.reducers import streaming_methods
from errata.dynamics.run import Run, stored_run
from errata.dynamics.store import Dynamics, check_partial
from errata.errors import InputError

DTYPES = {name: np.dtype(name) for name in ("float16", "float32", "float64")}


class Recorder:
    """Stores the logits of every sample at every epoch, in memory (path=None) or in a folder.

    labels (N,): the given labels, class numbers or names listed in `classes`. ids: any distinct values, by default the
    rows. num_classes: by default the number of columns of the first logits.
    keep="stream" stores running sums for `methods` (default: all that can stream) instead of the logits.
    partial="allow" lets samples miss epochs. resume=True continues after the last whole epoch of the folder, an integer
    after that many epochs. overwrite=True replaces the run in the folder.

    While a Recorder has a folder, no other process can record into it: until `finish`, `close`, or the end of the
    process.

    >>> import errata
    >>> recorder = errata.Recorder(labels=[0, 1, 1], num_classes=2)
    >>> recorder.update([0, 1, 2], [[2.0, 0.0], [0.0, 3.0], [4.0, 0.0]])
    >>> recorder.end_epoch()
    >>> errata.score(recorder.finish(), "Last-LM").tolist()
    [-2.0, -3.0, 4.0]
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        labels: Any,
        ids: Any | None = None,
        num_classes: int | None = None,
        classes: Sequence[Any] | None = None,
        keep: Literal["all", "stream"] = "all",
        methods: Sequence[str | Method] | None = None,
        partial: Literal["error", "allow"] = "error",
        dtype: Literal["float16", "float32", "float64"] = "float32",
        gathering: Gathering = "in-sample",
        fold: Any | None = None,
        settings: dict[str, Any] | None = None,
        resume: bool | int = False,
        overwrite: bool = False,
        quiet: bool = False,
    ) -> None:
        if keep not in ("all", "stream"):
            raise InputError(f"keep must be 'all' or 'stream', not {keep!r}")
        if keep == "all" and methods is not None:
            raise InputError(
                "methods= selects the running sums of keep='stream'; with keep='all' every method can be used later"
            )
        if dtype not in DTYPES:
            raise InputError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
        if settings is not None and not isinstance(settings, dict):
            raise InputError(f"settings must be a dict, not {type(settings).__name__}")
        self._folder = None if path is None else check_path(path)
        self._classes = None if classes is None else check_classes(classes)
        self._given_labels = np.array(as_numpy(labels, "labels"))
        known = len(self._classes) if num_classes is None and self._classes is not None else num_classes
        if known is not None:
            _check_num_classes(known, self._classes)
        check_labels(self._given_labels, known, self._classes)
        samples = len(self._given_labels)
        if not samples:
            raise InputError("labels are empty")
        self._ids = SampleIds(ids, samples)
        self._stream = streaming_methods(methods) if keep == "stream" else None
        self._partial = check_partial(partial)
        self._dtype = DTYPES[dtype]
        self._fold = check_aligned("fold", fold, samples)
        self._gathering = check_gathering(gathering if fold is None else "out-of-sample")
        self._settings = dict(settings or {})
        self._resume, self._overwrite = check_resume(resume, overwrite), overwrite
        if (self._resume is not False or overwrite) and path is None:
            raise InputError("resume and overwrite need a folder")
        self._quiet = quiet
        self._run: Run | None = None
        self._recorded = np.zeros(samples, dtype=np.bool_)  # in the epoch in progress
        self._all_rows, self._position = np.arange(samples), np.empty(samples, dtype=np.int64)
        existing = None if self._folder is None else stored_run(self._folder, self._resume, self._overwrite)
        if known is None and existing is not None and not overwrite:
            known = existing["num_classes"]
        if known is not None:
            self._open(int(known))

    @property
    def epoch(self) -> int:
        """The epoch in progress, counted from 0; also the number of whole epochs.

        >>> import errata
        >>> errata.Recorder(labels=[0, 1], num_classes=2).epoch
        0
        """
        return 0 if self._run is None else self._run.epochs

    def update(self, ids: Any, logits: Any) -> None:
        """Store logits (n, K) of a batch; a tensor is copied in one transfer.

        A refused batch leaves the recorder unchanged.

        >>> import errata
        >>> recorder = errata.Recorder(labels=["cat", "dog"], classes=["cat", "dog"], ids=["a.png", "b.png"])
        >>> recorder.update(["b.png", "a.png"], [[0.0, 3.0], [2.0, 0.0]])
        """
        self._write(self._ids.rows(ids), as_numpy(logits, "logits"))

    def update_all(self, logits: Any) -> None:
        """Store logits (N, K) of all samples, in the order of the labels: one call for a whole epoch.

        >>> import errata
        >>> recorder = errata.Recorder(labels=[0, 1], num_classes=2)
        >>> recorder.update_all([[2.0, 0.0], [0.0, 3.0]])
        """
        self._write(self._all_rows, as_numpy(logits, "logits"))

    def end_epoch(self, *, durable: bool = True) -> None:
        """End the epoch. From now on it survives a crash; with durable=False, from the next `sync` on.

        >>> import errata
        >>> recorder = errata.Recorder(labels=[0, 1], num_classes=2)
        >>> recorder.update_all([[2.0, 0.0], [0.0, 3.0]])
        >>> recorder.end_epoch()
        >>> recorder.epoch
        1
        """
        if self._run is None or not self._recorded.any():
            raise InputError(f"epoch {self.epoch} has no samples; call update() before end_epoch()")
        if not self._recorded.all():
            self._refuse_missing(np.flatnonzero(~self._recorded))
        self._run.end_epoch(durable=durable)
        self._recorded[:] = False

    def drop_epoch(self) -> None:
        """Discard the epoch in progress.

        >>> import errata
        >>> recorder = errata.Recorder(labels=[0, 1], num_classes=2)
        >>> recorder.update([0], [[2.0, 0.0]])
        >>> recorder.drop_epoch()  # now the sample 0 can be recorded again
        >>> recorder.update([0, 1], [[2.0, 0.0], [0.0, 3.0]])
        """
        if self._run is not None and self._recorded.any():
            self._run.drop_epoch()
            self._recorded[:] = False

    def sync(self) -> None:
        """Write all ended epochs to disk, so that they survive a crash.

        >>> import errata
        >>> recorder = errata.Recorder("runs/synced", labels=[0, 1], num_classes=2)
        >>> recorder.update_all([[2.0, 0.0], [0.0, 3.0]])
        >>> recorder.end_epoch(durable=False)
        >>> recorder.sync()
        """
        if self._run is not None:
            self._run.sync()

    def finish(
        self,
        *,
        swa_logits: Any | None = None,
        features: Any | None = None,
        inputs: Any | None = None,
        held_out: Any | None = None,
    ) -> Dynamics:
        """The recorded dynamics.

        swa_logits (N, K): the logits of the weight-averaged model. features (N, D), the inputs of the last layer, are
        used to find neighbours, and inputs (N, D), scaled columns, to train other models that predict labels they have
        not seen. held_out (N, K): logits of such models, if you have them.

        >>> import errata
        >>> recorder = errata.Recorder(labels=[0, 1], num_classes=2)
        >>> recorder.update_all([[2.0, 0.0], [0.0, 3.0]])
        >>> recorder.end_epoch()
        >>> recorder.finish(inputs=[[0.1], [0.9]])
        Dynamics(1 epochs, 2 samples, 2 classes)
        """
        if not self.epoch:
            raise InputError("no whole epoch was recorded")
        if self._in_epoch():
            raise InputError(f"epoch {self.epoch} is not ended; call end_epoch() first")
        return self._finish(swa_logits=swa_logits, features=features, inputs=inputs, held_out=held_out)

    def _in_epoch(self) -> bool:
        """Whether an epoch is in progress."""
        return bool(self._recorded.any())

    def _finish(self, **arrays: Any) -> Dynamics:
        assert self._run is not None
        return self._run.finish(**arrays)

    def close(self) -> None:
        """Let other processes record into the folder. Ended epochs are on disk; an epoch in progress is lost.

        >>> import errata
        >>> recorder = errata.Recorder("runs/closed", labels=[0, 1], num_classes=2)
        >>> recorder.close()
        """
        if self._run is not None:
            self._run.close()

    def _write(self, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Check and write the logits (n, K) of the samples in `rows` (n,)."""
        if values.ndim != 2:
            raise InputError(f"logits of a batch must have shape (n, K), not {values.shape}")
        if values.dtype.kind not in "fiu":
            raise InputError(f"logits must be numbers, not {values.dtype}")
        if self._run is not None and values.shape[1] != self._run.classes:
            raise InputError(f"logits have {values.shape[1]} columns, but there are {self._run.classes} classes")
        if len(rows) != len(values):
            raise InputError(f"there are {len(rows)} ids for {len(values)} rows of logits")
        logits = values
        if values.dtype != self._dtype:
            with np.errstate(over="ignore"):
                logits = values.astype(self._dtype)
        checked = logits.astype(np.float32) if logits.dtype == np.float16 else logits  # numba has no float16
        if not _is_valid(rows, checked, self._recorded, self._position):
            self._refuse(rows, values, logits)
        run = self._open(values.shape[1]) if self._run is None else self._run
        if rows is self._all_rows:
            run.write_all(logits)
        else:
            run.write(rows, logits)
        self._recorded[rows] = True

    def _open(self, num_classes: int) -> Run:
        _check_num_classes(num_classes, self._classes)
        labels = check_labels(self._given_labels, num_classes, self._classes)
        empty = Dynamics(
            logits=None,
            labels=labels,
            ids=self._ids.values,
            num_classes=num_classes,
            classes=self._classes,
            fold=self._fold,
            gathering=self._gathering,
            allow_missing=self._partial,
            settings=self._settings,
        )
        run = self._new_run(empty)
        if not self._quiet:
            print(f"errata: recording {run.size}", file=sys.stderr)
        self._run = run
        return run

    def _new_run(self, empty: Dynamics) -> Run:
        return Run(self._folder, empty, self._dtype, self._stream, self._resume, self._overwrite)

    def _refuse_missing(self, rows: NDArray[np.int64]) -> None:
        """Refuse an epoch without the samples in `rows`, unless epochs may be partial."""
        if not self._partial:
            raise InputError(
                f"{len(rows):,} samples were not recorded in epoch {self.epoch}, the first with id "
                f"{self._ids.name(int(rows[0]))}; every sample is expected in every epoch unless partial='allow'"
            )

    def _refuse(self, rows: NDArray[np.int64], values: NDArray[Any], logits: NDArray[Any]) -> NoReturn:
        """Raise the error for an invalid batch: unknown ids, repeated ids, or values that are not finite."""
        self._ids.refuse_unknown(rows)
        finite = np.isfinite(logits).all(axis=1)
        if finite.all():
            self._position[rows] = np.arange(len(rows))
            repeated = self._recorded[rows] | (self._position[rows] != np.arange(len(rows)))
            name = self._ids.name(int(rows[np.argmax(repeated)]))
            raise InputError(f"sample {name} is twice in epoch {self.epoch}; call end_epoch() between epochs")
        position = int(np.argmin(finite))
        why = "not finite" if not np.isfinite(values[position]).all() else f"too large for {self._dtype}"
        raise InputError(f"logits of sample {self._ids.name(int(rows[position]))} in epoch {self.epoch} are {why}")


@compiled
def _is_valid(
    rows: NDArray[np.int64], logits: NDArray[Any], recorded: NDArray[np.bool_], position: NDArray[np.int64]
) -> bool:
    """Whether rows (n,) are in range, distinct and not recorded yet, and logits (n, K) finite.

    It runs in every training step, so it is compiled. `position` (N,) is a buffer.
    """
    for i in range(len(rows)):
        row = rows[i]
        if row < 0 or row >= len(recorded) or recorded[row]:
            return False
        position[row] = i
    not_finite = 0.0  # becomes NaN
    for i in range(len(rows)):
        if position[rows[i]] != i:
            return False
        for k in range(logits.shape[1]):
            not_finite += logits[i, k] * 0.0
    return not_finite == 0.0


def _check_num_classes(num_classes: int, classes: Sequence[Any] | None) -> None:
    if not isinstance(num_classes, int | np.integer):
        raise InputError(f"num_classes must be a whole number, not {num_classes!r}")
    if classes is not None and num_classes != len(classes):
        raise InputError(f"classes has {len(classes)} names, but there are {num_classes} classes")
    if num_classes < 2:
        raise InputError("at least two classes are needed (for a single binary logit z record the pair (0, z))")


def check_resume(resume: bool | int, overwrite: bool) -> bool | int:
    """True, False, or the number of epochs after which a run is continued."""
    if isinstance(resume, np.bool_):
        resume = bool(resume)
    if not isinstance(resume, int | np.integer) or resume < 0:
        raise InputError(f"resume must be True, False or a number of epochs, not {resume!r}")
    if resume is not False and overwrite:
        raise InputError("pass either resume or overwrite, not both")
    return resume
