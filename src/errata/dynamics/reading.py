"""Dynamics from saved logits: .npz and .npy files."""

from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from errata.dynamics.files import load_array, load_arrays
from errata.dynamics.store import Dynamics
from errata.errors import InputError

OPTIONAL = ("ids", "classes", "swa_logits", "features", "inputs", "held_out", "fold")


def holds_logits(path: Path) -> bool:
    """Whether a .npz file contains an array `logits`; reads only the list of its contents."""
    try:
        with ZipFile(path) as packed:
            return "logits.npy" in packed.namelist()
    except (OSError, BadZipFile):
        return False  # the error is raised when the file is read


def read_npy(path: Path, labels: Any) -> Dynamics | None:
    """Dynamics from a .npy file of logits (E, N, K) and N labels, which may be another .npy file.

    None if the file holds no logits of these labels. If the number of labels is E, the file holds inputs, not logits.
    """
    logits = load_array(path, mapped=True)
    values = load_array(Path(labels)) if isinstance(labels, str | Path) else labels
    epochs, samples = logits.shape[:2] if logits.ndim == 3 and logits.dtype.kind == "f" else (0, 0)
    if not hasattr(values, "__len__") or len(values) != samples or samples == epochs:
        return None
    return Dynamics.from_arrays(logits, values)


def read_npz(path: Path) -> Dynamics:
    """Dynamics from a .npz file with `logits`, `labels` and any of OPTIONAL."""
    arrays: dict[str, Any] = load_arrays(path)
    for name in ("logits", "labels"):
        if name not in arrays:
            raise InputError(f"{path} has no array named {name}; it has {', '.join(arrays) or 'none'}")
    options = {name: arrays[name] for name in OPTIONAL if name in arrays}
    if "classes" in options:
        options["classes"] = options["classes"].tolist()
    return Dynamics.from_arrays(arrays["logits"], arrays["labels"], **options)
