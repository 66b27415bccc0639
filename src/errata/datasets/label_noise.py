"""The label noise of the benchmark's settings.

Injected noise depends on the setting only: every call with the same data gives the same labels. Noise that leaves out
samples returns a subset of the data, with its own row numbers and its own content hash.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from errata.core import noise as core_noise
from errata.datasets.spec import UNKNOWN, Noise, NoisySamples, PreparedData
from errata.errors import InputError
from errata.readers.hashing import content_hash

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class RecordedNoise(Noise):
    """Real noise: labels that people or programs assigned. column: their name in `PreparedData.given`."""

    column: str = ""

    @property
    def name(self) -> str:
        """The part of the setting's name that names the noise."""
        return self.column

    def label(self, data: PreparedData) -> NoisySamples:
        """Return the recorded labels. `truth` is NaN where nobody checked the label."""
        column = self.column or "real"
        given, wrong = np.array(data.given[column]), np.array(data.wrong[column])  # copies of read-only arrays
        known = wrong >= 0
        truth = (wrong == 1) if known.all() else np.where(known, wrong.astype(np.float64), np.nan)
        count = int((wrong == 1).sum())
        about = {"kind": "recorded", "column": column, "known": int(known.sum()), "count": count}
        rate = count / max(1, int(known.sum()))
        return NoisySamples(data, given, truth, about | {"rate": rate, "hash": core_noise.label_hash(given)})


@dataclass(frozen=True)
class InjectedNoise(Noise):
    """Noise that is drawn. kind: as in names of settings."""

    kind: ClassVar[str]
    rate: float
    seed: int = 0

    @property
    def name(self) -> str:
        """The part of the setting's name that names the noise."""
        return f"{self.kind}-{round(100 * self.rate)}"

    def _samples(self, data: PreparedData, drawn: core_noise.NoisyLabels, **more: Any) -> NoisySamples:
        about = {"kind": self.kind, "nominal_rate": self.rate, **more} | drawn.metadata()
        return NoisySamples(data, drawn.labels, drawn.truth, about)


class TransitionNoise(InjectedNoise):
    """Noise with one transition matrix for all samples. kind: a name in `errata.core.noise.NOISE_MODELS`."""

    def label(self, data: PreparedData) -> NoisySamples:
        """Draw each label from its class's row of the transition matrix."""
        matrix = core_noise.NOISE_MODELS[self.kind](data.num_classes, self.rate)
        return self._samples(data, core_noise.inject(data.train_labels, matrix, seed=self.seed))


class SymmetricNoise(TransitionNoise):
    """Labels become any other class with equal probability."""

    kind = "symmetric"


class PairflipNoise(TransitionNoise):
    """Labels become the next class."""

    kind = "pairflip"


class ExtraNoise(InjectedNoise):
    """Base class of the kinds of injected noise that the paper does not use."""


@dataclass(frozen=True, kw_only=True)
class AsymmetricNoise(ExtraNoise):
    """Labels of some classes become one similar class (Patrini et al. 2017): see `core.noise.asymmetric`.

    flips: pairs of class names, true and given. The rate applies to these classes; other classes keep their labels.
    """

    kind = "asymmetric"
    flips: tuple[tuple[str, str], ...]

    def label(self, data: PreparedData) -> NoisySamples:
        """Draw the labels of the flipped classes."""
        flips = {data.classes.index(true): data.classes.index(given) for true, given in self.flips}
        drawn = core_noise.asymmetric(data.train_labels, self.rate, flips, data.num_classes, seed=self.seed)
        return self._samples(data, drawn, flips=[list(pair) for pair in self.flips])


class InstanceNoise(ExtraNoise):
    """Flip rate and wrong label depend on the inputs (Xia et al. 2020): see `core.noise.instance_dependent`."""

    kind = "instance"

    def label(self, data: PreparedData) -> NoisySamples:
        """Draw each label from the scaled columns or pixels of its sample."""
        drawn = core_noise.instance_dependent(
            data.train_labels, _scaled_inputs(data), self.rate, data.num_classes, seed=self.seed
        )
        return self._samples(data, drawn)


@dataclass(frozen=True, kw_only=True)
class LongTailNoise(ExtraNoise):
    """Long-tailed classes (Cui et al. 2019), then symmetric noise: see `core.noise.long_tailed`.

    ratio: size of the first class divided by the size of the last. The test samples are not changed.
    """

    kind = "imbalanced"
    ratio: float = 10.0

    def label(self, data: PreparedData) -> NoisySamples:
        """Reduce the classes, later ones more, and draw the labels of the remaining samples."""
        rows = core_noise.long_tailed(data.train_labels, self.ratio, data.num_classes, seed=self.seed)
        remark = f"long-tailed classes: {len(rows):,} of {len(data.train_labels):,} training samples"
        subset = _subset(data, rows, np.arange(len(data.test_labels)), remark)
        drawn = core_noise.symmetric(subset.train_labels, self.rate, data.num_classes, seed=self.seed)
        return self._samples(subset, drawn, ratio=self.ratio)


@dataclass(frozen=True, kw_only=True)
class HeldOutClassNoise(ExtraNoise):
    """Open-set noise: samples of held-out classes with labels of the others (Wang et al. 2018).

    See `core.noise.open_set`. held_out: the number of classes, the last ones, that no label names. rate: the share of
    their samples in the training set. All other labels are right.
    """

    kind = "openset"
    held_out: int

    def label(self, data: PreparedData) -> NoisySamples:
        """Give samples of held-out classes labels of the others, and remove held-out classes from the test samples."""
        drawn = core_noise.open_set(data.train_labels, self.held_out, self.rate, data.num_classes, seed=self.seed)
        classes, held_out = data.classes[: -self.held_out], data.classes[-self.held_out :]
        test = np.flatnonzero(data.test_labels < len(classes))
        remark = f"{', '.join(held_out)} held out: {len(drawn.rows):,} of {len(data.train_labels):,} training samples"
        subset = _subset(data, drawn.rows, test, remark)
        subset = replace(subset, classes=classes, train_labels=np.where(drawn.truth, UNKNOWN, subset.train_labels))
        return self._samples(subset, drawn, held_out=list(held_out))


def extra_noises(flips: tuple[tuple[str, str], ...], held_out: int) -> tuple[ExtraNoise, ...]:
    """All kinds of extra noise, at the rates of the benchmark."""
    return (
        AsymmetricNoise(0.4, flips=flips),
        InstanceNoise(0.2),
        LongTailNoise(0.2),
        HeldOutClassNoise(0.2, held_out=held_out),
    )


def _subset(data: PreparedData, train: Rows, test: Rows, remark: str) -> PreparedData:
    """The data with some of its training and test rows."""
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


def _scaled_inputs(data: PreparedData) -> NDArray[Any]:
    """The training inputs with mean 0 and standard deviation 1, per column or per channel."""
    from sklearn.preprocessing import StandardScaler

    if data.kind == "table":
        table = np.asarray(data.train_inputs, dtype=np.float64)
        scaled_table: NDArray[Any] = StandardScaler().fit_transform(table)
        return scaled_table
    if data.kind == "image files" or data.pixels is None:
        raise InputError(
            f"Instance-dependent noise needs pixels in memory, but {data.name} has image files. Use another noise."
        )
    mean, std = (np.array(values, dtype=np.float32)[:, None, None] for values in (data.pixels.mean, data.pixels.std))
    scaled = data.train_inputs.astype(np.float32)
    scaled /= 255  # in place: another copy of CIFAR-10 would take 600 MB
    scaled -= mean
    scaled /= std
    return scaled
