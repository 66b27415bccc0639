"""Recipes: how a model is trained."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from errata.dynamics.files import replace_atomically
from errata.errors import InputError, StoreError


@dataclass(frozen=True)
class _StoredRecipe:
    """A recipe that can be written to a JSON file."""

    def save(self, path: str | Path) -> None:
        """Write as JSON."""
        text = json.dumps(asdict(self), indent=1) + "\n"
        replace_atomically(Path(path), lambda file: file.write(text.encode()))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote."""
        try:
            return cls.of(json.loads(Path(path).read_text(encoding="utf-8")))
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}") from error
        except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{path} is not a recipe: {error}") from error

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

    weight_decay: L2 added to the gradient, also for Adam (this is not AdamW). schedule: pairs (epoch, factor); from
    that epoch on, the learning rate is factor times the *initial* rate. widths: the hidden layers of an MLP.
    parts: an epoch is one of so many parts of a pass over the data (a mini-epoch).
    """

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0
    optimizer: Literal["adam", "sgd"] = "adam"
    momentum: float = 0.0
    schedule: tuple[tuple[int, float], ...] = ((0, 1.0),)
    seed: int = 0
    widths: tuple[int, ...] = ()
    parts: int = 1

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1 or self.parts < 1:
            values = f"{self.epochs}, {self.batch_size} and {self.parts}"
            raise InputError(f"epochs, batch_size and parts of a recipe must be at least 1, not {values}")
        if self.optimizer not in ("adam", "sgd"):
            raise InputError(f"optimizer must be 'adam' or 'sgd', not {self.optimizer!r}")
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
        schedule = tuple((int(start), float(factor)) for start, factor in values["schedule"])
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
        if self.epochs < 1 or self.leaves < 2:
            values = f"{self.epochs} and {self.leaves}"
            raise InputError(f"boosting needs at least one round and two leaves per tree, not {values}")
        if not self.learning_rate > 0 or not self.l2 >= 0:
            raise InputError("boosting needs learning_rate > 0 and l2 >= 0")
        if not 0 < self.row_share <= 1 or not 0 < self.column_share <= 1:
            raise InputError("boosting needs row_share and column_share above 0 and at most 1")


AnyRecipe = Recipe | BoostingRecipe
