"""Dynamics: the logits of every sample at every epoch, in memory or in a folder."""

import hashlib
import platform
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Labels, check_labels, check_logits
from errata.core.methods import Gathering
from errata.core.noise import label_hash
from errata.core.replay import Epochs
from errata.core.windows import Window, check_window
from errata.dynamics.files import MANIFEST, SCHEMA, LogitsFile, load_array, read_manifest, save_array, write_manifest
from errata.dynamics.ids import SampleIds
from errata.dynamics.reducers import Reducers
from errata.errors import InputError, StoreError

OPTIONAL_ARRAYS = ("fold", "features", "swa_logits")
_ROWS_LOOKED_AT = 1000


@dataclass(frozen=True)
class Dynamics:
    """What a training run said of N samples and K classes over E epochs; it never carries the truth.

    logits (E, N, K) may be a memory map; it is None for a run of which only running sums were kept (`reducers`).
    labels (N,) are column numbers, `classes` their names if they have any; `gathering` is None when nobody said.
    """

    logits: NDArray[Any] | None
    labels: Labels
    ids: NDArray[Any]
    num_classes: int
    classes: tuple[Any, ...] | None = None
    fold: NDArray[Any] | None = None
    features: NDArray[Any] | None = None
    swa_logits: NDArray[Any] | None = None
    gathering: Gathering | None = None
    allow_missing: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    reducers: Reducers | None = None
    path: Path | None = None

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
        swa_logits: Any | None = None,
        gathering: Gathering | None = None,
        partial: str = "error",
        settings: dict[str, Any] | None = None,
    ) -> "Dynamics":
        """Dynamics from logits (E, N, K), or (N, K) of a single epoch, and labels (N,); nothing is copied.

        Labels are column numbers, or names listed in `classes` in the order of the columns. With partial="allow" a row
        of NaN is an epoch at which the sample was not recorded.
        """
        checked = check_logits(logits)
        if checked.ndim == 2:
            checked = checked[None]
        if checked.ndim != 3:
            raise InputError(f"logits must have shape (E, N, K) or (N, K), not {np.shape(logits)}")
        _, samples, num_classes = checked.shape
        encoded = check_labels(labels, num_classes, classes)
        if len(encoded) != samples:
            raise InputError(f"there are {len(encoded)} labels for {samples} samples of logits")
        warn_if_not_logits(checked[-1])
        return cls(
            logits=checked,
            labels=encoded,
            ids=SampleIds(ids, samples).values,
            num_classes=num_classes,
            classes=None if classes is None else tuple(classes),
            fold=_aligned("fold", fold, samples),
            features=_aligned("features", features, samples),
            swa_logits=_aligned("swa_logits", swa_logits, samples, num_classes),
            gathering="out-of-sample" if gathering is None and fold is not None else gathering,
            allow_missing=check_partial(partial),
            settings=dict(settings or {}),
        )

    @classmethod
    def open(cls, path: str | Path) -> "Dynamics":
        """Dynamics from a folder, memory-mapped; epochs beyond the manifest (a crash) are not seen."""
        folder = Path(path)
        manifest = read_manifest(folder)
        epochs, samples, num_classes = _shape(folder, manifest)
        logits = None
        if manifest["keep"] == "all":
            logits = load_array(folder / "logits.npy", mapped=True)
            if logits.shape[1:] != (samples, num_classes) or len(logits) < epochs or logits.dtype != manifest["dtype"]:
                raise StoreError(
                    f"{folder / 'logits.npy'} holds {logits.dtype} {logits.shape}, but the manifest says "
                    f"{manifest['dtype']} {(epochs, samples, num_classes)}"
                )
            logits = logits[:epochs]
        arrays = {"labels": load_array(folder / "labels.npy"), "ids": load_array(folder / "ids.npy")}
        for name in OPTIONAL_ARRAYS:
            if (folder / f"{name}.npy").exists():
                arrays[name] = load_array(folder / f"{name}.npy", mapped=True)
        for name, array in arrays.items():
            if len(array) != samples:
                raise StoreError(f"{folder / f'{name}.npy'} has {len(array)} rows, but the manifest says {samples} samples")
        if label_hash(arrays["labels"]) != manifest["label_hash"]:
            raise StoreError(f"{folder / 'labels.npy'} is not the file this run was recorded with: its hash differs")
        return cls(
            logits=logits,
            num_classes=num_classes,
            classes=None if manifest["classes"] is None else tuple(manifest["classes"]),
            gathering=manifest["gathering"],
            allow_missing=manifest["partial"] == "allow",
            settings=manifest["settings"],
            reducers=Reducers.load(folder, epochs, samples, num_classes) if logits is None else None,
            path=folder,
            **arrays,
        )

    def save(self, path: str | Path) -> "Dynamics":
        """Write to a new folder and open it from there."""
        folder = Path(path)
        if self.logits is None:
            raise InputError("running sums are saved by their Recorder, not again")
        create_folder(folder, resume=False)
        dtype = self.logits.dtype if self.logits.dtype.itemsize <= 4 else np.dtype(np.float64)
        save_array(folder / "labels.npy", self.labels)
        save_array(folder / "ids.npy", SampleIds(self.ids, len(self.labels)).portable())
        for name in OPTIONAL_ARRAYS:
            array = getattr(self, name)
            if array is not None:
                save_array(folder / f"{name}.npy", np.asarray(array))
        file = LogitsFile(folder / "logits.npy", self.samples, self.num_classes, dtype, 0)
        checksums = []
        for epoch in self.logits:
            file.begin_epoch()[:] = epoch
            checksums.append(file.end_epoch())
        manifest = describe(self.labels, self.ids, self.num_classes, self.classes, dtype, keep="all")
        manifest |= {"partial": "allow" if self.allow_missing else "error", "gathering": self.gathering}
        manifest |= {"settings": self.settings, "epochs": self.epochs, "checksums": checksums}
        write_manifest(folder, manifest)
        return Dynamics.open(folder)

    @property
    def epochs(self) -> int:
        """How many epochs there are."""
        if self.logits is not None:
            return len(self.logits)
        assert self.reducers is not None
        return self.reducers.epochs

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return len(self.labels)

    def window(self, window: Window | None) -> "Dynamics":
        """The same run seen over epochs start to end, both included; weight averages are of the whole run only."""
        if window is None or check_window(window, self.epochs) == slice(0, self.epochs):
            return self
        if self.logits is None:
            raise InputError("this run kept running sums of all epochs; a window needs the logits of each (keep='all')")
        return replace(self, logits=self.logits[check_window(window, self.epochs)], swa_logits=None, path=None)

    def replayable(self) -> Epochs:
        """The epochs as methods take them."""
        if self.logits is None:
            raise InputError("this run kept running sums only; the logits of each epoch are needed here (keep='all')")
        return Epochs(self.logits, self.labels, self.swa_logits, self.allow_missing)

    def class_name(self, number: int) -> Any:
        """A class by its name, or by its number if it has none."""
        return number if self.classes is None else self.classes[number]

    def verify(self) -> None:
        """Check every stored epoch against its checksum; a damaged one is named."""
        if self.path is None or self.logits is None:
            return
        for epoch, checksum in enumerate(read_manifest(self.path)["checksums"]):
            if zlib.crc32(np.ascontiguousarray(self.logits[epoch]).data) != checksum:
                raise StoreError(f"epoch {epoch} in {self.path / 'logits.npy'} is not what was recorded")

    def __repr__(self) -> str:
        where = f" in {self.path}" if self.path else ""
        kept = "" if self.logits is not None else ", running sums only"
        return f"Dynamics({self.epochs} epochs, {self.samples:,} samples, {self.num_classes} classes{kept}{where})"


