"""What a dataset is: where it comes from, how its files are read and prepared, and the settings it is used in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from errata.datasets.settings import Setting

Kind = Literal["table", "images", "image files"]
Arrays = dict[str, NDArray[Any]]
Read = Callable[[Sequence[Path]], "Raw"]
UNKNOWN = -1  # the label of a sample whose true class nobody knows, or that is of none of the classes


@dataclass(frozen=True, eq=False)
class Raw:
    """What the files hold, parsed and not yet prepared: arrays by name, and what is to be said about them."""

    arrays: Arrays
    remarks: tuple[str, ...] = ()
    complete: bool = True
    """False where the content, not the name of the file, shows a stand-in."""


@dataclass(frozen=True)
class Source:
    """One form in which the data may be there: paths inside the dataset's folder, and how they are read.

    A file that does not hold all of the official data is a source that is not complete, and says what it is.
    """

    files: tuple[str, ...]
    read: Read
    complete: bool = True
    remark: str = ""


@dataclass(frozen=True)
class Download:
    """A file to fetch into the dataset's folder; an archive is unpacked there."""

    url: str
    name: str
    unpack: bool = False


@dataclass(frozen=True)
class PaperRow:
    """The dataset's row in the paper's table of statistics; where that contradicts its source, what was meant."""

    rows: int
    features: str
    transformed: str
    classes: int
    train: int
    test: int


@dataclass(frozen=True)
class Pixels:
    """How images become what a network takes: mean and deviation a channel, and which transforms."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    transforms: Literal["pad-crop-flip", "crop-flip-224", "resized-crop-128"]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A dataset as models see it.

    train_inputs / test_inputs: a table (N, D) of float32, images (N, 3, H, W) of uint8, or paths (N,) as UTF-8 bytes
    below `root`. Labels are the true classes, `UNKNOWN` where nobody knows. `given` holds the labels of real noise by
    name, `wrong` whether each is wrong: 1, 0, or -1 where nobody checked.
    """

    name: str
    kind: Kind
    classes: tuple[str, ...]
    train_inputs: NDArray[Any]
    train_labels: NDArray[np.int64]
    test_inputs: NDArray[Any]
    test_labels: NDArray[np.int64]
    given: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    wrong: dict[str, NDArray[np.int8]] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    pixels: Pixels | None = None
    root: Path | None = None
    complete: bool = True
    remarks: tuple[str, ...] = ()
    content_hash: str = ""

    @property
    def num_classes(self) -> int:
        """K."""
        return len(self.classes)

    def metadata(self) -> dict[str, Any]:
        """Plain values that identify the data in a result file."""
        return {
            "dataset": self.name,
            "data_hash": self.content_hash,
            "complete": self.complete,
            "remarks": list(self.remarks),
            "train": len(self.train_labels),
            "test": len(self.test_labels),
        }


@dataclass(frozen=True)
class Content:
    """What `prepare` makes of raw arrays: the fields of `Prepared` that are arrays, and the names of the features."""

    arrays: Arrays
    """train_inputs, train_labels, test_inputs, test_labels; given:NAME and wrong:NAME for real noise."""
    features: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Dataset:
    """A dataset: one file in `errata.datasets.sets` defines one, as `DATASET`.

    sources: in order of preference. hashes: SHA-256 of the parsed arrays of the complete data, by name. by_hand: what
    to do where nothing can be downloaded. inputs_from: the dataset whose inputs (and test labels) this one labels anew.
    """

    name: str
    title: str
    source: str
    licence: str
    bibtex: str
    kind: Kind
    classes: tuple[str, ...]
    sources: tuple[Source, ...]
    prepare: Callable[[Raw, "Prepared | None"], Content]
    settings: tuple[Setting, ...]
    downloads: tuple[Download, ...] = ()
    by_hand: str = ""
    hashes: dict[str, str] = field(default_factory=dict)
    paper: PaperRow | None = None
    pixels: Pixels | None = None
    inputs_from: str | None = None
    class_counts: tuple[int, ...] = ()
    """How many samples a class has when the complete data is prepared, train and test together; () if not known."""
