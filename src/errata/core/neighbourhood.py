"""Neighbour smoothing, the fourth axis of the taxonomy: what is known of a sample's neighbours counts as well.

Most neighbours of a mislabelled sample are labelled right, and the model has learned them: so a blend of what is known
of a sample and of its neighbours leans further away from a wrong label than the sample alone does.
"""

from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Floats, Labels
from errata.core.neighbours import Neighbours, nearest
from errata.core.smoothing import smooth
from errata.errors import InputError

Points = Literal["features", "inputs"]
METRICS: dict[Points, Literal["cosine", "euclidean"]] = {"features": "cosine", "inputs": "euclidean"}
# Neighbours in the inputs are trusted where their vote names the given label at least so often as a part of how often
# the model does, which may have memorised labels. Those in the features are no measure: a model that has memorised
# puts samples together by these very labels.
TRUSTED = 0.7


class Space:
    """Where neighbours are sought: features (N, D) of a model, or inputs (N, D) as scaled columns; each search once."""

    def __init__(self, features: NDArray[Any] | None = None, inputs: NDArray[Any] | None = None) -> None:
        given: dict[Points, NDArray[Any] | None] = {"features": features, "inputs": inputs}
        self.points = {name: array for name, array in given.items() if array is not None}
        self._found: dict[Points, Neighbours] = {}

    def nearest(self, points: Points, k: int) -> NDArray[np.int32]:
        """The k nearest of every sample, (N, k), or all others if there are fewer."""
        array = self.points[points]
        k = min(k, len(array) - 1)
        if k == 0:
            return np.empty((1, 0), dtype=np.int32)
        found = self._found.get(points)
        if found is None or found.index.shape[1] < k:
            found = self._found[points] = nearest(array, k, METRICS[points])
        return found.index[:, :k]


class Choice(NamedTuple):
    """Where neighbours are sought, how many, the weight `a` of the sample itself, the share of neighbours' labels."""

    space: Points
    k: int
    a: float
    labels: float


@dataclass(frozen=True)
class KNN:
    """Blends a sample's log-probabilities with what its k nearest neighbours say.

    log p' = a log p(own) + (1 - a) log mean over neighbours of ((1 - labels) p + labels [given label])

    Where labels count, one more neighbour that is undecided between the classes keeps every class possible. What is
    not given is chosen by rules that see no truth (`choose`).
    """

    k: int | None = None
    a: float | None = None
    labels: float | None = None
    space: Points | None = None

    def __post_init__(self) -> None:
        if self.k is not None and (self.k != int(self.k) or self.k < 1):
            raise InputError(f"kNN needs a whole number of neighbours k, at least 1, not {self.k}")
        for name, share in (("a", self.a), ("labels", self.labels)):
            if share is not None and not 0 <= share <= 1:
                raise InputError(f"kNN needs {name} between 0 and 1, not {share}")
        if self.space is not None and self.space not in get_args(Points):
            raise InputError(f"kNN looks for neighbours among features or inputs, not {self.space!r}")

    @property
    def name(self) -> str:
        """Its name in the grammar: kNN, then the parameters that are given."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        given = [f"{name}={value}" for name, value in values.items() if value is not None]
        return "kNN" + (f"({','.join(given)})" if given else "")

    def choose(self, log_probabilities: Floats, labels: Labels, space: Space) -> Choice:
        """The parameters, those that are not given by rule (docs/research.md has the evidence).

        Images, of which there are features alone: 50 neighbours and their probabilities. Tables: the labels of the 10
        nearest in the inputs, unless these agree with the given labels too rarely: then the sample counts alone.
        """
        if not space.points or (self.space is not None and self.space not in space.points):
            wanted = self.space or "features or inputs"
            raise InputError(f"{self.name} needs {wanted} of the samples to find their neighbours; there are none here")
        table = "inputs" in space.points
        chosen = Choice("inputs", 10, 0.7, 1.0) if table else Choice("features", 50, 0.5, 0.0)
        if self.space is None and table and not _inputs_are_trusted(log_probabilities, labels, space):
            chosen = chosen._replace(a=1.0)
        given = {name: value for name in Choice._fields if (value := getattr(self, name)) is not None}
        return chosen._replace(**given)

    def smooth(self, log_probabilities: Floats, labels: Labels, space: Space) -> Floats:
        """The blend, (N, K); its rows are not normalised."""
        return self.blend(log_probabilities, labels, space).log_probabilities

    def blend(self, log_probabilities: Floats, labels: Labels, space: Space) -> "Blend":
        """The blend, and what the neighbours say by themselves."""
        chosen = self.choose(log_probabilities, labels, space)
        near = space.nearest(chosen.space, chosen.k)
        if near.shape[1] == 0 or chosen.a == 1:
            return Blend(log_probabilities, None)
        heard = _heard(log_probabilities, labels, near, chosen.labels)
        if chosen.a == 0:  # not 0 · -inf
            return Blend(heard, heard)
        return Blend(chosen.a * log_probabilities + (1 - chosen.a) * heard, heard)


class Blend(NamedTuple):
    """Log-probabilities (N, K) after neighbours had their say, and what they said; None where they have none."""

    log_probabilities: Floats
    heard: Floats | None


def _heard(log_probabilities: Floats, labels: Labels, near: NDArray[np.int32], share: float) -> Floats:
    """The logarithm (N, K) of what neighbours (N, k) say: their probabilities, and for a share of it their labels."""
    if share == 0:
        return smooth(log_probabilities, near, 0.0)
    k, classes = near.shape[1], log_probabilities.shape[1]
    mean = share * votes(labels, near, classes) / k
    if share < 1:
        mean += (1 - share) * np.exp(smooth(log_probabilities, near, 0.0))
    heard: Floats = np.log((mean * k + 1 / classes) / (k + 1))
    return heard


def votes(labels: Labels, near: NDArray[np.int32], classes: int) -> Floats:
    """How many of some samples' neighbours (n, k) bear each of the labels (N,), as (n, K)."""
    counts = np.zeros((len(near), classes))
    every = np.arange(len(near))
    for neighbour in near.T:
        counts[every, labels[neighbour]] += 1
    return counts


def _inputs_are_trusted(log_probabilities: Floats, labels: Labels, space: Space) -> bool:
    """Whether the vote of the nearest in the inputs names the given label often enough."""
    counts = votes(labels, space.nearest("inputs", 10), log_probabilities.shape[1])
    return _agreement(counts, labels) >= TRUSTED * _agreement(log_probabilities, labels)


def _agreement(values: Floats, labels: Labels) -> float:
    """The share of samples whose label has the largest value (N, K); one that ties counts in part."""
    largest = values == values.max(axis=1, keepdims=True)
    return float((largest[np.arange(len(labels)), labels] / largest.sum(axis=1)).mean())
