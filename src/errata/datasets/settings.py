"""Settings: a dataset, its noise and its training recipe."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from errata.core.noise import NOISE_MODELS, inject, label_hash
from errata.training.recipes import AnyRecipe

if TYPE_CHECKING:
    from errata.datasets.spec import Prepared

Network = Literal["mlp", "cnn9", "resnet18", "resnet34", "boosting", "transformer"]
NAMED: tuple[Network, ...] = ("boosting", "transformer")  # beside the network that a dataset usually has


@dataclass(frozen=True, eq=False)
class Noisy:
    """Training samples with their noise.

    data: what models are trained and tested on, all of the dataset or a part. given (N,): the labels. truth (N,):
    whether each is wrong, as bool; where some are not known, as float with NaN for those. about: how the labels came
    about, with the realised count.
    """

    data: "Prepared"
    given: NDArray[np.int64]
    truth: NDArray[Any]
    about: dict[str, Any]


class Noise(Protocol):
    """Where the wrong labels of a setting come from."""

    @property
    def name(self) -> str:
        """As in a setting's name."""
        ...

    @property
    def asked(self) -> str:
        """How much noise was asked for, in words; "" where it was there."""
        ...

    def label(self, data: "Prepared") -> Noisy:
        """Give the training samples their labels, the same every time."""
        ...


@dataclass(frozen=True)
class Drawn:
    """Noise that is put in: a model of `errata.core.noise` and its rate, always with the same draw."""

    model: str
    rate: float
    seed: int = 0

    @property
    def name(self) -> str:
        """As in a setting's name."""
        return f"{self.model}-{round(100 * self.rate)}"

    @property
    def asked(self) -> str:
        """How much noise was asked for."""
        return f"drawn at {self.rate:.0%}"

    def label(self, data: "Prepared") -> Noisy:
        """Draw every label from its class's row of the model's transition matrix."""
        drawn = inject(data.train_labels, NOISE_MODELS[self.model](data.num_classes, self.rate), seed=self.seed)
        about = {"kind": self.model, "nominal_rate": self.rate} | drawn.metadata()
        return Noisy(data, drawn.labels, drawn.truth, about)


@dataclass(frozen=True)
class Recorded:
    """Noise that is there: the labels that people or machines gave, by the name the dataset has for them."""

    column: str = ""

    @property
    def name(self) -> str:
        """As in a setting's name."""
        return self.column

    @property
    def asked(self) -> str:
        """Nothing: it was there."""
        return ""

    def label(self, data: "Prepared") -> Noisy:
        """Take the labels as they were recorded; truth is unknown where nobody checked."""
        column = self.column or "real"
        given, wrong = np.array(data.given[column]), np.array(data.wrong[column])  # copies: what is kept is read-only
        known = wrong >= 0
        truth = (wrong == 1) if known.all() else np.where(known, wrong.astype(np.float64), np.nan)
        count = int((wrong == 1).sum())
        about = {"kind": "recorded", "column": column, "known": int(known.sum()), "count": count}
        rate = count / max(1, int(known.sum()))
        return Noisy(data, given, truth, about | {"rate": rate, "hash": label_hash(given)})


@dataclass(frozen=True)
class Setting:
    """A row of the benchmark.

    recipe: epochs and rates from the paper's appendix where it has them; an MLP's widths are never printed there.
    horizon: how many epochs are trained for post-hoc tuning (0: no tuning). accuracy: the paper's, in percent.
    """

    dataset: str
    noise: Noise
    network: Network
    recipe: AnyRecipe
    horizon: int = 0
    accuracy: float | None = None
    in_paper: bool = True

    @property
    def name(self) -> str:
        """Such as letter-symmetric-20, cifar10n-worse or clothing1m; with -boosting for trees."""
        model = self.network if self.network in NAMED else ""
        return "-".join(part for part in (self.dataset, self.noise.name, model) if part)
