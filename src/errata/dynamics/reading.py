"""Saved logits as dynamics."""

from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from errata.dynamics.files import load_arrays
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
