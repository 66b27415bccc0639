"""The manifest of a dynamics folder: shapes, type, whole epochs, how it was recorded, hashes and checksums."""

import hashlib
import json
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.core.jit import row_blocks
from errata.core.noise import label_hash
from errata.dynamics.files import MANIFEST, replace_atomically
from errata.dynamics.ids import portable_ids
from errata.errors import InputError, StoreError
from errata.version import installed_version

if TYPE_CHECKING:
    from errata.dynamics.store import Dynamics

SCHEMA = 1
_IDS_PER_BLOCK = 1 << 13
_COUNTS = ("epochs", "samples", "num_classes")
_OTHERS = ("classes", "dtype", "keep", "partial", "gathering", "settings", "label_hash", "id_hash", "checksums")


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
    try:
        text = json.dumps(manifest, indent=1, default=str) + "\n"
    except (TypeError, ValueError) as error:
        raise InputError(f"settings cannot be written as JSON: {error}") from None
    replace_atomically(folder / MANIFEST, lambda file: file.write(text.encode()))


def has_manifest(folder: Path) -> bool:
    """Whether the folder is a dynamics folder."""
    try:
        return (folder / MANIFEST).exists()
    except OSError as error:
        raise StoreError(f"{folder} cannot be read: {error.strerror}") from error


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a dynamics folder; refuses one that is damaged or of a newer schema."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        reason = f"it has no {MANIFEST}" if folder.is_dir() else "it does not exist"
        raise StoreError(f"{folder} is not a dynamics folder: {reason}") from None
    except NotADirectoryError:
        raise StoreError(f"{folder} is a file, not a dynamics folder") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} is not a manifest: {error}") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    _check(folder, manifest)
    return manifest  # type: ignore[no-any-return]


def _check(folder: Path, manifest: Any) -> None:
    path = folder / MANIFEST
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    if not isinstance(schema, int) or schema < 1:
        raise StoreError(f"{path} is not a manifest of errata: it has no schema")
    if schema > SCHEMA:
        raise StoreError(f"{folder} was written with schema {schema}; this errata reads up to {SCHEMA}: upgrade errata")
    for key in (*_COUNTS, *_OTHERS):
        if key not in manifest:
            raise StoreError(f"{path} is damaged: it has no {key}")
    for key in _COUNTS:
        if not isinstance(manifest[key], int) or manifest[key] < 0:
            raise StoreError(f"{path} is damaged: {key} is {manifest[key]!r}")


def _portable(name: Any) -> Any:
    """A class name for JSON: numbers and text as they are, other types as text."""
    plain = name.item() if hasattr(name, "item") else name
    return plain if plain is None or isinstance(plain, str | int | float) else str(plain)
