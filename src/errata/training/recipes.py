"""Recipes: how a model is trained."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from errata.dynamics.files import replace_atomically
from errata.errors import InputError, StoreError


@dataclass(frozen=True)
class _Kept:
    """What can be written to a file and read from it."""

    def save(self, path: str | Path) -> None:
        """Write as JSON."""
        text = json.dumps(asdict(self), indent=1) + "\n"
        replace_atomically(Path(path), lambda file: file.write(text.encode()))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        try:
            return cls.of(json.loads(Path(path).read_text(encoding="utf-8")))
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}") from error
        except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{path} is not a recipe: {error}") from error

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """The recipe with these values, as JSON has them."""
        return cls(**values)


@dataclass(frozen=True)
class Recipe(_Kept):
    """Optimiser, rates, batches, epochs and seed of one run.

    Weight decay is L2 added to the gradient (for Adam too: not AdamW). `schedule` holds pairs (epoch, factor): from
    that epoch on the rate is factor times the *initial* rate. `widths` are the hidden layers of an MLP, if any.
    An epoch is one of `parts` parts of a pass over the data (a mini-epoch, where there are more than one).
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
        if self.epochs < 1 or self.batch_size < 1:
            raise InputError(
                f"a recipe needs at least one epoch and one sample a batch, not {self.epochs} and {self.batch_size}"
            )
        if self.parts < 1:
            raise InputError(f"a pass has at least one part, not {self.parts}")
        if self.optimizer not in ("adam", "sgd"):
            raise InputError(f"optimizer must be 'adam' or 'sgd', not {self.optimizer!r}")
        if not self.learning_rate > 0 or not self.weight_decay >= 0 or not 0 <= self.momentum < 1:
            raise InputError("a recipe needs learning_rate > 0, weight_decay >= 0 and 0 <= momentum < 1")
        starts = [start for start, _ in self.schedule]
        if starts[:1] != [0] or sorted(set(starts)) != starts:
            raise InputError(f"schedule must start at epoch 0 and go up, not {starts}")

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0."""
        factor = [factor for start, factor in self.schedule if start <= epoch][-1]
        return self.learning_rate * factor

    def with_seed(self, seed: int) -> "Recipe":
        """The same recipe for another run."""
        return replace(self, seed=seed)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """The recipe with these values, as JSON has them."""
        schedule = tuple((int(start), float(factor)) for start, factor in values["schedule"])
        return cls(**values | {"schedule": schedule, "widths": tuple(values["widths"])})


@dataclass(frozen=True)
class BoostingRecipe(_Kept):
    """Gradient boosting: an epoch is a round, in which every class (of two, one) gets a tree of so many leaves.

    l2: what is added to the second derivatives summed in a leaf, which makes small leaves timid. row_share and
    column_share: how much of the table a round and a tree see; the seed draws which part.
    """

    epochs: int
    learning_rate: float = 0.05
    leaves: int = 31
    l2: float = 5.0
    row_share: float = 0.7
    column_share: float = 0.7
    seed: int = 0
    parts: ClassVar[int] = 1  # every round is of the whole table
    widths: ClassVar[tuple[int, ...]] = ()  # and trees have no layers

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.leaves < 2:
            raise InputError(
                f"boosting needs at least one round and two leaves a tree, not {self.epochs} and {self.leaves}"
            )
        if not self.learning_rate > 0 or not self.l2 >= 0:
            raise InputError("boosting needs learning_rate > 0 and l2 >= 0")
        if not 0 < self.row_share <= 1 or not 0 < self.column_share <= 1:
            raise InputError("boosting needs row_share and column_share above 0 and at most 1")

    def with_seed(self, seed: int) -> "BoostingRecipe":
        """The same recipe for another run."""
        return replace(self, seed=seed)


AnyRecipe = Recipe | BoostingRecipe
