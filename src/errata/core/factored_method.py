"""The base class of methods on a run in parts (errata.core.factoring)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from errata.core.checks import Labels
from errata.core.composed_method import ComposedMethod
from errata.core.method_parts import Detector, MethodResult, SampleArrays

State = dict[Any, Any]
"""Arrays that are added, and tuples that are concatenated."""
NEIGHBOURS, OWN_WEIGHT = "neighbours", "own weight"
"""Keys: of the sample array with the neighbours' log-probabilities (n, K), and of the weight of the run in kNN."""
HELD_OUT = "held_out"
"""The sample array of stored held-out predictions: log-probabilities (n, K) by models that have not seen the labels."""
BUDGET, SAMPLES = "budget", "samples"
"""Keys of the state before the first round: how many samples will be inspected (or None), and how many there are."""


@dataclass(frozen=True)
class Part:
    """What one method needs of some samples: its sample arrays, labels (n,), and the number of the first in the run."""

    arrays: SampleArrays
    labels: Labels
    first: int


def merge(states: tuple[State, State]) -> State:
    """The sum of two states."""
    one, other = states
    return {
        key: one[key] + other[key] if key in one and key in other else one.get(key, other.get(key))
        for key in one | other
    }


@dataclass(frozen=True)
class FactoredMethod(ABC):
    """A method as rounds of map and reduce. held_out: whether it uses the stored held-out predictions of the run."""

    method: ComposedMethod | Detector
    held_out: bool = False
    rounds = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to other processes by its name: measures are functions, which cannot be sent."""
        from errata.core.factoring import factored_by_name  # which imports this module

        return factored_by_name, (self.method.name, self.held_out)

    def needs_round(self, number: int, known: State) -> bool:
        """Whether there is a round of this number; how many there are may depend on what earlier rounds made known."""
        return number < self.rounds

    def map(self, number: int, part: Part, known: State) -> State:
        """The state of one part in a round; `known` is what earlier rounds made known."""
        raise AssertionError("this method has no rounds")

    def reduce(self, number: int, state: State, known: State) -> State:
        """What is known after a round, from the sum of the states of all parts."""
        raise AssertionError("this method has no rounds")

    @abstractmethod
    def result(self, part: Part, known: State) -> MethodResult:
        """Scores and flags of one part."""
