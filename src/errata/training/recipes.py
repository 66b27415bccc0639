"""Recipes: how a model is trained."""

import json
import sys
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from errata.core.checks import check_whole
from errata.dynamics.files import load_json, replace_atomically
from errata.errors import InputError, StoreError
from errata.wording import one_line

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
    parts: an epoch is one of so many parts of a pass over the data (a mini-epoch).
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


def _check_number(name: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= sys.float_info.max:
        raise InputError(f"{name} of a recipe must be a number, not {value!r}")


AnyRecipe = Recipe | BoostingRecipe
