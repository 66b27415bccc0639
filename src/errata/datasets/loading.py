"""Loading of datasets and benchmark settings: locate, parse, verify and prepare the files, or read the cache."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.datasets.cache import CachedArrays, cached_arrays
from errata.datasets.locations import LocatedFiles, data_dir, locate
from errata.datasets.registry import dataset
from errata.datasets.registry import setting as find_setting
from errata.datasets.spec import Dataset, NoisySamples, ParsedArrays, PreparedData, Setting
from errata.errors import DataError, ErrataError, InputError
from errata.readers.hashing import array_hash, content_hash

Mask = NDArray[np.bool_]
TUNING_FRACTIONS = (0.01, 0.05, 0.10)
TUNING_SEED = 0


@dataclass(frozen=True, eq=False)
class LabelledSetting(NoisySamples):
    """A setting with its training samples and noisy labels."""

    setting: Setting

    @cached_property
    def scored(self) -> NDArray[np.int64]:
        """The rows on which detection is scored: those whose truth is known."""
        return np.flatnonzero(~np.isnan(self.truth.astype(np.float64)))

    def tuning(self, fraction: float) -> Mask:
        """Mask (N,) of a tuning set with this fraction of the scored rows. Smaller sets are subsets of larger ones."""
        if not 0 <= fraction <= max(TUNING_FRACTIONS):
            raise InputError(f"The tuning fraction must be between 0 and {max(TUNING_FRACTIONS)}, not {fraction}")
        mask = np.zeros(len(self.given), dtype=np.bool_)
        order = np.random.default_rng(TUNING_SEED).permutation(self.scored)
        mask[order[: round(fraction * len(self.scored))]] = True
        return mask

    @property
    def evaluation(self) -> Mask:
        """Mask (N,) of the scored rows that are in no tuning set."""
        mask = np.zeros(len(self.given), dtype=np.bool_)
        mask[self.scored] = True
        return mask & ~self.tuning(max(TUNING_FRACTIONS))


def load(name: str, folder: str | Path | None = None) -> PreparedData:
    """The prepared dataset of that name, from `folder`, else $ERRATA_DATA, else the user's cache folder."""
    return _load(dataset(name), data_dir(folder))


def load_setting(name: str, folder: str | Path | None = None) -> LabelledSetting:
    """The setting of that name with its data and noisy labels; the labels are the same in every call."""
    setting = find_setting(name)
    return label(setting, load(setting.dataset, folder))


def label(setting: Setting, data: PreparedData) -> LabelledSetting:
    """The training samples with the noisy labels of the setting."""
    return LabelledSetting(**vars(setting.noise.label(data)), setting=setting)


def presence(dataset: Dataset, folder: Path) -> tuple[str, PreparedData | None]:
    """Whether a dataset can be loaded ("yes", "in part" or "no"), and its data."""
    try:
        data = _load(dataset, folder)
    except ErrataError:
        return "no", None
    return "yes" if data.complete else "in part", data


def read_verified(dataset: Dataset, files: LocatedFiles) -> ParsedArrays:
    """Parse the files. Raise an error if they should be complete and differ from the official data."""
    parsed, is_copy = files.read(), bool(files.source.content)
    for what, actual, expected in hashes(dataset, files, parsed):
        if expected and actual != expected and (is_copy or parsed.complete):
            where = files.paths[0] if len(files.paths) == 1 else f"the data in {files.folder}"
            kind = "known copy of" if is_copy else "official"
            difference = f"the hash of {what} is {actual[:12]}..., not {expected[:12]}..."
            raise DataError(f"{where} is not the {kind} {dataset.name}: {difference}")
    return parsed


def hashes(dataset: Dataset, files: LocatedFiles, parsed: ParsedArrays) -> Iterator[tuple[str, str, str | None]]:
    """What is hashed, its hash, and the official one if it is known: the whole content of a copy, or each array."""
    if files.source.content:
        yield "the content", content_hash(parsed.arrays), files.source.content
        return
    for name, array in parsed.arrays.items():
        yield name, array_hash(array), dataset.hashes.get(name)


def _load(dataset: Dataset, folder: Path) -> PreparedData:
    base = load(dataset.inputs_from, folder) if dataset.inputs_from else None
    files = locate(dataset, folder)
    code = Path(inspect.getfile(dataset.prepare)).stat()  # of another package, if the dataset is defined there
    stamp: list[Any] = [files.stamp(), base.content_hash if base else "", code.st_size, code.st_mtime_ns]

    def prepare() -> CachedArrays:
        parsed = read_verified(dataset, files)
        prepared = dataset.prepare(parsed, base) if base else dataset.prepare(parsed)
        about = {"complete": parsed.complete, "remarks": [*parsed.remarks, *prepared.remarks]}
        return CachedArrays(prepared.arrays, content_hash(parsed.arrays), about)

    arrays, content, about = cached_arrays(dataset.name, stamp, prepare)
    shared = ("train_inputs", "train_labels", "test_inputs", "test_labels")
    parts: dict[str, Any] = {"given": {}, "wrong": {}} | {name: getattr(base, name) for name in shared if base}
    for name, array in arrays.items():
        kind, colon, column = name.partition(":")
        if colon:
            parts[kind][column] = array
        else:
            parts[name] = array
    return PreparedData(
        name=dataset.name,
        kind=dataset.kind,
        classes=dataset.classes,
        pixels=dataset.pixels,
        root=base.root if base else files.folder,
        complete=about["complete"] and (base is None or base.complete),
        remarks=(*about["remarks"], *(base.remarks if base else ())),
        content_hash=content,
        **parts,
    )
