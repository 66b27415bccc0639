"""The files CIFAR-10 and CIFAR-100 come in: pickles in a folder, the archive of that folder, or mosaics."""

import tarfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from errata.datasets.mosaics import mosaic_names, read_mosaics
from errata.datasets.pickles import read_pickle, unpickle
from errata.datasets.spec import Arrays, Content, Prepared, Raw, Source
from errata.datasets.tables import check_rows
from errata.errors import DataError
from errata.wording import one_line

ROW = 3 * 32 * 32
BIBTEX = """@techreport{krizhevsky2009learning,
  author = {Krizhevsky, Alex},
  title = {Learning Multiple Layers of Features from Tiny Images},
  institution = {University of Toronto},
  year = {2009}
}"""


@dataclass(frozen=True)
class Layout:
    """An official release: its archive, the folder in it, the pickles in that, and the labels in those, by name.

    rows: how many images each pickle holds, that for testing last. classes: how many there are.
    """

    archive: str
    folder: str
    train: tuple[str, ...]
    test: str
    labels: str
    rows: tuple[int, ...]
    classes: int

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
    return _raw(layout, [str(path) for path in paths], (read_pickle(path) for path in paths))


def read_archive(layout: Layout, paths: Sequence[Path]) -> Raw:
    """The official archive, nothing of it unpacked to disk."""
    path = paths[0]
    members = _members(path, layout.paths)
    for name in layout.paths:
        if name not in members:
            raise DataError(f"{path} holds no {name}")
    names = [f"{path}: {name}" for name in layout.paths]
    pickled = (unpickle(members.pop(member), name) for member, name in zip(layout.paths, names, strict=True))
    return _raw(layout, names, pickled)


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
        raise DataError(f"{path} is not a whole archive: {one_line(error)}") from error
    return found


def _batch(layout: Layout, content: Mapping[str, Any], name: str, rows: int) -> Arrays:
    for key in ("data", layout.labels):
        if key not in content:
            raise DataError(f"{name} has no entry {key!r}")
    pixels, labels = content["data"], content[layout.labels]
    labels = labels.tolist() if isinstance(labels, np.ndarray) else labels  # a list in the official files
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (ROW,):
        raise DataError(f"{name}: 'data' must be rows of {ROW} bytes")
    known = range(layout.classes)
    if not isinstance(labels, list) or len(labels) != len(pixels) or not all(label in known for label in labels):
        raise DataError(f"{name}: {layout.labels!r} must be {len(pixels)} numbers from 0 to {layout.classes - 1}")
    check_rows(name, len(pixels), rows)
    return {"inputs": pixels.reshape(-1, 3, 32, 32), "labels": np.array(labels, dtype=np.int64)}


def _raw(layout: Layout, names: Sequence[str], contents: Iterable[Mapping[str, Any]]) -> Raw:
    """Training batches put together, and the last one for testing."""
    batches = [
        _batch(layout, content, name, rows) for content, name, rows in zip(contents, names, layout.rows, strict=True)
    ]
    for (before, first), (after, second) in combinations(zip(names, batches, strict=True), 2):
        if np.array_equal(first["labels"], second["labels"]):
            raise DataError(f"{after} holds the same images as {before}")
    *train, test = batches
    together = {f"train_{name}": np.concatenate([batch[name] for batch in train]) for name in ("inputs", "labels")}
    return Raw(together | {f"test_{name}": test[name] for name in ("inputs", "labels")})
