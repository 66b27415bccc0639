"""The folder that `errata find` writes to: for one process at a time, without remains of killed runs."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from errata.core.noise import label_hash
from errata.dynamics.files import DYNAMICS
from errata.dynamics.manifest import id_hash
from errata.dynamics.store import Dynamics
from errata.errors import StoreError
from errata.finding.found import claim_folder
from errata.finding.found_files import SUMMARY, read_summary
from errata.finding.sources import DataSource
from errata.locks import lock_folder
from errata.readers import UserData
from errata.version import installed_version

KEY_DIGITS = 16  # in the name of a folder with resume files
WORK = "work"  # subfolder with the resume files of an interrupted run
FEATURES = "features"  # subfolder with the vectors of a pretrained model, for the next run on the same inputs
LARGEST_FEATURES = 1 << 30  # bytes; more are deleted with the resume files
ORIGIN = "origin"  # entry of summary.json: where the samples were read, and their hash


def has_unfinished_work(out: Path) -> bool:
    """True if an interrupted call left files in `out` to resume from."""
    return any(path for folder in (WORK, FEATURES) for path in (out / folder).glob("[!.]*"))


def features_folder(out: Path, data: UserData, model_key: str) -> Path:
    """Where the vectors of a pretrained model are stored: one folder per model, inputs and version, for any labels."""
    text = f"{model_key} {data.input_hashes} {data.columns} {installed_version()}"
    return out / FEATURES / hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def keep_features(out: Path, used: Path | None) -> None:
    """Delete all stored vectors except those that were used, and these too if they are very large."""
    files = [] if used is None else [file for file in used.rglob("*") if file.is_file()]
    if sum(file.stat().st_size for file in files) > LARGEST_FEATURES:
        used = None
    _delete_folders(out / FEATURES, used)


@contextmanager
def write_results(out: Path, opened: UserData | Dynamics, described: DataSource, overwrite: bool) -> Iterator[Path]:
    """Lock the folder while its results are computed and written. Results of other data need `overwrite`.

    The `with` statement returns the folder for resume files, which are deleted at the end of the block.
    """
    _refuse_other_results(out, opened, described, overwrite)
    claim_folder(out)
    with lock_folder(out):
        _refuse_other_results(out, opened, described, overwrite)  # another process may have finished since
        for part in out.rglob(".*.part"):
            part.unlink()
        for folder in list(out.rglob(".*.unfinished")):
            shutil.rmtree(folder)
        yield out / WORK
        _delete_folders(out / WORK)


def origin(out: Path | None, opened: UserData | Dynamics, described: DataSource) -> dict[str, Any]:
    """The entry for summary.json: the path relative to `out`, None for objects in memory, and a hash.

    For dynamics that are in `out`, it is the entry that is there.
    """
    if isinstance(opened, UserData):
        digest = opened.content_hash
    elif out is not None and opened.path is not None and opened.path.resolve() == (out / DYNAMICS).resolve():
        return _stored_origin(out)
    else:
        digest = _dynamics_hash(opened)
    path = None if out is None or described.path is None else os.path.relpath(described.path, out)
    return {"path": path, "hash": digest}


def _stored_origin(out: Path) -> dict[str, Any]:
    stored = read_summary(out).get(ORIGIN) if (out / SUMMARY).is_file() else None
    return stored if isinstance(stored, dict) else {}


def _dynamics_hash(dynamics: Dynamics) -> str:
    digest = hashlib.sha256(f"{label_hash(dynamics.labels)} {id_hash(dynamics.ids)} {dynamics.epochs}".encode())
    if dynamics.logits is not None:
        digest.update(np.ascontiguousarray(dynamics.logits[-1]).tobytes())
    return digest.hexdigest()


def _refuse_other_results(out: Path, opened: UserData | Dynamics, described: DataSource, overwrite: bool) -> None:
    """Refuse to replace results unless they were read from the same place or have the same contents."""
    if overwrite or not (out / SUMMARY).is_file():
        return
    stored, new = _stored_origin(out), origin(out, opened, described)
    same_path = new.get("path") is not None and stored.get("path") == new["path"]
    if not same_path and stored.get("hash") != new.get("hash"):
        other = os.path.normpath(out / stored["path"]) if stored.get("path") else "other data"
        raise StoreError(
            f"{out} holds the results of {other}: name another folder with `out=`, or replace them: `overwrite=True`"
        )


def _delete_folders(parent: Path, kept: Path | None = None) -> None:
    """Delete the folders of all runs but one. If that is interrupted, the next run deletes the rest by its name."""
    for run in parent.glob(KEY_DIGITS * "[0-9a-f]"):
        if run != kept:
            shutil.rmtree(run.rename(run.with_name(f".{run.name}.unfinished")), ignore_errors=True)
    if parent.is_dir() and not any(parent.iterdir()):
        parent.rmdir()
