"""The files of CIFAR-10, CIFAR-100, CIFAR-10N and CIFAR-100N.

CIFAR is read from the pickles of the official archive, or from mosaics: lossless pictures with many images in rows,
and their labels in labels.npz.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.datasets.pickles import read_pickle, read_torch
from errata.datasets.spec import (
    PRETRAINED,
    Arrays,
    Dataset,
    PaperRow,
    ParsedArrays,
    PreparedArrays,
    PreparedData,
    Setting,
    Source,
)
from errata.datasets.table_datasets import check_rows
from errata.errors import DataError
from errata.extras import require_pillow
from errata.image_decoding import decode_image
from errata.readers.file_access import READ_ERRORS, file_errors
from errata.training.recipes import fine_tuning_recipe

SIDE, TRAIN_IMAGES = 32, 50_000
PIXELS = 3 * SIDE * SIDE
MOSAICS = {"train": 10, "test": 2}
PICTURES = tuple(f"{part}_{number:02d}.webp" for part, count in MOSAICS.items() for number in range(count))
MOSAIC_FILES = (*PICTURES, "labels.npz")
CLEAN = "clean"
CIFAR, CIFAR_N = "https://www.cs.toronto.edu/~kriz", "https://github.com/UCSC-REAL/cifar-10-100n"
BIBTEX = """@techreport{krizhevsky2009learning,
  author = {Krizhevsky, Alex},
  title = {Learning Multiple Layers of Features from Tiny Images},
  institution = {University of Toronto},
  year = {2009}
}"""
BIBTEX_N = """@inproceedings{wei2022learning,
  author = {Wei, Jiaheng and Zhu, Zhaowei and Cheng, Hao and Liu, Tongliang and Niu, Gang and Liu, Yang},
  title = {Learning with Noisy Labels Revisited: A Study Using Real-World Human Annotations},
  booktitle = {International Conference on Learning Representations},
  year = {2022}
}"""


@dataclass(frozen=True)
class CifarRelease:
    """An official release of CIFAR.

    archive: its file name. folder: the folder in it. batches: the pickles in the folder, the test pickle last.
    labels: the key of the labels in a pickle. rows: images per pickle. classes: the number of classes.
    """

    archive: str
    folder: str
    batches: tuple[str, ...]
    labels: str
    rows: tuple[int, ...]
    classes: int

    @property
    def paths(self) -> tuple[str, ...]:
        """The pickles as paths in the archive, and below the folder it was unpacked in."""
        return tuple(f"{self.folder}/{batch}" for batch in self.batches)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The forms in which the release can be read, the official one first."""
        return Source(self.paths, partial(read_batches, self)), Source(MOSAIC_FILES, read_mosaics)

    def dataset(self, **fields: Any) -> Dataset:
        """The dataset of the release. fields: those in which CIFAR-10 and CIFAR-100 differ."""
        return Dataset(
            source=f"{CIFAR}/cifar.html",
            licence="none stated; cite Krizhevsky (2009)",
            bibtex=BIBTEX,
            kind="images",
            sources=self.sources,
            prepare=prepare_images,
            downloads=(f"{CIFAR}/{self.archive}",),
            paper=PaperRow(60_000, "32×32", "32×32", self.classes, train=TRAIN_IMAGES, test=10_000),
            class_counts=(60_000 // self.classes,) * self.classes,
            **fields,
        )


def with_backbone(*usual: Setting) -> tuple[Setting, ...]:
    """The same settings with EfficientNet-Lite0, fine-tuned, in place of a network that is trained from scratch."""
    recipe = fine_tuning_recipe(TRAIN_IMAGES)
    return tuple(Setting(one.dataset, one.noise, "lite0", recipe, suite=PRETRAINED) for one in usual)


def human_labels(base: Dataset, file: str, columns: Mapping[str, str], **fields: Any) -> Dataset:
    """Human labels of the training images of `base`. columns: the key in the file for the name of each column."""
    return Dataset(
        source=CIFAR_N,
        licence="CC BY-NC 4.0",
        bibtex=BIBTEX_N,
        kind="images",
        classes=base.classes,
        sources=(Source((file,), partial(read_human_labels, columns)),),
        prepare=prepare_human_labels,
        downloads=(f"{CIFAR_N}/raw/main/data/{file}",),
        pixels=base.pixels,
        inputs_from=base.name,
        class_counts=base.class_counts,
        **fields,
    )


def read_batches(release: CifarRelease, *paths: Path) -> ParsedArrays:
    """Read the pickles of the official archive and concatenate the training batches."""
    batches = [_batch(release, path, rows) for path, rows in zip(paths, release.rows, strict=True)]
    for (before, first), (after, second) in combinations(zip(paths, batches, strict=True), 2):
        if np.array_equal(first["labels"], second["labels"]):
            raise DataError(f"{after} holds the same images as {before}")
    *train, test = batches
    arrays = {f"train_{name}": np.concatenate([batch[name] for batch in train]) for name in ("inputs", "labels")}
    return ParsedArrays(arrays | {f"test_{name}": test[name] for name in ("inputs", "labels")})


def read_mosaics(*paths: Path) -> ParsedArrays:
    """Read the mosaics and labels in files named `MOSAIC_FILES`."""
    *pictures, labels_path = paths
    arrays: Arrays = {}
    for part in MOSAICS:
        labels = _mosaic_labels(labels_path, part)
        images = np.concatenate([unmosaic(path) for path in pictures if path.name.startswith(part)])
        if len(images) != len(labels):
            raise DataError(f"{labels_path} has {len(labels)} {part} labels for {len(images)} images")
        arrays |= {f"{part}_inputs": images, f"{part}_labels": labels}
    return ParsedArrays(arrays)


def unmosaic(path: Path) -> NDArray[np.uint8]:
    """The images (n, 3, 32, 32) of one mosaic."""
    require_pillow(f"reading {path}")
    with file_errors(path, kinds=(Exception,)):  # decoders raise many kinds of errors
        pixels = np.asarray(decode_image(path))
    height, width, _ = pixels.shape
    if height % SIDE or width % SIDE:
        raise DataError(f"{path} has {width} × {height} pixels, not a multiple of {SIDE}")
    tiles = pixels.reshape(height // SIDE, SIDE, width // SIDE, SIDE, 3)
    return tiles.transpose(0, 2, 4, 1, 3).reshape(-1, 3, SIDE, SIDE)


def prepare_images(parsed: ParsedArrays) -> PreparedArrays:
    """Return the images unchanged: augmentation is part of training."""
    return PreparedArrays(parsed.arrays)


def read_human_labels(columns: Mapping[str, str], path: Path) -> ParsedArrays:
    """Read the clean labels and the human labels (N,) of CIFAR-N. columns: the file's key for each name."""
    content = read_torch(path)
    arrays: Arrays = {}
    for name, key in {CLEAN: "clean_label", **columns}.items():
        labels = content.get(key)
        if not isinstance(labels, np.ndarray) or labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise DataError(f"{path} has no whole numbers under {key!r}")
        arrays[name] = labels.astype(np.int64)
    return ParsedArrays(arrays)


def prepare_human_labels(parsed: ParsedArrays, base: PreparedData) -> PreparedArrays:
    """The human labels by name, and whether each is wrong. The clean labels must be those of `base`, in its order."""
    clean = np.asarray(base.train_labels)
    arrays: Arrays = {}
    for name, labels in parsed.arrays.items():
        if labels.shape != clean.shape:
            raise DataError(f"There are {len(labels)} {name} labels for the {len(clean)} images of {base.name}")
        if name == CLEAN:
            continue
        if labels.min() < 0 or labels.max() >= base.num_classes:
            row = int(np.argmax((labels < 0) | (labels >= base.num_classes)))
            raise DataError(f"The {name} label {labels[row]} in row {row} is not one of the {base.num_classes} classes")
        arrays |= {f"given:{name}": labels, f"wrong:{name}": (labels != clean).astype(np.int8)}
    differs = parsed.arrays[CLEAN] != clean
    if differs.any():
        row = int(np.argmax(differs))
        raise DataError(
            f"The clean labels next to the human labels differ from those of {base.name}, first in row {row} "
            f"({parsed.arrays[CLEAN][row]} and {clean[row]}). They may be in another order"
        )
    return PreparedArrays(arrays)


def _batch(release: CifarRelease, path: Path, rows: int) -> Arrays:
    content = read_pickle(path)
    for key in ("data", release.labels):
        if key not in content:
            raise DataError(f"{path} has no entry {key!r}")
    pixels, labels = content["data"], content[release.labels]
    labels = labels.tolist() if isinstance(labels, np.ndarray) else labels  # a list in the official files
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (PIXELS,):
        raise DataError(f"{path}: 'data' must have rows of {PIXELS} bytes")
    classes = range(release.classes)
    if not isinstance(labels, list) or len(labels) != len(pixels) or not all(label in classes for label in labels):
        raise DataError(f"{path}: {release.labels!r} must hold {len(pixels)} numbers from 0 to {release.classes - 1}")
    check_rows(path, len(pixels), rows)
    return {"inputs": pixels.reshape(-1, 3, SIDE, SIDE), "labels": np.array(labels, dtype=np.int64)}


def _mosaic_labels(path: Path, part: str) -> NDArray[np.int64]:
    with file_errors(path, kinds=(*READ_ERRORS, KeyError)), np.load(path) as file:
        labels: NDArray[Any] = file[part]
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(f"{path}: {part} must hold whole numbers (N,), not {labels.dtype} {labels.shape}")
    return labels.astype(np.int64)