def describe(
    labels: Labels, ids: NDArray[Any], num_classes: int, classes: Sequence[Any] | None, dtype: np.dtype[Any], keep: str
) -> dict[str, Any]:
    """The part of a manifest that stays the same from the first epoch to the last."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        own = version("errata")
    except PackageNotFoundError:  # run from a source tree
        own = "source"
    return {
        "schema": SCHEMA,
        "epochs": 0,
        "samples": len(labels),
        "num_classes": num_classes,
        "classes": None if classes is None else [getattr(name, "item", lambda name=name: name)() for name in classes],
        "dtype": str(dtype),
        "keep": keep,
        "label_hash": label_hash(labels),
        "id_hash": id_hash(ids),
        "versions": {"errata": own, "numpy": np.__version__, "python": platform.python_version()},
        "checksums": [],
    }


def id_hash(ids: NDArray[Any]) -> str:
    """A hash of the ids in their order, the same in memory and after a round trip through a file."""
    digest = hashlib.sha256()
    for value in SampleIds(ids, len(ids)).portable().tolist():
        digest.update(f"{value}\0".encode())
    return digest.hexdigest()


def create_folder(folder: Path, *, resume: bool) -> None:
    """Make an empty folder for a run, or accept the one that is there when it is to be resumed."""
    if (folder / MANIFEST).exists() and not resume:
        epochs = read_manifest(folder)["epochs"]
        raise StoreError(f"{folder} already holds {epochs} epochs; pass resume=True to go on, or take another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = [entry.name for entry in folder.iterdir()]
    except OSError as error:
        raise StoreError(f"{folder} cannot be created: {error.strerror}") from error
    if others and not (folder / MANIFEST).exists():
        raise StoreError(f"{folder} holds other files ({sorted(others)[0]}, ...); take an empty or a new folder")


def check_partial(partial: str) -> bool:
    """Whether samples may miss epochs."""
    if partial not in ("error", "allow"):
        raise InputError(f"partial must be 'error' or 'allow', not {partial!r}")
    return partial == "allow"


def warn_if_not_logits(logits: NDArray[Any]) -> None:
    """Warn when logits (N, K) look like probabilities, or like the softmax of probabilities."""
    rows = np.asarray(logits[:_ROWS_LOOKED_AT], dtype=np.float64)
    rows = rows[np.isfinite(rows).all(axis=1)]
    if not len(rows):
        return
    if rows.min() >= 0 and np.allclose(rows.sum(axis=1), 1, atol=1e-3):
        spread = rows.max(axis=1) / np.maximum(rows.min(axis=1), 1e-300)
        twice = spread.max() <= np.e * 1.001
        said = "were put through softmax twice" if twice and len(rows) > 1 else "are probabilities, not logits"
        warnings.warn(f"these rows sum to one: they look as if they {said}; pass np.log(p) of plain probabilities", stacklevel=3)
    elif len(rows) > 1 and (np.ptp(rows, axis=1) <= 1).all() and np.allclose(np.exp(rows).sum(axis=1), 1, atol=1e-3):
        warnings.warn("these look like log-probabilities of a softmax applied twice: no two classes differ by more than 1", stacklevel=3)


def _aligned(name: str, array: Any | None, samples: int, columns: int | None = None) -> NDArray[Any] | None:
    if array is None:
        return None
    from errata.core.checks import as_numpy

    checked = array if isinstance(array, np.ndarray) else as_numpy(array)
    if len(checked) != samples or (columns is not None and checked.shape != (samples, columns)):
        wanted = f"({samples}, {columns})" if columns else f"({samples}, ...)"
        raise InputError(f"{name} must have shape {wanted}, not {checked.shape}")
    return checked


def _shape(folder: Path, manifest: dict[str, Any]) -> tuple[int, int, int]:
    try:
        epochs, samples, classes = (int(manifest[key]) for key in ("epochs", "samples", "num_classes"))
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{folder / MANIFEST} is damaged: {error!r}") from None
    if epochs < 1:
        raise StoreError(f"{folder} holds no whole epoch yet")
    return epochs, samples, classes
