"""Dynamics: the logits of every sample at every epoch, in memory or in a folder."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from errata.core.checks import (
    Labels,
    check_aligned,
    check_classes,
    check_labels,
    check_logits,
    check_points,
    warn_if_probabilities,
    warn_if_softmax_twice,
)
from errata.core.devices import Progress
from errata.core.method_parts import Gathering, SampleArrays
from errata.core.neighbours import METRICS
from errata.core.replay import Epochs, SampleStatistic, replay_arrays
from errata.core.sample_context import SampleContext
from errata.core.windows import Window, check_window
from errata.dynamics.files import DYNAMICS, check_path, is_url, new_folder, save_arrays
from errata.dynamics.ids import SampleIds
from errata.dynamics.logits_file import LogitsFile
from errata.dynamics.manifest import check_gathering, describe, has_manifest, read_manifest, write_manifest
from errata.dynamics.reducers import Reducers, sums_file
from errata.errors import InputError, StoreError

POINTS = ("features", "inputs")  # in which neighbours are searched
OPTIONAL_ARRAYS = ("fold", *POINTS, "held_out", "swa_logits")


@dataclass(frozen=True)
class Dynamics:
    """The logits of a training run for N samples and K classes over E epochs. It never contains true labels.

    logits (E, N, K) may be a memory map; None for a run that stored running sums only (`reducers`).
    labels (N,) are column numbers, and `classes` the names of the columns, if any. gathering: None if unknown.
    Neighbours are found in `features` (N, D), the inputs of the last layer, or in `inputs` (N, D), scaled columns.
    held_out (N, K): log-probabilities of the labels by models that have not seen them; predicted from `inputs` if None.
    checksums: the number of each epoch in its folder and its CRC-32, which are compared when logits are used.

    >>> import errata
    >>> dynamics = errata.Dynamics.from_arrays([[[2.0, 0.0], [0.0, 3.0], [4.0, 0.0]]], [0, 1, 1])
    >>> dynamics.epochs, dynamics.num_classes
    (1, 2)
    """

    logits: NDArray[Any] | None
    labels: Labels
    ids: NDArray[Any]
    num_classes: int
    classes: tuple[Any, ...] | None = None
    fold: NDArray[Any] | None = None
    features: NDArray[Any] | None = None
    inputs: NDArray[Any] | None = None
    held_out: NDArray[Any] | None = None
    swa_logits: NDArray[Any] | None = None
    gathering: Gathering | None = None
    allow_missing: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    reducers: Reducers | None = None
    path: Path | None = None
    checksums: tuple[tuple[int, int], ...] | None = None

    @classmethod
    def from_arrays(
        cls,
        logits: Any,
        labels: Any,
        *,
        ids: Any | None = None,
        classes: Sequence[Any] | None = None,
        fold: Any | None = None,
        features: Any | None = None,
        inputs: Any | None = None,
        held_out: Any | None = None,
        swa_logits: Any | None = None,
        gathering: Gathering | None = None,
        partial: str = "error",
        settings: dict[str, Any] | None = None,
    ) -> "Dynamics":
        """Dynamics from logits (E, N, K), or (N, K) for a single epoch, and labels (N,). Float arrays are not copied.

        Labels are column numbers, or names listed in `classes` in the order of the columns. With partial="allow", a row
        of NaN means that the sample was not recorded at that epoch.
        held_out (N, K): logits of models that have not seen the labels of their samples, for instance of five folds.

        >>> import errata
        >>> logits = [[[2.0, 0.0], [0.0, 3.0]]]  # 1 epoch, 2 samples, 2 classes
        >>> errata.Dynamics.from_arrays(logits, ["cat", "dog"], classes=["cat", "dog"])
        Dynamics(1 epochs, 2 samples, 2 classes)
        """
        checked = check_logits(logits)
        if checked.ndim == 2:
            checked = checked[None]
        if checked.ndim != 3:
            raise InputError(f"logits must have shape (E, N, K) or (N, K), not {checked.shape}")
        _, samples, num_classes = checked.shape
        encoded = check_labels(labels, num_classes, classes)
        if len(encoded) != samples:
            raise InputError(f"there are {len(encoded)} labels for {samples} samples of logits")
        any(warn_if_probabilities(values, epoch) for epoch, values in enumerate(checked))
        warn_if_softmax_twice(checked[-1])
        return cls(
            logits=checked,
            labels=encoded,
            ids=SampleIds(ids, samples).values,
            num_classes=num_classes,
            classes=None if classes is None else check_classes(classes, num_classes),
            fold=check_aligned("fold", fold, samples),
            gathering="out-of-sample" if gathering is None and fold is not None else check_gathering(gathering),
            allow_missing=check_partial(partial),
            settings=dict(settings or {}),
            **added_arrays(
                samples, num_classes, features=features, inputs=inputs, held_out=held_out, swa_logits=swa_logits
            ),
        )

    @classmethod
    def open(cls, path: str | Path) -> "Dynamics":
        """Dynamics from a folder, memory-mapped; epochs beyond the manifest (after a crash) are ignored.

        For a folder that `errata find` wrote, the dynamics in it. A folder or URL (s3://bucket/run) with shards is
        presented as one run.

        >>> import errata
        >>> _ = errata.Dynamics.from_arrays([[2.0, 0.0], [0.0, 3.0]], [0, 1]).save("runs/opened")
        >>> errata.Dynamics.open("runs/opened")
        Dynamics(1 epochs, 2 samples, 2 classes in ...opened)
        """
        from errata.dynamics.places import Place
        from errata.dynamics.run_folder import open_folder
        from errata.dynamics.sharded import open_shards
        from errata.dynamics.shards import has_shards

        if is_url(path):
            return open_shards(Place(str(path)))
        folder = check_path(path)
        if not has_manifest(folder) and has_manifest(folder / DYNAMICS):
            folder = folder / DYNAMICS
        if not has_manifest(folder) and has_shards(Place(str(folder))):
            return open_shards(Place(str(folder)))
        return open_folder(folder, read_manifest(folder))

    def save(self, path: str | Path) -> "Dynamics":
        """Write to a new folder, and open it from there.

        >>> import errata
        >>> dynamics = errata.Dynamics.from_arrays([[2.0, 0.0], [0.0, 3.0]], [0, 1])
        >>> dynamics.save("runs/saved").path.name
        'saved'
        """
        from errata.dynamics.run_folder import start_folder

        self.verify()
        folder = check_path(path)
        keep = "stream" if self.logits is None else "all"
        manifest = describe(self, dtype=self._stored_dtype, keep=keep)
        with new_folder(folder) as lock, lock:
            start_folder(folder, manifest, self)
            if self.reducers is not None:
                save_arrays(folder / sums_file(self.epochs), self.reducers.arrays_to_store())
            if self.logits is not None:
                file = LogitsFile(folder / "logits.npy", self.samples, self.num_classes, self._stored_dtype, 0)
                for epoch in self.logits:
                    file.begin_epoch()[:] = epoch
                    manifest["checksums"].append(file.flush_epoch(durable=True))
                    file.end_epoch()
            write_manifest(folder, manifest | {"epochs": self.epochs})
        return Dynamics.open(folder)

    @property
    def _stored_dtype(self) -> np.dtype[Any]:
        if self.logits is None:
            return np.dtype(np.float32)
        return self.logits.dtype if self.logits.dtype.itemsize <= 4 else np.dtype(np.float64)

    @property
    def epochs(self) -> int:
        """The number of epochs.

        >>> import errata
        >>> errata.Dynamics.from_arrays([[2.0, 0.0], [0.0, 3.0]], [0, 1]).epochs
        1
        """
        if self.logits is not None:
            return len(self.logits)
        assert self.reducers is not None
        return self.reducers.epochs

    @property
    def samples(self) -> int:
        """The number of samples.

        >>> import errata
        >>> errata.Dynamics.from_arrays([[2.0, 0.0], [0.0, 3.0]], [0, 1]).samples
        2
        """
        return len(self.labels)

    @cached_property
    def context(self) -> SampleContext:
        """The points in which neighbours are searched, and held-out predictions."""
        names = {name: str(self.path / f"{name}.npy") for name in METRICS} if self.path else None
        held_out = None if self.held_out is None else np.asarray(log_softmax(self.held_out.astype(np.float64), axis=1))
        return SampleContext(self.features, self.inputs, names, held_out)

    @property
    def known_context(self) -> SampleContext:
        """Which of features, inputs and held-out predictions are known; for shards without reading them."""
        return self.context

    def window(self, window: Window | None) -> "Dynamics":
        """The same run restricted to epochs start to end, both included; without swa_logits, which need all epochs.

        >>> import errata
        >>> dynamics = errata.Dynamics.from_arrays([[[1.0, 0.0]], [[2.0, 0.0]], [[3.0, 0.0]]], [0])
        >>> dynamics.window((1, 2))
        Dynamics(2 epochs, 1 samples, 2 classes)
        """
        if window is None or check_window(window, self.epochs) == slice(0, self.epochs):
            return self
        if self.logits is None:
            raise InputError("this run has running sums only; a window needs the logits of every epoch (keep='all')")
        chosen = check_window(window, self.epochs)
        checksums = None if self.checksums is None else self.checksums[chosen]
        part = replace(self, logits=self.logits[chosen], swa_logits=None, path=None, checksums=checksums)
        part.__dict__["context"] = self.context  # the neighbours are the same, and are searched once
        return part

    def replayable(self) -> Epochs:
        """The epochs as input of methods."""
        if self.logits is None:
            raise InputError("this run has running sums only; the logits of every epoch are needed here (keep='all')")
        self.verify()
        return Epochs(self.logits, self.labels, self.swa_logits, self.allow_missing, self.context)

    def sample_arrays(
        self, statistics: Sequence[SampleStatistic], progress: Progress | None = None
    ) -> list[SampleArrays]:
        """The sample arrays of each statistic, from logits or from running sums."""
        if self.reducers is not None:
            return self.reducers.arrays(statistics, self.labels, self.swa_logits, progress)
        return replay_arrays(self.replayable(), statistics, progress)

    def knows(self, array: str) -> bool:
        """Whether this optional array is known."""
        return getattr(self, array) is not None

    def class_name(self, number: int) -> Any:
        """The name of a class, or its number if it has none.

        >>> import errata
        >>> dynamics = errata.Dynamics.from_arrays([[2.0, 0.0]], ["cat"], classes=["cat", "dog"])
        >>> dynamics.class_name(1)
        'dog'
        """
        return number if self.classes is None else self.classes[number]

    def verify(self) -> None:
        """Compare every stored epoch with its checksum, once per object; raises an error that names a damaged one.

        Every function that scores or ranks the logits calls this.

        >>> import errata
        >>> errata.Dynamics.from_arrays([[2.0, 0.0], [0.0, 3.0]], [0, 1]).save("runs/verified").verify()
        """
        epoch, file = self._damaged_epoch, getattr(self.logits, "filename", "logits.npy")
        if epoch is not None:
            raise StoreError(
                f"{file} is damaged: epoch {epoch} differs from what was recorded. Restore the file from a copy, or "
                "delete its folder and record the run again"
            )

    @cached_property
    def _damaged_epoch(self) -> int | None:
        """The first epoch that differs from its checksum."""
        if self.checksums is None or self.logits is None:
            return None
        for values, (epoch, checksum) in zip(self.logits, self.checksums, strict=True):
            if zlib.crc32(np.ascontiguousarray(values).data) != checksum:
                return epoch
        return None

    def __repr__(self) -> str:
        where = f" in {self.path}" if self.path else ""
        sums = "" if self.logits is not None else ", running sums only"
        return f"Dynamics({self.epochs} epochs, {self.samples:,} samples, {self.num_classes} classes{sums}{where})"


def added_arrays(samples: int, num_classes: int, **arrays: Any) -> dict[str, Any]:
    """The features, inputs, held_out and swa_logits that a run has, checked: those that are not None."""
    return {
        name: check_points(name, array, samples) if name in POINTS else check_aligned(name, array, samples, num_classes)
        for name, array in arrays.items()
        if array is not None
    }


def check_partial(partial: str) -> bool:
    """Whether samples may miss epochs: True for "allow"."""
    if partial not in ("error", "allow"):
        raise InputError(f"partial must be 'error' or 'allow', not {partial!r}")
    return partial == "allow"
