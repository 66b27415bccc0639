"""Recorder: two lines in a training loop, and the run's dynamics are kept."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Labels, as_numpy, check_labels
from errata.core.methods import Gathering, Method
from errata.dynamics.files import MANIFEST, LogitsFile, read_manifest, save_array, write_manifest
from errata.dynamics.ids import SampleIds
from errata.dynamics.reducers import Reducers, streaming_methods
from errata.dynamics.store import Dynamics, check_partial, create_folder, describe, id_hash, warn_if_not_logits
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
        self._given_labels = as_numpy(labels)
        if self._given_labels.ndim != 1 or not len(self._given_labels):
            raise InputError(f"labels must have shape (N,) with N > 0, not {self._given_labels.shape}")
        self._ids = SampleIds(ids, len(self._given_labels))
        self._classes = None if classes is None else tuple(classes)
        self._stream = streaming_methods(methods) if keep == "stream" else None
        self._partial = check_partial(partial)
        self._dtype = DTYPES[dtype]
        self._gathering: Gathering = "out-of-sample" if fold is not None else gathering
        self._fold = None if fold is None else as_numpy(fold)
        self._settings = dict(settings or {})
        self._resume = resume
        self._quiet = quiet
        self._store: _Store | None = None
        samples = len(self._given_labels)
        self._seen = np.zeros(samples, dtype=np.bool_)
        self._position = np.empty(samples, dtype=np.int64)
        known = len(self._classes) if self._classes is not None else num_classes
        if self._folder is not None and resume is not False and (self._folder / MANIFEST).exists():
            known = int(read_manifest(self._folder)["num_classes"])
        if known is not None:
            self._open(known)

    @property
    def epoch(self) -> int:
        """The epoch in progress, counted from 0: how many whole ones are kept."""
        return 0 if self._store is None else self._store.epochs

    def update(self, ids: Any, logits: Any) -> None:
        """Keep logits (n, K) of a batch, before or after its step; a tensor comes over in one transfer.

        A batch that is refused leaves the recorder as it was.
        """
        values = as_numpy(logits)
        if values.ndim != 2:
            raise InputError(f"logits of a batch must have shape (n, K), not {values.shape}")
        if self._store is None:
            self._open(values.shape[1])
        assert self._store is not None
        if values.shape[1] != self._store.classes:
            raise InputError(f"logits have {values.shape[1]} columns, but there are {self._store.classes} classes")
        rows = self._ids.rows(ids)
        if len(rows) != len(values):
            raise InputError(f"there are {len(rows)} ids for {len(values)} rows of logits")
        kept = values.astype(self._dtype, copy=False)
        if not np.isfinite(kept).all():
            self._refuse_unfinite(rows, values, kept)
        self._refuse_repeated(rows)
        self._store.write(rows, kept)
        self._seen[rows] = True

    def end_epoch(self) -> None:
        """Close the epoch: from here on it survives a crash."""
        if self._store is None or not self._seen.any():
            raise InputError(f"epoch {self.epoch} has no samples; call update() before end_epoch()")
        if not self._partial and not self._seen.all():
            missing = np.flatnonzero(~self._seen)
            raise InputError(
                f"{len(missing):,} samples were not recorded in epoch {self.epoch}, the first with id "
                f"{self._id(int(missing[0]))!r}; every sample is expected every epoch unless partial='allow'"
            )
        self._store.end_epoch()
        self._seen[:] = False

    def finish(self, *, swa_logits: Any | None = None, features: Any | None = None) -> Dynamics:
        """The recorded dynamics, with the averaged model's logits (N, K) and features (N, D) of all samples if given."""
        if self._store is None or self._store.epochs == 0:
            raise InputError("no whole epoch was recorded")
        if self._seen.any():
            raise InputError(f"epoch {self.epoch} is not ended; call end_epoch() first")
        return self._store.finish(swa_logits, features)

    def _open(self, num_classes: int) -> None:
        labels = check_labels(self._given_labels, num_classes, self._classes)
        if num_classes < 2:
            raise InputError("label errors need at least two classes (for a single binary logit z record the pair (0, z))")
        if self._fold is not None and len(self._fold) != len(labels):
            raise InputError(f"there are {len(self._fold)} folds for {len(labels)} labels")
        manifest = describe(
            labels, self._ids.values, num_classes, self._classes, self._dtype, "all" if self._stream is None else "stream"
        )
        manifest |= {
            "partial": "allow" if self._partial else "error",
            "gathering": self._gathering,
            "settings": self._settings,
        }
        self._store = _Store(self._folder, labels, self._ids, manifest, self._stream, self._resume)
        if self._fold is not None:
            self._store.keep_array("fold", self._fold)
        if not self._quiet:
            print(f"errata: recording {self._store.size()}", file=sys.stderr)

    def _id(self, row: int) -> Any:
        value = self._ids.values[row]
        return value.item() if hasattr(value, "item") else value

    def _refuse_repeated(self, rows: NDArray[np.int64]) -> None:
        self._position[rows] = np.arange(len(rows))
        again = self._seen[rows] | (self._position[rows] != np.arange(len(rows)))
        if again.any():
            row = int(rows[np.argmax(again)])
            raise InputError(f"sample {self._id(row)!r} comes twice in epoch {self.epoch}; call end_epoch() between epochs")

    def _refuse_unfinite(self, rows: NDArray[np.int64], values: NDArray[Any], kept: NDArray[Any]) -> None:
        position = int(np.argmin(np.isfinite(kept).all(axis=1)))
        why = "not finite" if not np.isfinite(values[position]).all() else f"too large for {self._dtype}"
        raise InputError(f"logits of sample {self._id(int(rows[position]))!r} in epoch {self.epoch} are {why}")


