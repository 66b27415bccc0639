"""The files CIFAR-10 and CIFAR-100 come in: pickles in a folder, the archive of that folder, or mosaics."""

import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from errata.datasets.mosaics import mosaic_names, read_mosaics
from errata.datasets.pickles import read_pickle, unpickle
from errata.datasets.spec import Arrays, Content, Prepared, Raw, Source
from errata.errors import DataError

ROW = 3 * 32 * 32


@dataclass(frozen=True)
class Layout:
    """Names in an official release: its archive, the folder in it, the pickles in that, and the labels in those."""

    archive: str
    folder: str
    train: tuple[str, ...]
    test: str
    labels: str

    def path(self, batch: str) -> str:
        """Where a batch lies, in the archive and below the place it was unpacked in."""
        return f"{self.folder}/{batch}"

    @property
    def paths(self) -> tuple[str, ...]:
        """All batches, the test one last."""
        return tuple(self.path(batch) for batch in (*self.train, self.test))


def cifar_sources(layout: Layout) -> tuple[Source, ...]:
    """The forms a CIFAR may be there in, the official ones first."""
    return (
        Source(layout.paths, partial(read_folder, layout)),
        Source((layout.archive,), partial(read_archive, layout)),
        Source(mosaic_names(train=10, test=2), read_mosaics),
    )


def read_folder(layout: Layout, paths: Sequence[Path]) -> Raw:
    """The unpacked official release."""
    return _raw([_batch(read_pickle(path), layout.labels, path) for path in paths])


def read_archive(layout: Layout, paths: Sequence[Path]) -> Raw:
    """The official archive, nothing of it unpacked to disk."""
    path = paths[0]
    members = _members(path, layout.paths)
    batches = []
    for name in layout.paths:
        if name not in members:
            raise DataError(f"{path} holds no {name}")
        where = f"{path}: {name}"
        batches.append(_batch(unpickle(members.pop(name), where), layout.labels, where))
    return _raw(batches)


def prepare_images(raw: Raw, base: Prepared | None) -> Content:
    """As they are: transforms belong to training."""
    return Content(raw.arrays)


def _members(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    found = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:  # in the order of the archive: going back would mean to decompress again
                file = archive.extractfile(member) if member.name in names else None
                if file is not None:
                    found[member.name] = file.read()
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise DataError(f"{path} is not a whole archive: {error}") from error
    return found


def _batch(content: Mapping[str, Any], labels_key: str, name: str | Path) -> Arrays:
    for key in ("data", labels_key):
        if key not in content:
            raise DataError(f"{name} has no entry {key!r}")
    rows, labels = content["data"], content[labels_key]
    labels = labels.tolist() if isinstance(labels, np.ndarray) else labels  # a list in the official files
    if not isinstance(rows, np.ndarray) or rows.dtype != np.uint8 or rows.shape[1:] != (ROW,):
        raise DataError(f"{name}: 'data' must be rows of {ROW} bytes")
    if not isinstance(labels, list) or len(labels) != len(rows) or not all(label in range(256) for label in labels):
        raise DataError(f"{name}: {labels_key!r} must be {len(rows)} numbers from 0 to 255")
    return {"inputs": rows.reshape(-1, 3, 32, 32), "labels": np.array(labels, dtype=np.int64)}


def _raw(batches: Sequence[Arrays]) -> Raw:
    """Training batches put together, and the last one for testing."""
    *train, test = batches
    together = {f"train_{name}": np.concatenate([batch[name] for batch in train]) for name in ("inputs", "labels")}
    return Raw(together | {f"test_{name}": test[name] for name in ("inputs", "labels")})
