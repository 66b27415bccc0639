"""Noise that the paper does not have: from some classes to others, by sample, on long-tailed classes, from no class.

Drawn the same every time, as all noise of the benchmark. Where only a part of the samples is used, rows are counted in
that part, and the data has a hash of its own.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from errata.core.noise import asymmetric, instance_dependent, long_tailed, open_set, symmetric
from errata.datasets.settings import Noisy
from errata.datasets.spec import UNKNOWN, Prepared
from errata.datasets.steps import standardise
from errata.errors import InputError
from errata.readers.hashing import content_hash

if TYPE_CHECKING:
    from errata.core.noise import NoisyLabels

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class BeyondPaper(ABC):
    """What these kinds of noise have in common: a name, a rate and a fixed draw."""

    kind: ClassVar[str]
    rate: float
    seed: int = 0

    @property
    def name(self) -> str:
        """As in a setting's name."""
        return f"{self.kind}-{round(100 * self.rate)}"

    @property
    def asked(self) -> str:
        """How much noise was asked for."""
        return f"drawn at {self.rate:.0%}"

    @abstractmethod
    def label(self, data: Prepared) -> Noisy:
        """Give the training samples their labels, the same every time."""

    def _about(self, drawn: "NoisyLabels", **more: Any) -> dict[str, Any]:
        return {"kind": self.kind, "nominal_rate": self.rate, **more} | drawn.metadata()


@dataclass(frozen=True, kw_only=True)
class Asymmetric(BeyondPaper):
    """Some classes are taken for another that looks like them (Patrini et al. 2017): see `core.noise.asymmetric`.

    flips: pairs of class names, true and given. The rate is that of these classes; the others keep their labels.
    """

    kind: ClassVar[str] = "asymmetric"
    flips: tuple[tuple[str, str], ...]

    @property
    def asked(self) -> str:
        """How much noise was asked for."""
        return f"drawn at {self.rate:.0%} in {len(self.flips)} classes"

    def label(self, data: Prepared) -> Noisy:
        """Draw the labels of the classes that are flipped."""
        flips = {data.classes.index(true): data.classes.index(given) for true, given in self.flips}
        drawn = asymmetric(data.train_labels, self.rate, flips, data.num_classes, seed=self.seed)
        return Noisy(data, drawn.labels, drawn.truth, self._about(drawn, flips=[list(pair) for pair in self.flips]))


@dataclass(frozen=True)
class InstanceDependent(BeyondPaper):
    """Each sample has its own flip rate and its own wrong labels, by its inputs (Xia et al. 2020).

    See `core.noise.instance_dependent`.
    """

    kind: ClassVar[str] = "instance"

    def label(self, data: Prepared) -> Noisy:
        """Draw every label by the scaled columns or pixels of its sample."""
        drawn = instance_dependent(data.train_labels, _scaled_inputs(data), self.rate, data.num_classes, seed=self.seed)
        return Noisy(data, drawn.labels, drawn.truth, self._about(drawn))


@dataclass(frozen=True, kw_only=True)
class Imbalanced(BeyondPaper):
    """Long-tailed classes (Cui et al. 2019), then symmetric noise: see `core.noise.long_tailed`.

    ratio: how many times larger the first class is than the last. The test samples stay as they are.
    """

    kind: ClassVar[str] = "imbalanced"
    ratio: float = 10.0

    def label(self, data: Prepared) -> Noisy:
        """Keep fewer and fewer samples of the classes, in their order, and draw the labels of those."""
        rows = long_tailed(data.train_labels, self.ratio, data.num_classes, seed=self.seed)
        remark = f"long-tailed classes: {len(rows):,} of {len(data.train_labels):,} training samples"
        part = _part(data, rows, np.arange(len(data.test_labels)), remark)
        drawn = symmetric(part.train_labels, self.rate, data.num_classes, seed=self.seed)
        return Noisy(part, drawn.labels, drawn.truth, self._about(drawn, ratio=self.ratio))


@dataclass(frozen=True, kw_only=True)
class OpenSet(BeyondPaper):
    """Samples of no class (Wang et al. 2018): those of the last classes, which no label names.

    See `core.noise.open_set`. held_out: how many classes these are. The rate is their share of the training samples;
    there is no other noise.
    """

    kind: ClassVar[str] = "openset"
    held_out: int

    @property
    def asked(self) -> str:
        """How much noise was asked for."""
        return f"samples of {self.held_out} classes held out, {self.rate:.0%} of all"

    def label(self, data: Prepared) -> Noisy:
        """Give samples of the classes held out labels of the others; no test sample is of the former."""
        drawn = open_set(data.train_labels, self.held_out, self.rate, data.num_classes, seed=self.seed)
        kept, held_out = data.classes[: -self.held_out], data.classes[-self.held_out :]
        test = np.flatnonzero(data.test_labels < len(kept))
        remark = f"{', '.join(held_out)} held out: {len(drawn.rows):,} of {len(data.train_labels):,} training samples"
        part = _part(data, drawn.rows, test, remark)
        part = replace(part, classes=kept, train_labels=np.where(drawn.truth, UNKNOWN, part.train_labels))
        return Noisy(part, drawn.labels, drawn.truth, self._about(drawn, held_out=list(held_out)))


def _part(data: Prepared, train: Rows, test: Rows, remark: str) -> Prepared:
    """Some rows of a dataset."""
    rows = {"whole": np.array(data.content_hash), "train": train, "test": test}
    return replace(
        data,
        train_inputs=data.train_inputs[train],
        train_labels=data.train_labels[train],
        test_inputs=data.test_inputs[test],
        test_labels=data.test_labels[test],
        given={name: labels[train] for name, labels in data.given.items()},
        wrong={name: wrong[train] for name, wrong in data.wrong.items()},
        remarks=(*data.remarks, remark),
        content_hash=content_hash(rows),
    )


def _scaled_inputs(data: Prepared) -> NDArray[Any]:
    """The training inputs with mean 0 and deviation 1, by column or by channel."""
    if data.kind == "table":
        table = np.asarray(data.train_inputs, dtype=np.float64)
        return standardise(table)(table)
    if data.kind == "image files" or data.pixels is None:
        raise InputError(f"instance-dependent noise needs pixels, and {data.name} has image files; use another kind")
    mean, std = (np.array(values, dtype=np.float32)[:, None, None] for values in (data.pixels.mean, data.pixels.std))
    scaled = data.train_inputs.astype(np.float32)
    scaled /= 255  # in place: another copy of CIFAR-10 would be 600 MB
    scaled -= mean
    scaled /= std
    return scaled
