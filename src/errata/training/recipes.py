"""Recipes: how a model is trained."""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from errata.core.checks import check_whole
from errata.dynamics.files import load_json, replace_atomically
from errata.errors import InputError, StoreError
from errata.wording import one_line

START_RATE, LOWEST_RATE = 0.04, 1e-3  # of `rise_and_fall`, as parts of the highest rate
FINE_TUNING_RATE, FINE_TUNING_DECAY = 3e-4, 0.01
FINE_TUNING_RISE = 0.2  # the share of the epochs in which the learning rate rises
FEWEST_EPOCHS, MOST_EPOCHS, USUAL_SAMPLES = 8, 20, 50_000  # of fine-tuning
FINE_TUNING_BATCHES = ((1_000, 32), (20_000, 64)), 128  # see `batch_size`

SMALLEST = {"seed": 0, "leaves": 2}  # of the whole numbers in a recipe; others are 1 or above


@dataclass(frozen=True)
class _StoredRecipe:
    """A recipe that can be written to a JSON file."""

    def save(self, path: str | Path) -> None:
        """Write as JSON."""
        text = json.dumps(asdict(self), indent=1) + "\n"
        replace_atomically(Path(path), lambda file: file.write(text.encode()))

    def __post_init__(self) -> None:
        """Refuse values of another type, and numbers that are too small or not finite."""
        for one in fields(self):
            value = getattr(self, one.name)
            if one.type is int:
                check_whole(f"{one.name} of a recipe", value, SMALLEST.get(one.name, 1))
            elif one.type is float:
                _check_number(one.name, value)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote."""
        try:
            return cls.of(load_json(Path(path)))
        except KeyError as error:
            raise StoreError(f"{path} is not a recipe: it has no {error}") from error
        except (TypeError, ValueError) as error:
            raise StoreError(f"{path} is not a recipe: {one_line(error)}") from error

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """The recipe with the values of a JSON object."""
        return cls(**values)

    def with_seed(self, seed: int) -> Self:
        """The same recipe with another seed."""
        return replace(self, seed=seed)  # type: ignore[call-arg]  # both kinds of recipe have a seed


@dataclass(frozen=True)
class Recipe(_StoredRecipe):
    """How to train a network: optimiser, learning rate, batch size, epochs and seed.

    weight_decay: L2 added to the gradient, also for Adam; for AdamW, the weights shrink by it instead.
    schedule: pairs (epoch, factor); from that epoch on, the learning rate is factor times the *initial* rate.
    widths: the hidden layers of an MLP.
    parts: an epoch is one of this many parts of a pass over the data (a mini-epoch).
    """

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    momentum: float = 0.0
    schedule: tuple[tuple[int, float], ...] = ((0, 1.0),)
    seed: int = 0
    widths: tuple[int, ...] = ()
    parts: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for width in self.widths:
            check_whole("widths of a recipe", width, 1)
        for start, factor in self.schedule:
            check_whole("an epoch in schedule", start, 0)
            _check_number("a factor in schedule", factor)
        if self.optimizer not in ("adam", "adamw", "sgd"):
            raise InputError(f"optimizer must be 'adam', 'adamw' or 'sgd', not {self.optimizer!r}")
        if not self.learning_rate > 0 or not self.weight_decay >= 0 or not 0 <= self.momentum < 1:
            raise InputError("a recipe needs learning_rate > 0, weight_decay >= 0 and 0 <= momentum < 1")
        starts = [start for start, _ in self.schedule]
        if starts[:1] != [0] or sorted(set(starts)) != starts:
            raise InputError(f"the epochs of schedule must start at 0 and increase, not {starts}")

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0."""
        factor = [factor for start, factor in self.schedule if start <= epoch][-1]
        return self.learning_rate * factor

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """The recipe with the values of a JSON object."""
        schedule = tuple((start, factor) for start, factor in values["schedule"])
        return cls(**values | {"schedule": schedule, "widths": tuple(values["widths"])})


@dataclass(frozen=True)
class BoostingRecipe(_StoredRecipe):
    """How to train gradient boosting. An epoch is a round, in which one tree is grown per class (two classes: one).

    l2: added to the sum of second derivatives in a leaf, which shrinks small leaves. row_share: rows per round.
    column_share: columns per tree. The seed draws which rows and columns.
    """

    epochs: int
    learning_rate: float = 0.05
    leaves: int = 31
    l2: float = 5.0
    row_share: float = 0.7
    column_share: float = 0.7
    seed: int = 0
    parts: ClassVar[int] = 1
    widths: ClassVar[tuple[int, ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.learning_rate > 0 or not self.l2 >= 0:
            raise InputError("boosting needs learning_rate > 0 and l2 >= 0")
        if not 0 < self.row_share <= 1 or not 0 < self.column_share <= 1:
            raise InputError("boosting needs row_share and column_share above 0 and at most 1")


def fine_tuning_recipe(samples: int, seed: int = 0) -> Recipe:
    """How to fine-tune a pretrained backbone on that many samples: fewer epochs for more of them."""
    epochs = round(FEWEST_EPOCHS * (USUAL_SAMPLES / samples) ** 0.2)
    epochs = min(MOST_EPOCHS, max(FEWEST_EPOCHS, epochs))
    size = batch_size(samples, *FINE_TUNING_BATCHES)
    schedule = rise_and_fall(epochs, FINE_TUNING_RISE)
    return Recipe(epochs, size, FINE_TUNING_RATE, FINE_TUNING_DECAY, "adamw", schedule=schedule, seed=seed)


def rise_and_fall(epochs: int, rise: float) -> tuple[tuple[int, float], ...]:
    """The schedule of a learning rate that rises linearly, and falls to nearly zero by half a cosine.

    rise: the share of the epochs in which it rises, at least one epoch. An epoch has the rate of its middle.
    """
    risen = max(1.0, rise * epochs)

    def factor(middle: float) -> float:
        if middle < risen:
            return START_RATE + (1 - START_RATE) * middle / risen
        return max(LOWEST_RATE, (1 + math.cos(math.pi * (middle - risen) / max(epochs - risen, 1))) / 2)

    return tuple((epoch, factor(epoch + 0.5)) for epoch in range(epochs))


def batch_size(samples: int, batches: Sequence[tuple[int, int]], largest: int) -> int:
    """Samples per batch: of pairs (most samples, size), the size of the first that fits, or the largest size."""
    return without_single_rest(samples, next((size for most, size in batches if samples <= most), largest))


def without_single_rest(samples: int, size: int) -> int:
    """The batch size from `size` on that leaves no last batch of one sample, which batch norm cannot take."""
    return next((larger for larger in range(size, 2 * size) if samples % larger != 1), size)


def _check_number(name: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= sys.float_info.max:
        raise InputError(f"{name} of a recipe must be a number, not {value!r}")


AnyRecipe = Recipe | BoostingRecipe
