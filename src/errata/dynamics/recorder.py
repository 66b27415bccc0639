"""Recorder: two lines in a training loop, and the run's dynamics are kept."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import as_numpy, check_labels
from errata.core.methods import Gathering, Method
from errata.dynamics._recorder_kernels import is_welcome
from errata.dynamics.files import refuse_taken
from errata.dynamics.ids import SampleIds
from errata.dynamics.manifest import describe, has_manifest, read_manifest
from errata.dynamics.reducers import streaming_methods
from errata.dynamics.run import Run
from errata.dynamics.store import Dynamics, check_aligned, check_gathering, check_partial
from errata.errors import InputError, StoreError

DTYPES = {name: np.dtype(name) for name in ("float16", "float32", "float64")}


class Recorder:
    """Keeps the logits of every sample at every epoch, in memory (path=None) or in a folder.

    labels (N,): the given labels, class numbers or names listed in `classes`; ids: anything that tells samples apart,
    by default their row; num_classes: by default that of the first logits.
    keep="stream" keeps running sums for `methods` (default: all that can) instead of the logits.
    partial="allow" lets a sample miss epochs. resume=True goes on after the last whole epoch of the folder, an integer
    after that many epochs.
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
        quiet: bool = False,
    ) -> None:
        if keep not in ("all", "stream"):
            raise InputError(f"keep must be 'all' or 'stream', not {keep!r}")
        if keep == "all" and methods is not None:
            raise InputError("methods= chooses what keep='stream' keeps; with keep='all' every method works afterwards")
        if dtype not in DTYPES:
            raise InputError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
        self._folder = None if path is None else Path(path)
        self._classes = None if classes is None else tuple(classes)
        self._given_labels = np.array(as_numpy(labels))
        known = len(self._classes) if num_classes is None and self._classes is not None else num_classes
        if known is not None:
            _check_num_classes(known, self._classes)
        check_labels(self._given_labels, known, self._classes)
        samples = len(self._given_labels)
        if not samples:
            raise InputError("labels are empty: there is nothing to record")
        self._ids = SampleIds(ids, samples)
        self._stream = streaming_methods(methods) if keep == "stream" else None
        self._partial = check_partial(partial)
        self._dtype = DTYPES[dtype]
        self._fold = check_aligned("fold", fold, samples)
        self._gathering = check_gathering(gathering if fold is None else "out-of-sample")
        self._settings = dict(settings or {})
        self._resume = _check_resume(resume, self._folder)
        self._quiet = quiet
        self._run: Run | None = None
        self._seen = np.zeros(samples, dtype=np.bool_)
        self._everyone, self._position = np.arange(samples), np.empty(samples, dtype=np.int64)
        found = self._found()
        if known is None and found is not None:
            known = found["num_classes"]
        if known is not None:
            self._open(int(known), found)

    @property
    def epoch(self) -> int:
        """The epoch in progress, counted from 0: how many whole ones are kept."""
        return 0 if self._run is None else self._run.epochs

    def update(self, ids: Any, logits: Any) -> None:
        """Keep logits (n, K) of a batch, before or after its step; a tensor comes over in one transfer.

        A batch that is refused leaves the recorder as it was.
        """
        self._take_in(self._ids.rows(ids), as_numpy(logits))

    def update_all(self, logits: Any) -> None:
        """Keep logits (N, K) of all samples, in the order of the labels: an epoch's worth of update() in one."""
        self._take_in(self._everyone, as_numpy(logits))

    def end_epoch(self, *, durable: bool = True) -> None:
        """Close the epoch: from here on it survives a crash, or, if it is not durable, from the next `sync` on."""
        if self._run is None or not self._seen.any():
            raise InputError(f"epoch {self.epoch} has no samples; call update() before end_epoch()")
        if not self._partial and not self._seen.all():
            missing = np.flatnonzero(~self._seen)
            raise InputError(
                f"{len(missing):,} samples were not recorded in epoch {self.epoch}, the first with id "
                f"{self._ids.name(int(missing[0]))}; every sample is expected every epoch unless partial='allow'"
            )
        self._run.end_epoch(durable=durable)
        self._seen[:] = False

    def drop_epoch(self) -> None:
        """Forget what there is of the epoch in progress: one that was cut short counts as not begun."""
        if self._run is not None and self._seen.any():
            self._run.drop_epoch()
            self._seen[:] = False

    def sync(self) -> None:
        """Let every epoch that is closed survive a crash."""
        if self._run is not None:
            self._run.sync()

    def finish(
        self, *, swa_logits: Any | None = None, features: Any | None = None, inputs: Any | None = None
    ) -> Dynamics:
        """The recorded dynamics, with what is known besides.

        That is the averaged model's logits (N, K) and, where neighbours are sought, the features (N, D) that go into
        the last layer or the inputs (N, D) as scaled columns.
        """
        if self._run is None or self._run.epochs == 0:
            raise InputError("no whole epoch was recorded")
        if self._seen.any():
            raise InputError(f"epoch {self.epoch} is not ended; call end_epoch() first")
        return self._run.finish(swa_logits, features, inputs)

    def _take_in(self, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Check and write the logits (n, K) of the samples in `rows` (n,)."""
        if values.ndim != 2:
            raise InputError(f"logits of a batch must have shape (n, K), not {values.shape}")
        if values.dtype.kind not in "fiu":
            raise InputError(f"logits must be numbers, not {values.dtype}")
        if self._run is not None and values.shape[1] != self._run.classes:
            raise InputError(f"logits have {values.shape[1]} columns, but there are {self._run.classes} classes")
        if len(rows) != len(values):
            raise InputError(f"there are {len(rows)} ids for {len(values)} rows of logits")
        kept = values
        if values.dtype != self._dtype:
            with np.errstate(over="ignore"):
                kept = values.astype(self._dtype)
        checked = kept.astype(np.float32) if kept.dtype == np.float16 else kept  # what the kernel is compiled for
        if not is_welcome(rows, checked, self._seen, self._position):
            self._refuse(rows, values, kept)
        run = self._open(values.shape[1], self._found()) if self._run is None else self._run
        if rows is self._everyone:  # nobody can have been seen before: there is nothing to write between
            run.write_all(kept)
        else:
            run.write(rows, kept)
        self._seen[rows] = True

    def _found(self) -> dict[str, Any] | None:
        """The manifest of the run to go on with, if there is one; a folder that cannot be used is refused."""
        if self._folder is None:
            return None
        if not has_manifest(self._folder):
            refuse_taken(self._folder)
            return None
        found = read_manifest(self._folder)
        if self._resume is False and not found["epochs"]:
            return found  # begun, but without an epoch yet: as good as empty, if it is the same run
        if self._resume is False:
            raise StoreError(
                f"{self._folder} already holds {found['epochs']} epochs; "
                "pass resume=True to go on, or take another folder"
            )
        return found

    def _open(self, num_classes: int, found: dict[str, Any] | None) -> Run:
        _check_num_classes(num_classes, self._classes)
        labels = check_labels(self._given_labels, num_classes, self._classes)
        manifest = describe(
            labels,
            self._ids.values,
            num_classes,
            self._classes,
            dtype=self._dtype,
            keep="all" if self._stream is None else "stream",
            allow_missing=self._partial,
            gathering=self._gathering,
            settings=self._settings,
        )
        run = Run(
            self._folder, labels, self._ids, self._classes, self._fold, self._stream, manifest, found, self._resume
        )
        if not self._quiet:
            print(f"errata: recording {run.size}", file=sys.stderr)
        self._run = run
        return run

    def _refuse(self, rows: NDArray[np.int64], values: NDArray[Any], kept: NDArray[Any]) -> NoReturn:
        """Say what is wrong with a batch that is not welcome."""
        self._ids.refuse_unknown(rows)
        if np.isfinite(kept).all():
            self._refuse_repeated(rows)
        self._refuse_unfinite(rows, values, kept)

    def _refuse_repeated(self, rows: NDArray[np.int64]) -> NoReturn:
        self._position[rows] = np.arange(len(rows))
        again = self._seen[rows] | (self._position[rows] != np.arange(len(rows)))
        row = int(rows[np.argmax(again)])
        raise InputError(
            f"sample {self._ids.name(row)} comes twice in epoch {self.epoch}; call end_epoch() between epochs"
        )

    def _refuse_unfinite(self, rows: NDArray[np.int64], values: NDArray[Any], kept: NDArray[Any]) -> NoReturn:
        position = int(np.argmin(np.isfinite(kept).all(axis=1)))
        why = "not finite" if not np.isfinite(values[position]).all() else f"too large for {self._dtype}"
        raise InputError(f"logits of sample {self._ids.name(int(rows[position]))} in epoch {self.epoch} are {why}")


def _check_num_classes(num_classes: int, classes: Sequence[Any] | None) -> None:
    if not isinstance(num_classes, int | np.integer):
        raise InputError(f"num_classes must be a whole number, not {num_classes!r}")
    if classes is not None and num_classes != len(classes):
        raise InputError(f"classes has {len(classes)} names, but there are {num_classes} classes")
    if num_classes < 2:
        raise InputError("label errors need at least two classes (for a single binary logit z record the pair (0, z))")


def _check_resume(resume: bool | int, folder: Path | None) -> bool | int:
    if isinstance(resume, np.bool_):
        resume = bool(resume)
    if not isinstance(resume, int | np.integer) or resume < 0:
        raise InputError(f"resume must be True, False or a number of epochs, not {resume!r}")
    if resume is not False and folder is None:
        raise InputError("resume needs a folder to go on in")
    return resume
