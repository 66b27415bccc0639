"""The folder of a run: opened from its manifest, and started before the first epoch."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import check_aligned, check_points
from errata.core.noise import label_hash
from errata.dynamics.files import MANIFEST, load_array, load_arrays, save_array
from errata.dynamics.ids import portable_ids, refuse_same_text
from errata.dynamics.manifest import id_hash, write_manifest
from errata.dynamics.reducers import SUMS, Reducers, sums_file
from errata.dynamics.store import OPTIONAL_ARRAYS, POINTS, Dynamics
from errata.errors import InputError, StoreError


def open_folder(folder: Path, manifest: dict[str, Any]) -> Dynamics:
    """The dynamics in a folder with this manifest; epochs beyond it are ignored."""
    epochs, samples, num_classes = (manifest[key] for key in ("epochs", "samples", "num_classes"))
    if epochs < 1:
        raise StoreError(f"{folder} holds no whole epoch yet")
    logits = _load_logits(folder, manifest) if manifest["keep"] == "all" else None
    arrays: dict[str, Any] = {name: load_array(folder / f"{name}.npy") for name in ("labels", "ids")}
    for name in OPTIONAL_ARRAYS:
        if (folder / f"{name}.npy").exists():
            arrays[name] = load_array(folder / f"{name}.npy", mapped=True)
    for name, array in arrays.items():
        _check_array(folder / f"{name}.npy", name, array, samples, num_classes)
    unchanged = {
        "labels": _are_labels(arrays["labels"], manifest),
        "ids": id_hash(arrays["ids"]) == manifest["id_hash"],
    }
    for name, same in unchanged.items():
        if not same:
            raise StoreError(f"{folder / f'{name}.npy'} is not the file this run was recorded with: its hash differs")
    reducers = None
    if logits is None:
        sums = folder / sums_file(epochs)
        reducers = Reducers.from_stored(load_arrays(sums), str(sums), epochs, samples, num_classes)
    checksums = None if logits is None else _checksums(folder, manifest)
    described = described_run(manifest) | arrays
    return Dynamics(logits=logits, reducers=reducers, path=folder, checksums=checksums, **described)


def described_run(manifest: dict[str, Any]) -> dict[str, Any]:
    """The fields of Dynamics that a manifest holds."""
    return {
        "num_classes": manifest["num_classes"],
        "classes": None if manifest["classes"] is None else tuple(manifest["classes"]),
        "gathering": manifest["gathering"],
        "allow_missing": manifest["partial"] == "allow",
        "settings": manifest["settings"],
    }


def _check_array(file: Path, name: str, array: NDArray[Any], samples: int, num_classes: int) -> None:
    try:
        if name in POINTS:
            check_points(str(file), array, samples, finite=False)  # values are checked when they are used
        else:
            check_aligned(str(file), array, samples, num_classes if name in ("swa_logits", "held_out") else None)
            if name in ("labels", "ids") and array.ndim != 1:
                raise InputError(f"{file} must have shape ({samples},), not {array.shape}")
    except InputError as error:
        raise StoreError(f"{error}; the manifest says {samples} samples and {num_classes} classes") from None


def _are_labels(array: NDArray[Any], manifest: dict[str, Any]) -> bool:
    try:
        return bool(label_hash(array) == manifest["label_hash"])
    except InputError:  # not class numbers
        return False


def _load_logits(folder: Path, manifest: dict[str, Any]) -> NDArray[Any]:
    path = folder / "logits.npy"
    logits = load_array(path, mapped=True)
    expected = tuple(manifest[key] for key in ("epochs", "samples", "num_classes"))
    if logits.shape[1:] != expected[1:] or len(logits) < expected[0] or str(logits.dtype) != manifest["dtype"]:
        raise StoreError(
            f"{path} holds {logits.dtype} {logits.shape}, but the manifest says {manifest['dtype']} {expected}"
        )
    return logits[: expected[0]]


def _checksums(folder: Path, manifest: dict[str, Any]) -> tuple[tuple[int, int], ...]:
    """The number of each whole epoch and its checksum."""
    checksums, epochs = manifest["checksums"], manifest["epochs"]
    if len(checksums) < epochs:
        raise StoreError(f"{folder / MANIFEST} is damaged: it has {len(checksums)} checksums for {epochs} epochs")
    return tuple(enumerate(checksums[:epochs]))


def start_folder(folder: Path, manifest: dict[str, Any], run: Dynamics) -> None:
    """Write the files that exist before the first epoch; the manifest first, so that a crashed run can be resumed.

    Files of an earlier run, which ends with its manifest, are removed.
    """
    refuse_same_text(run.ids)
    write_manifest(folder, manifest)
    for pattern in (*(f"{name}.npy" for name in ("logits", *OPTIONAL_ARRAYS)), SUMS):
        for file in folder.glob(pattern):
            file.unlink()  # rather than changed: it may be memory-mapped
    arrays = {"labels": run.labels, "ids": portable_ids(run.ids)}
    for name, array in (arrays | {name: getattr(run, name) for name in OPTIONAL_ARRAYS}).items():
        if array is not None:
            save_array(folder / f"{name}.npy", np.asarray(array))
