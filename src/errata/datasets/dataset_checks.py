"""Checks of a dataset on disk: files, hashes, sizes and class counts against the paper's table."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from errata.datasets.loading import hashes, label, load
from errata.datasets.locations import LocatedFiles, how_to_get, locate
from errata.datasets.spec import Dataset, PreparedData
from errata.errors import DataError, ErrataError, InputError, MissingDataError


@dataclass(frozen=True)
class CheckResult:
    """The subject of a check, the value found, and whether it is right; None if there is nothing to compare it with."""

    what: str
    value: str
    passed: bool | None


def check_dataset(dataset: Dataset, folder: Path) -> Iterator[CheckResult]:
    """Run all checks of a dataset. A missing dataset gives one result, with instructions for obtaining it."""
    try:
        files = locate(dataset, folder)
    except MissingDataError:
        yield CheckResult("files", f"missing. {how_to_get(dataset, folder)}", None)
        return
    except DataError as error:
        yield CheckResult("files", str(error), False)
        return
    yield CheckResult("files", ", ".join(dict.fromkeys(files.source.files)) or "none needed", True)
    try:
        checks = list(_check_hashes(dataset, files))
        yield from checks
        if any(check.passed is False for check in checks):
            return
        data = load(dataset.name, folder)
    except (MissingDataError, InputError) as error:  # a dataset or a package that is needed is missing
        yield CheckResult("files", str(error), None)
        return
    except ErrataError as error:
        yield CheckResult("content", str(error), False)
        return
    for remark in data.remarks:
        yield CheckResult("remark", remark, None)
    yield from _check_sizes(dataset, data)
    yield from _check_labels(dataset, data)


def _check_hashes(dataset: Dataset, files: LocatedFiles) -> Iterator[CheckResult]:
    parsed, is_copy = files.read(), bool(files.source.content)
    for what, actual, expected in hashes(dataset, files, parsed):
        if expected is None:
            yield CheckResult(f"hash of {what}", "no official hash is known", None)
        else:
            same = actual == expected
            yield CheckResult(f"hash of {what}", actual[:16], same if is_copy or parsed.complete or same else None)


def _check_sizes(dataset: Dataset, data: PreparedData) -> Iterator[CheckResult]:
    train, test = len(data.train_inputs), len(data.test_inputs)
    if dataset.paper is None:
        yield CheckResult("split", f"{train:,} / {test:,} (not in the paper)", None)
        return
    paper = dataset.paper
    same = (train, test) == (paper.train, paper.test)
    shown = f"{train:,} / {test:,}" + ("" if same else f", the paper has {paper.train:,} / {paper.test:,}")
    comparable = data.complete and test > 0  # Food-101N's test images are in another dataset
    yield CheckResult("split", shown, True if same else False if comparable else None)
    yield CheckResult("classes", str(data.num_classes), data.num_classes == paper.classes)
    if data.kind == "table":
        columns = str(data.train_inputs.shape[1])
        same = columns == paper.transformed
        note = "" if same else f", the paper has {paper.transformed}"
        yield CheckResult("features", f"{columns}{note}", True if same else None)


def _check_labels(dataset: Dataset, data: PreparedData) -> Iterator[CheckResult]:
    labels = [labels[labels >= 0] for labels in (data.train_labels, data.test_labels)]
    counts = np.bincount(np.concatenate(labels), minlength=data.num_classes)
    same = tuple(counts.tolist()) == dataset.class_counts
    comparable = bool(dataset.class_counts) and data.complete
    many = f"{counts.min()} to {counts.max()} in {len(counts)} classes"
    shown = " ".join(map(str, counts.tolist())) if len(counts) <= 12 else many
    yield CheckResult("class counts", shown, True if same else False if comparable else None)
    for setting in dataset.settings:
        labelled = label(setting, data)
        noise = labelled.noise
        samples = f"{noise['known']:,} known" if "known" in noise else f"{len(labelled.given):,}"
        requested = f", requested {noise['nominal_rate']:.0%}" if "nominal_rate" in noise else ""
        wrong = f"{noise['count']:,} of {samples} wrong, {noise['rate']:.2%}{requested}"
        yield CheckResult(f"noise of {setting.name}", wrong, None)
