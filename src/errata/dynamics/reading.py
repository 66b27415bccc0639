"""Saved logits as dynamics."""

from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from errata.dynamics.files import load_array, load_arrays
from errata.dynamics.store import Dynamics
from errata.errors import InputError

OPTIONAL = ("ids", "classes", "swa_logits", "features", "inputs", "fold")


def holds_logits(path: Path) -> bool:
    """Whether a .npz file has an array of logits, told from its list of contents."""
    try:
        with ZipFile(path) as packed:
            return "logits.npy" in packed.namelist()
    except (OSError, BadZipFile):
        return False  # whoever reads it says what is wrong with it


def read_npy(path: Path, labels: Any) -> Dynamics | None:
    """Dynamics from a .npy file of logits (E, N, K) and N labels, which may be in another; None of anything else.

    Where there are as many labels as E, the file holds inputs of as many samples.
    """
    logits = load_array(path, mapped=True)
    given = load_array(Path(labels)) if isinstance(labels, str | Path) else labels
    epochs, samples = logits.shape[:2] if logits.ndim == 3 and logits.dtype.kind == "f" else (0, 0)
    if not hasattr(given, "__len__") or len(given) != samples or samples == epochs:
        return None
    return Dynamics.from_arrays(logits, given)


def read_npz(path: Path) -> Dynamics:
    """Dynamics from a .npz file with `logits` and `labels`, and what else is known of the samples."""
    arrays: dict[str, Any] = load_arrays(path)
    for name in ("logits", "labels"):
        if name not in arrays:
            raise InputError(f"{path} has no array named {name}; it has {', '.join(arrays) or 'none'}")
    known = {name: arrays[name] for name in OPTIONAL if name in arrays}
    if "classes" in known:
        known["classes"] = known["classes"].tolist()
    return Dynamics.from_arrays(arrays["logits"], arrays["labels"], **known)
