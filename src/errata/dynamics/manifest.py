"""The manifest of a dynamics folder: shapes, type, whole epochs, how it was recorded, hashes and checksums."""

import hashlib
import json
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import check_classes
from errata.core.jit import row_blocks
from errata.core.methods import Gathering
from errata.core.noise import label_hash
from errata.dynamics.files import MANIFEST, load_json, replace_atomically
from errata.dynamics.ids import portable_ids
from errata.errors import InputError, StoreError
from errata.version import installed_version
from errata.wording import counted, one_line

if TYPE_CHECKING:
    from errata.dynamics.store import Dynamics

SCHEMA = 1
_IDS_PER_BLOCK = 1 << 13
_TYPES: dict[str, type] = {
    "epochs": int,
    "samples": int,
    "num_classes": int,
    "classes": object,
    "dtype": str,
    "keep": str,
    "partial": str,
    "gathering": object,
    "settings": dict,
    "label_hash": str,
    "id_hash": str,
    "checksums": list,
}
_CHOICES = {"keep": ("all", "stream"), "partial": ("error", "allow")}


def describe(run: "Dynamics", *, dtype: np.dtype[Any], keep: str) -> dict[str, Any]:
    """The manifest of a run before its first epoch."""
    return {
        "schema": SCHEMA,
        "epochs": 0,
        "samples": run.samples,
        "num_classes": run.num_classes,
        "classes": None if run.classes is None else [_portable(name) for name in run.classes],
        "dtype": str(dtype),
        "keep": keep,
        "partial": "allow" if run.allow_missing else "error",
        "gathering": run.gathering,
        "settings": run.settings,
        "label_hash": label_hash(run.labels),
        "id_hash": id_hash(run.ids),
        "versions": {"errata": installed_version(), "numpy": np.__version__, "python": platform.python_version()},
        "checksums": [],
    }


def id_hash(ids: NDArray[Any]) -> str:
    """A hash of the ids in order, the same in memory and in a file."""
    digest = hashlib.sha256()
    for block in row_blocks(len(ids), _IDS_PER_BLOCK):
        text = "".join(f"{value}\0" for value in portable_ids(ids[block]).tolist())
        digest.update(text.encode(errors="surrogatepass"))
    return digest.hexdigest()


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Replace the manifest."""
    text = manifest_json(manifest)
    replace_atomically(folder / MANIFEST, lambda file: file.write(text.encode()))


def is_stored(folder: Path, manifest: dict[str, Any]) -> bool:
    """Whether this is the manifest in the folder."""
    return bool(read_manifest(folder) == json.loads(manifest_json(manifest)))


def manifest_json(manifest: dict[str, Any]) -> str:
    """The manifest as text."""
    try:
        return json.dumps(manifest, indent=1, default=str) + "\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"settings cannot be written as JSON: {one_line(error)}") from None


def has_manifest(folder: Path) -> bool:
    """Whether the folder is a dynamics folder."""
    try:
        return (folder / MANIFEST).exists()
    except OSError as error:
        raise StoreError(f"{folder} cannot be read: {error.strerror}") from error


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a dynamics folder; refuses one that is damaged or of a newer schema."""
    path = folder / MANIFEST
    if folder.is_file():
        raise StoreError(f"{folder} is a file, not a dynamics folder")
    if not has_manifest(folder):
        reason = f"it has no {MANIFEST}" if folder.is_dir() else "it does not exist"
        raise StoreError(f"{folder} is not a dynamics folder: {reason}")
    manifest = load_json(path)
    check_manifest(str(path), manifest)
    return manifest


def check_manifest(path: str, manifest: Any) -> None:
    """Refuse a manifest that is damaged or of a newer schema; `path` is for messages."""
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    if not isinstance(schema, int) or schema < 1:
        raise StoreError(f"{path} is not a manifest of errata: it has no schema")
    if schema > SCHEMA:
        raise StoreError(f"{path} was written with schema {schema}; this errata reads up to {SCHEMA}: upgrade errata")
    for key, kind in _TYPES.items():
        if key not in manifest:
            raise StoreError(f"{path} is damaged: it has no {key}")
        value = manifest[key]
        valid = isinstance(value, kind) and value in _CHOICES.get(key, (value,))
        if not valid or (kind is int and (isinstance(value, bool) or value < 0)):
            raise StoreError(f"{path} is damaged: {key} is {one_line(repr(value))}")
    try:
        check_gathering(manifest["gathering"])
        if manifest["classes"] is not None:
            check_classes(manifest["classes"], manifest["num_classes"])
    except InputError as error:
        raise StoreError(f"{path} is damaged: {error}") from None


def refuse_lost_epochs(where: object, manifest: dict[str, Any], resume: bool | int, overwrite: bool) -> None:
    """Refuse to start a run where one has epochs, which can be started again only without any."""
    if manifest["epochs"] and resume is False and not overwrite:
        raise StoreError(
            f"{where} already holds {counted(manifest['epochs'], 'epoch')}; pass resume=True to continue, "
            "overwrite=True to replace them, or choose another folder"
        )


def epochs_to_keep(where: object, existing: dict[str, Any], resume: bool | int) -> int:
    """After how many epochs a run is continued."""
    stored = int(existing["epochs"])
    epochs = stored if resume is True else int(resume)
    if epochs > stored:
        raise StoreError(f"{where} holds {stored} epochs, so it cannot resume after {epochs}")
    if epochs < stored and existing["keep"] == "stream":
        raise StoreError(f"{where} holds running sums after {stored} epochs and cannot go back to {epochs}")
    return epochs


def require_same_run(where: object, existing: dict[str, Any], manifest: dict[str, Any]) -> None:
    """Refuse to continue a run that was recorded with other options, labels or ids."""
    for key in ("samples", "num_classes", "classes", "dtype", "keep", "partial", "gathering", "methods"):
        own, new = existing.get(key), manifest.get(key)
        if own != new:
            raise StoreError(f"{where} was recorded with {key}={own!r}, not {new!r}: resume needs the same run")
    for key, name in (("label_hash", "labels"), ("id_hash", "ids")):
        if existing[key] != manifest[key]:
            raise StoreError(f"{where} was recorded with other {name}: resume needs the same run")


def check_gathering(gathering: Gathering | None) -> Gathering | None:
    """The gathering, or None if it is unknown."""
    if gathering is not None and gathering not in get_args(Gathering):
        raise InputError(f"gathering must be 'in-sample' or 'out-of-sample', not {gathering!r}")
    return gathering


def _portable(name: Any) -> Any:
    """A class name for JSON: numbers and text as they are, other types as text."""
    plain = name.item() if hasattr(name, "item") else name
    return plain if plain is None or isinstance(plain, str | int | float) else str(plain)
