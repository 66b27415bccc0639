"""The step kNN: blend the probabilities of a sample with those of its neighbours.

Most neighbours of a mislabelled sample are labelled correctly, and the model has learned them. So the blend moves
further away from a wrong label than the sample's own probabilities.

    log p' = a log p(own) + (1 - a) log p(neighbours)
    p(neighbours) = mean over the k nearest samples of ((1 - labels) p + labels [one-hot given label])

If labels > 0, one more neighbour with equal probability for all classes is added, so that no class becomes impossible.
Parameters that are not given are chosen by a rule that needs no true labels (`KNN.choose`; docs/research.md has the
evidence):

- Inputs are known: the labels of the 10 nearest inputs by Euclidean distance, a = 0.7.
- Only features are known: the probabilities of the 50 nearest features by cosine distance, a = 0.5.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Floats, Labels
from errata.core.jit import BLOCK_ELEMENTS, compiled, over_blocks
from errata.core.method_parts import ProbabilityStep, ProbabilityVectors
from errata.core.method_registry import register
from errata.core.neighbours import SpaceName, label_votes
from errata.core.sample_context import SampleContext
from errata.errors import InputError

LOWEST_EXACT_SUM = 1e-250  # sums below this may have lost terms to underflow, and are computed from logarithms


class KNNSettings(NamedTuple):
    """The space of the search, the number of neighbours, the weight of the sample itself, the share of labels."""

    space: SpaceName
    k: int
    a: float
    labels: float


@register
@dataclass(frozen=True)
class KNN(ProbabilityStep):
    """Blends a sample's log-probabilities with those of its k nearest neighbours (see the module)."""

    registered_name = "kNN"
    must_be_first: ClassVar[bool] = True

    k: int | None = None
    a: float | None = None
    labels: float | None = None
    space: SpaceName | None = None

    def __post_init__(self) -> None:
        if self.k is not None and (self.k != int(self.k) or self.k < 1):
            raise InputError(f"kNN needs a whole number of neighbours k, at least 1, not {self.k}")
        for name, share in (("a", self.a), ("labels", self.labels)):
            if share is not None and not 0 <= share <= 1:
                raise InputError(f"kNN needs {name} between 0 and 1, not {share}")
        if self.space is not None and self.space not in get_args(SpaceName):
            raise InputError(f"kNN searches neighbours in features or inputs, not {self.space!r}")

    def can_apply(self, context: SampleContext) -> bool:
        """Whether the space is known in which neighbours are searched."""
        return self.space in context.points if self.space is not None else bool(context.points)

    def choose(self, context: SampleContext) -> KNNSettings:
        """The settings: those that are given, the others by the rule of the module."""
        if not self.can_apply(context):
            needed = self.space or "features or inputs"
            raise InputError(f"{self.name} needs {needed} of the samples to search for neighbours; this run has none")
        inputs_known = "inputs" in context.points
        chosen = KNNSettings("inputs", 10, 0.7, 1.0) if inputs_known else KNNSettings("features", 50, 0.5, 0.0)
        given = {name: value for name in KNNSettings._fields if (value := getattr(self, name)) is not None}
        return chosen._replace(**given)

    def apply(self, vectors: ProbabilityVectors, labels: Labels, context: SampleContext) -> ProbabilityVectors:
        """The blend (N, K), whose rows are not normalised, and the log-probabilities of the neighbours alone."""
        own = vectors.log_probabilities
        chosen = self.choose(context)
        near = context.nearest(chosen.space, chosen.k)
        if near.shape[1] == 0 or chosen.a == 1:
            return ProbabilityVectors(own)
        neighbours = neighbour_log_probabilities(own, labels, near, chosen.labels)
        return ProbabilityVectors(blend(own, neighbours, chosen.a), neighbours)


def blend(own: Floats, neighbours: Floats, a: float) -> Floats:
    """The log-probabilities of a sample itself with the weight a, and of its neighbours."""
    return neighbours if a == 0 else a * own + (1 - a) * neighbours  # not 0 · -inf


def neighbour_log_probabilities(
    log_probabilities: Floats, labels: Labels, near: NDArray[np.int32], label_share: float
) -> Floats:
    """Log p(neighbours) (n, K) of n samples, from the probabilities and the labels of their neighbours (n, k) of N."""
    if label_share == 0:
        return log_neighbour_mean(log_probabilities, near)
    k, classes = near.shape[1], log_probabilities.shape[1]
    mean = label_share * label_votes(labels, near, classes) / k
    if label_share < 1:
        mean += (1 - label_share) * np.exp(log_neighbour_mean(log_probabilities, near))
    result: Floats = np.log((mean * k + 1 / classes) / (k + 1))
    return result


def log_neighbour_mean(log_probabilities: NDArray[Any], near: NDArray[np.int32]) -> Floats:
    """The logarithm (n, K) of the mean probability over the neighbours (n, k) of N; rows (N, K) are normalised."""
    logs: Floats = np.ascontiguousarray(log_probabilities, dtype=np.float64)
    probabilities, means = np.exp(logs), np.empty((len(near), logs.shape[1]))

    def work(block: slice) -> None:
        _log_means(logs, probabilities, near[block], means[block])

    over_blocks(len(near), max(1, BLOCK_ELEMENTS // logs.shape[1]), work)
    return means


@compiled
def _log_means(logs: Floats, probabilities: Floats, neighbours: NDArray[Any], means: Floats) -> None:
    """Write the logarithm of the mean probability (n, K) over the neighbours (n, k) of n samples; logs are (N, K)."""
    count, classes = neighbours.shape[1], logs.shape[1]
    for i in range(len(neighbours)):
        row = means[i]
        row[:] = 0
        for j in neighbours[i]:
            neighbour = probabilities[j]
            for c in range(classes):
                row[c] += neighbour[c]
        for c in range(classes):
            if row[c] > LOWEST_EXACT_SUM:
                row[c] = math.log(row[c] / count)
                continue
            largest = -np.inf
            for j in neighbours[i]:
                largest = max(largest, logs[j, c])
            if largest == -np.inf:
                row[c] = -np.inf
                continue
            total = 0.0
            for j in neighbours[i]:
                total += math.exp(logs[j, c] - largest)
            row[c] = largest + math.log(total / count)
