"""Is a dataset what it should be? One line a check: files, hashes, sizes and class counts against the paper's table."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.datasets.labelled import Labelled, label
from errata.datasets.loading import load
from errata.datasets.spec import Dataset, Prepared
from errata.datasets.where import Found, how_to_get, locate
from errata.errors import DataError, ErrataError, InputError, MissingDataError
from errata.readers.hashing import array_hash


@dataclass(frozen=True)
class Check:
    """What was looked at, what was found, and whether that is right; None where nothing can be said."""

    what: str
    found: str
    passed: bool | None


def check_dataset(dataset: Dataset, folder: Path) -> Iterator[Check]:
    """Every check of a dataset, from its files on; a dataset that is not there is one check that says how to get it."""
    try:
        found = locate(dataset, folder)
    except MissingDataError:
        yield Check("files", f"not there: {how_to_get(dataset, folder)}", None)
        return
    except DataError as error:
        yield Check("files", str(error), False)
        return
    yield Check("files", ", ".join(dict.fromkeys(found.source.files)) or "none needed", True)
    try:
        hashes = list(_hashes(dataset, found))
        yield from hashes
        if any(check.passed is False for check in hashes):
            return
        data = load(dataset.name, folder)
    except (MissingDataError, InputError) as error:  # another dataset it needs, or a package that reads it
        yield Check("files", str(error), None)
        return
    except ErrataError as error:
        yield Check("content", str(error), False)
        return
    for remark in data.remarks:
        yield Check("remark", remark, None)
    yield from _sizes(dataset, data)
    yield from _labels(dataset, data)


def _hashes(dataset: Dataset, found: Found) -> Iterator[Check]:
    raw = found.source.read(found.paths)
    official = found.source.complete and raw.complete
    for name, array in raw.arrays.items():
        expected = dataset.hashes.get(name)
        if expected is None:
            yield Check(f"hash of {name}", "none is known", None)
            continue
        actual = array_hash(array)
        same = actual == expected
        yield Check(f"hash of {name}", actual[:16], same if official or same else None)


def _sizes(dataset: Dataset, data: Prepared) -> Iterator[Check]:
    train, test = len(data.train_inputs), len(data.test_inputs)
    if dataset.paper is None:
        yield Check("split", f"{train:,} / {test:,} (not in the paper)", None)
        return
    paper = dataset.paper
    same = (train, test) == (paper.train, paper.test)
    shown = f"{train:,} / {test:,}" + ("" if same else f", the paper has {paper.train:,} / {paper.test:,}")
    comparable = data.complete and test > 0  # Food-101N's test images come with another dataset
    yield Check("split", shown, True if same else False if comparable else None)
    yield Check("classes", str(data.num_classes), data.num_classes == paper.classes)
    if data.kind == "table":
        columns = str(data.train_inputs.shape[1])
        same = columns == paper.transformed
        note = "" if same else f", the paper has {paper.transformed}"
        yield Check("features", f"{columns}{note}", True if same else None)


def _labels(dataset: Dataset, data: Prepared) -> Iterator[Check]:
    labels = [labels[labels >= 0] for labels in (data.train_labels, data.test_labels)]
    counts = np.bincount(np.concatenate(labels), minlength=data.num_classes)
    if dataset.class_counts:
        same = tuple(counts.tolist()) == dataset.class_counts
        yield Check("class counts", _shown(counts), True if same else False if data.complete else None)
    else:
        yield Check("class counts", _shown(counts), None)
    for setting in dataset.settings:
        yield Check(f"noise of {setting.name}", _noise(label(setting, data)), None)


def _shown(counts: NDArray[Any]) -> str:
    if len(counts) <= 12:
        return " ".join(map(str, counts.tolist()))
    return f"{counts.min()} to {counts.max()} in {len(counts)} classes"


def _noise(labelled: Labelled) -> str:
    noise, asked = labelled.noise, labelled.setting.noise.asked
    samples = f" of {noise['known']:,} known" if "known" in noise else f" of {len(labelled.given):,}"
    return f"{noise['count']:,}{samples} wrong, {noise['rate']:.2%}" + (f", {asked}" if asked else "")