class _Store:
    """Where the epochs go: arrays in memory or files in a folder, logits or running sums."""

    def __init__(
        self,
        folder: Path | None,
        labels: Labels,
        ids: SampleIds,
        manifest: dict[str, Any],
        stream: list[Method] | None,
        resume: bool | int,
    ) -> None:
        self._folder, self._labels, self._ids, self._manifest = folder, labels, ids, manifest
        self.classes = int(manifest["num_classes"])
        self.epochs = 0
        self._extra: dict[str, NDArray[Any]] = {}
        if folder is not None:
            self._enter(folder, resume)
        elif resume is not False:
            raise InputError("resume needs a folder to go on in")
        self._epoch: NDArray[Any] | None = None
        self._in_memory: list[NDArray[Any]] = []
        self._file: LogitsFile | None = None
        self._reducers: Reducers | None = None
        shape = (len(labels), self.classes)
        if stream is not None:
            kept = folder is not None and self.epochs > 0
            self._reducers = Reducers.load(folder, self.epochs, *shape) if kept and folder else Reducers(stream, *shape)
        elif folder is not None:
            self._file = LogitsFile(folder / "logits.npy", *shape, self._dtype, self.epochs)

    @property
    def _dtype(self) -> np.dtype[Any]:
        return DTYPES[self._manifest["dtype"]]

    def size(self) -> str:
        """What is kept and how large it is, in words."""
        what = f"{len(self._labels):,} samples x {self.classes} classes"
        if self._reducers is not None:
            return f"{what} as running sums: {self._reducers.nbytes / 1e6:,.1f} MB in all"
        where = "in memory" if self._folder is None else f"in {self._folder}"
        epoch_bytes = len(self._labels) * self.classes * self._dtype.itemsize
        return f"{what} as {self._dtype}: {epoch_bytes / 1e6:,.1f} MB an epoch {where}"

    def write(self, rows: NDArray[np.int64], logits: NDArray[Any]) -> None:
        if self._reducers is not None:
            self._reducers.add(rows, logits.copy(), self._labels)
            return
        if self._epoch is None:
            self._epoch = (
                self._file.begin_epoch()
                if self._file is not None
                else np.full((len(self._labels), self.classes), np.nan, dtype=self._dtype)
            )
        self._epoch[rows] = logits

    def end_epoch(self) -> None:
        if self._reducers is not None:
            self._reducers.end_epoch(self._labels)
            if self._folder is not None:
                self._reducers.save(self._folder)
        else:
            assert self._epoch is not None
            if self.epochs == 0:
                warn_if_not_logits(self._epoch)
            if self._file is not None:
                self._manifest["checksums"].append(self._file.end_epoch())
            else:
                self._in_memory.append(self._epoch)
        self._epoch = None
        self.epochs += 1
        if self._folder is not None:
            write_manifest(self._folder, self._manifest | {"epochs": self.epochs})
            if self._reducers is not None:
                self._reducers.drop_others(self._folder)

    def keep_array(self, name: str, array: NDArray[Any]) -> None:
        self._extra[name] = array
        if self._folder is not None:
            save_array(self._folder / f"{name}.npy", array)

    def finish(self, swa_logits: Any | None, features: Any | None) -> Dynamics:
        for name, given, columns in (("swa_logits", swa_logits, self.classes), ("features", features, None)):
            if given is None:
                continue
            array = as_numpy(given)
            if array.ndim != 2 or len(array) != len(self._labels) or columns not in (None, array.shape[1]):
                raise InputError(f"{name} must have shape ({len(self._labels)}, {columns or 'D'}), not {array.shape}")
            self.keep_array(name, array)
        if self._folder is not None:
            return Dynamics.open(self._folder)
        return Dynamics(
            logits=None if self._reducers is not None else np.stack(self._in_memory),
            labels=self._labels,
            ids=self._ids.values,
            num_classes=self.classes,
            classes=None if self._manifest["classes"] is None else tuple(self._manifest["classes"]),
            gathering=self._manifest["gathering"],
            allow_missing=self._manifest["partial"] == "allow",
            settings=self._manifest["settings"],
            reducers=self._reducers,
            **self._extra,
        )

    def _enter(self, folder: Path, resume: bool | int) -> None:
        create_folder(folder, resume=resume is not False)
        if (folder / MANIFEST).exists():
            self._continue(folder, read_manifest(folder), resume)
            return
        save_array(folder / "labels.npy", self._labels)
        save_array(folder / "ids.npy", self._ids.portable())
        write_manifest(folder, self._manifest)

    def _continue(self, folder: Path, found: dict[str, Any], resume: bool | int) -> None:
        for key in ("samples", "num_classes", "classes", "dtype", "keep", "partial", "gathering", "label_hash", "id_hash"):
            if found[key] != self._manifest[key]:
                raise StoreError(f"{folder} was recorded with another {key.replace('_', ' ')}: resume needs the same run")
        epochs = int(found["epochs"])
        wanted = epochs if resume is True else int(resume)
        if wanted > epochs:
            raise StoreError(f"{folder} holds {epochs} epochs, so it cannot resume after {wanted}")
        if wanted < epochs and found["keep"] == "stream":
            raise StoreError(f"{folder} kept running sums after {epochs} epochs and cannot go back to {wanted}")
        self.epochs = wanted
        self._manifest = found | {"epochs": wanted, "checksums": found["checksums"][:wanted]}
        write_manifest(folder, self._manifest)
