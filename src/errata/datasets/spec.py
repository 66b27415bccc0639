"""The parts of a dataset definition, and the arrays that loading produces."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from errata.training.recipes import AnyRecipe

Kind = Literal["table", "images", "image files"]
Arrays = dict[str, NDArray[Any]]
Network = Literal["mlp", "cnn9", "resnet18", "resnet34", "boosting", "transformer", "lite0"]
NETWORKS_IN_NAMES: tuple[Network, ...] = ("boosting", "transformer", "lite0")  # not the usual network of a dataset
PRETRAINED = "pretrained"  # the suite of settings with a fine-tuned backbone
ARCHIVE_SUFFIXES = (".zip", ".tar.gz")
UNKNOWN = -1  # the label of a sample whose true class is unknown or not one of the classes


def class_names(dataset: str) -> tuple[str, ...]:
    """The words in DATASET.txt in the folder `sets`: the classes of a dataset with many of them."""
    return tuple((files("errata.datasets.sets") / f"{dataset}.txt").read_text(encoding="utf-8").split())


@dataclass(frozen=True, eq=False)
class ParsedArrays:
    """The arrays parsed from a dataset's files, by name, before preparation.

    complete: False if the content is only part of the official data, or replaces it.
    """

    arrays: Arrays
    remarks: tuple[str, ...] = ()
    complete: bool = True


@dataclass(frozen=True)
class PreparedArrays:
    """The arrays that a dataset's `prepare` returns, by the names of the fields of `PreparedData`.

    Recorded noise adds `given:NAME` and `wrong:NAME`.
    """

    arrays: Arrays
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class PreparedData:
    """A dataset ready for training.

    train_inputs, test_inputs: a table (N, D) of float32, images (N, 3, H, W) of uint8, or paths (N,) below `root` as
    UTF-8 bytes. train_labels, test_labels (N,): the true classes, `UNKNOWN` where not known. given: recorded noisy
    labels (N,) by name. wrong: for each of them 1 if the label is wrong, 0 if it is right, -1 if not known.
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
    pixels: "Pixels | None" = None
    root: Path | None = None
    complete: bool = True
    remarks: tuple[str, ...] = ()
    content_hash: str = ""

    @property
    def num_classes(self) -> int:
        """K."""
        return len(self.classes)


@dataclass(frozen=True, eq=False)
class NoisySamples:
    """Training samples with noisy labels.

    data: the dataset, or the subset that the noise leaves; row numbers refer to it. given (N,): the labels that models
    are trained on. truth (N,): whether each is wrong, as bool; as float with NaN if it is not known for all. noise:
    kind, rate, count and hash of the noise.
    """

    data: PreparedData
    given: NDArray[np.int64]
    truth: NDArray[Any]
    noise: dict[str, Any]


class Noise(ABC):
    """The label noise of a setting."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The part of the setting's name that names the noise."""

    @abstractmethod
    def label(self, data: PreparedData) -> NoisySamples:
        """Assign noisy labels to the training samples; the same labels in every call."""


@dataclass(frozen=True)
class Setting:
    """A benchmark setting: a dataset, its label noise, a network and a training recipe.

    recipe: from the paper's appendix if it has one; the widths of an MLP are not printed there. horizon: epochs to
    train for post-hoc tuning, 0 without tuning. accuracy: the test accuracy in the paper in percent; None for settings
    that are not in the paper. suite: the suite of the setting, if it is used only where it or the suite is named.
    """

    dataset: str
    noise: Noise
    network: Network
    recipe: AnyRecipe
    horizon: int = 0
    accuracy: float | None = None
    suite: str = ""

    @property
    def in_paper(self) -> bool:
        """Whether the paper evaluates the setting."""
        return self.accuracy is not None

    @property
    def name(self) -> str:
        """For example letter-symmetric-20, cifar10n-worse, clothing1m or letter-symmetric-20-boosting."""
        is_usual = self.network not in NETWORKS_IN_NAMES or self.suite not in ("", PRETRAINED)
        network = "" if is_usual else self.network
        return "-".join(part for part in (self.dataset, self.noise.name, network) if part)


@dataclass(frozen=True)
class Source:
    """One form in which the data can be stored.

    files: names below the dataset's folder. read: parses the files; takes one path per file. complete: False if the
    files hold only part of the official data; `remark` then describes the part. content: SHA-256 of all arrays parsed
    from this form (`errata.readers.hashing.content_hash`), if only this form is known.
    """

    files: tuple[str, ...]
    read: Callable[..., ParsedArrays]
    complete: bool = True
    remark: str = ""
    content: str = ""


@dataclass(frozen=True)
class OpenmlTable:
    """A table of OpenML, from which `errata data fetch` makes a Parquet file with the classes in the column `label`.

    data_id: its number there. classes: our names of classes that have another name there. left_out: classes there whose
    rows are left out.
    """

    data_id: int
    classes: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class PaperRow:
    """The dataset's row in the paper's table of statistics, corrected where it contradicts the source."""

    rows: int
    features: str
    transformed: str
    classes: int
    train: int
    test: int


@dataclass(frozen=True)
class Pixels:
    """Normalisation (mean and standard deviation per channel) and augmentation of images."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    transforms: Literal["pad-crop-flip", "crop-flip-224", "resized-crop-128"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A dataset: each file in `errata.datasets.sets` defines one as `DATASET`, or several as `DATASETS`.

    sources: the preferred form first. prepare: takes the parsed arrays and, if `inputs_from` is set, the `PreparedData`
    of that dataset. downloads: URLs of files, or of archives whose files go into the dataset's folder. by_hand: how to
    obtain the files if there are no downloads. openml: the table of OpenML that replaces the downloads, written to the
    file of the first source. inner_archive: an archive in the one to download.
    hashes: SHA-256 of the complete parsed arrays by name. inputs_from: the dataset whose inputs and test labels this
    one reuses with other training labels. class_counts: samples per class after preparation, training and test
    together; empty if not known.
    """

    name: str
    title: str
    source: str
    licence: str
    bibtex: str
    kind: Kind
    classes: tuple[str, ...]
    sources: tuple[Source, ...]
    prepare: Callable[..., PreparedArrays]
    settings: tuple[Setting, ...]
    downloads: tuple[str, ...] = ()
    inner_archive: str = ""
    by_hand: str = ""
    openml: OpenmlTable | None = None
    hashes: dict[str, str] = field(default_factory=dict)
    paper: PaperRow | None = None
    pixels: Pixels | None = None
    inputs_from: str | None = None
    class_counts: tuple[int, ...] = ()

    @property
    def archives(self) -> list[str]:
        """The names of official archives with the files of a source."""
        names = [url.rpartition("/")[2] for url in self.downloads if url.endswith(ARCHIVE_SUFFIXES)]
        return [*names, self.inner_archive] if self.inner_archive else names
