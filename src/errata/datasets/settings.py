"""Settings: a dataset, its noise and its training recipe."""

from dataclasses import dataclass
from typing import Literal

from errata.training.recipes import Recipe

Network = Literal["mlp", "cnn9", "resnet18", "resnet34"]


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


@dataclass(frozen=True)
class Recorded:
    """Noise that is there: the labels that people or machines gave, by the name the dataset has for them."""

    column: str = ""

    @property
    def name(self) -> str:
        """As in a setting's name."""
        return self.column


@dataclass(frozen=True)
class Setting:
    """A row of the benchmark.

    recipe: epochs and rates from the paper's appendix where it has them; an MLP's widths are never printed there.
    horizon: how many epochs are trained for post-hoc tuning (0: no tuning). accuracy: the paper's, in percent.
    """

    dataset: str
    noise: Drawn | Recorded
    network: Network
    recipe: Recipe
    horizon: int = 0
    accuracy: float | None = None
    in_paper: bool = True

    @property
    def name(self) -> str:
        """Such as letter-symmetric-20, cifar10n-worse or clothing1m."""
        return f"{self.dataset}-{self.noise.name}" if self.noise.name else self.dataset
