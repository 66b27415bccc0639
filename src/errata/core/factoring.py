"""Methods on a run in parts (shards): map and reduce, with the results of the whole run.

A method that factors needs small states of the whole run, in a few rounds. In each round, `map` computes the state of
one part, states are added up with `merge`, and `reduce` makes of the sum what the next round needs to know. At the end,
`result` scores one part.

- A method whose scores depend on their own sample only needs no round.
- Confident learning needs the mean self-confidence of each class (sums of K fractions), then the confident joint
  (K, K). PBC and PBNR need the value of the last flagged sample of each class or pair of classes too
  (errata.core.factored_selection), so their flags are exact.
- Unmixed needs the same two states for T.
- EarlyProb without held-out predictions needs counts of candidate windows first (errata.core.early).
- CTRL clusters a sample of the curves (errata.core.factored_ctrl).
- kNN needs what the neighbours of each sample predict, from a search before the first round
  (errata.dynamics.shard_neighbours).

All others (held-out models, the rules of cleanlab) need arrays of the whole run.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from errata.core import confident_learning as cl
from errata.core import early
from errata.core._confident_kernels import compensated_sum
from errata.core.aggregations import CTRL, EarlyProb
from errata.core.checks import Floats
from errata.core.composed_method import ComposedMethod
from errata.core.confident_learning import ConfidentLearning
from errata.core.confident_rules import PAPER, tie_hashes
from errata.core.factored_ctrl import FactoredCTRL
from errata.core.factored_method import NEIGHBOURS, OWN_WEIGHT, FactoredMethod, Part, State
from errata.core.factored_selection import Candidates, Selection
from errata.core.jit import BLOCK_ELEMENTS, over_blocks
from errata.core.method_parts import Aggregation, Detector, MethodResult, VectorAggregation
from errata.core.methods import parse
from errata.core.sample_context import SampleContext
from errata.core.smoothing import KNN, blend
from errata.core.unmixing import Unmix, as_transition, true_classes

TIE_WORDS = 4


class OwnSample(FactoredMethod):
    """A method whose scores depend on their own sample only."""

    def result(self, part: Part, known: State) -> MethodResult:
        """Scores of one part."""
        return self.method.result(part.arrays, part.labels, None, SampleContext())


class _Joint(FactoredMethod):
    """Class means, then the confident joint."""

    rounds = 2

    def probabilities(self, part: Part, known: State) -> Floats:
        """Probabilities (n, K)."""
        probabilities: Floats = part.arrays["probabilities"]
        return probabilities

    def map(self, number: int, part: Part, known: State) -> State:
        """Round 0: sums and sizes of classes (K,). Round 1: counts (K, K) by label and confident class."""
        P, y = cl.check_probabilities(self.probabilities(part, known), part.labels)
        members = cl.members_of_classes(y, P.shape[1])
        if number == 0:
            sums = [sum(map(Fraction, compensated_sum(P[rows, k]))) for k, rows in enumerate(members)]
            return {"sums": np.array(sums, dtype=object), "sizes": np.array([len(rows) for rows in members])}
        confident, _ = cl.find_confident_classes(P, y, known["thresholds"], PAPER.slack)
        return {"counts": cl.count_confident(confident, members)}

    def reduce(self, number: int, state: State, known: State) -> State:
        """Thresholds (K,) and class sizes (K,), then the joint."""
        if number:
            return known | state
        means = [
            float(total / int(size)) if size else np.inf
            for total, size in zip(state["sums"], state["sizes"], strict=True)
        ]
        return known | {"thresholds": np.array(means), "sizes": state["sizes"]}


class FactoredConfidentLearning(_Joint):
    """Confident learning by the rules of the paper."""

    @property
    def rounds(self) -> int:  # type: ignore[override]
        """None for CC; class means for CYY; for the others also the joint."""
        assert isinstance(self.method, ConfidentLearning)
        return {"CC": 0, "CYY": 1, "PBC": 2, "PBNR": 2}[self.method.variant]

    def needs_round(self, number: int, known: State) -> bool:
        """After the joint, until the last flagged value of each pair is known."""
        return number < self.rounds or (self.rounds == 2 and not known["last"].done)

    def map(self, number: int, part: Part, known: State) -> State:
        """From round 1 on, also what shows the last flagged value of each pair of label and class."""
        if number == 0:
            return super().map(number, part, known)
        P, y = cl.check_probabilities(self.probabilities(part, known), part.labels)
        classes = P.shape[1]
        last = known.get("last") or Selection.start(classes if self._by_class else classes**2, TIE_WORDS)
        joint = super().map(number, part, known) if number == 1 else {}
        return joint | last.state(self._candidates(P, y, part.first))

    def reduce(self, number: int, state: State, known: State) -> State:
        """Round 1: also how many are flagged of each pair. From then on: where the last of them is."""
        if number == 0:
            return super().reduce(number, state, known)
        if number > 1:
            return known | {"last": known["last"].narrowed(state)}
        joint = PAPER.calibrated(state["counts"], known["sizes"])
        budgets = np.rint(joint - np.diag(joint.diagonal()))
        if self._by_class:
            budgets = np.rint(known["sizes"] - joint.diagonal())
        ranks = np.maximum(budgets, 0).astype(np.int64).reshape(-1)
        return known | {"last": replace(Selection.start(len(ranks), TIE_WORDS), ranks=ranks).narrowed(state)}

    def result(self, part: Part, known: State) -> MethodResult:
        """Flags and scores of one part."""
        P, y = cl.check_probabilities(self.probabilities(part, known), part.labels)
        thresholds = known.get("thresholds", np.full(P.shape[1], np.inf))
        confident, disagrees = cl.find_confident_classes(P, y, thresholds, PAPER.slack)
        flagged = disagrees if self.rounds == 0 else (confident != y) & (confident >= 0)
        if self.rounds == 2:
            flagged = np.zeros(len(P), np.bool_)
            for candidates in self._candidates(P, y, part.first):
                flagged[candidates.rows[known["last"].reached(candidates)]] = True
        return MethodResult(cl.scores(flagged, P, part.labels), flagged)

    @property
    def _by_class(self) -> bool:
        assert isinstance(self.method, ConfidentLearning)
        return self.method.variant == "PBC"

    def _candidates(self, P: NDArray[Any], y: NDArray[Any], first: int) -> Iterator[Candidates]:
        """For each label k, what decides which samples are flagged: −P_k, or the margins P_j − P_k of all classes j."""
        rows_of_part = np.arange(len(P))
        ties = cache(lambda: tie_hashes(P, rows_of_part, rows_of_part + first))
        classes = P.shape[1]
        for k, rows in enumerate(cl.members_of_classes(y, classes)):
            own = P[rows, k].astype(np.float64)
            if self._by_class:
                yield Candidates(np.full(len(rows), k), -own, -own, rows, ties)
                continue
            others = np.delete(np.arange(classes), k)
            margins = (P[rows].astype(np.float64) - own[:, None])[:, others].reshape(-1)
            groups = np.tile(k * classes + others, len(rows))
            yield Candidates(groups, margins, margins, np.repeat(rows, classes - 1), ties)


class FactoredVectors(_Joint):
    """One vector per sample (EarlyProb first chooses its window), and the step Unmixed after it, or no step."""

    @property
    def _chooses(self) -> bool:
        return isinstance(self._method.aggregation, EarlyProb)

    @property
    def _method(self) -> ComposedMethod:
        assert isinstance(self.method, ComposedMethod)
        return self.method

    @property
    def rounds(self) -> int:  # type: ignore[override]
        """One for the window of EarlyProb, and two for T of Unmixed."""
        return self._chooses + 2 * self._unmixes

    @property
    def _unmixes(self) -> bool:
        return bool(self._method.steps) and isinstance(self._method.steps[-1], Unmix)

    def map(self, number: int, part: Part, known: State) -> State:
        """The counts of windows first, if there are windows."""
        if not self._chooses:
            return super().map(number, part, known)
        if number:
            return super().map(number - 1, part, known)
        return dict(enumerate(early.window_counts(part.arrays["log_probabilities"], part.labels)))

    def reduce(self, number: int, state: State, known: State) -> State:
        """The window first, if there are windows."""
        if not self._chooses:
            return super().reduce(number, state, known)
        if number:
            return known | super().reduce(number - 1, state, known)
        return known | {"window": early.before_reversals(state[0], state[1], state[2])}

    def probabilities(self, part: Part, known: State) -> Floats:
        """Probabilities of given labels (n, K): those of the neighbours, if they are used."""
        if known.get(OWN_WEIGHT, 1.0) < 1:
            return np.asarray(softmax(part.arrays[NEIGHBOURS], axis=1))
        return np.asarray(np.exp(self._logs(part, known)))

    def _vector(self, part: Part, known: State) -> Floats:
        vectors: Floats = part.arrays["log_probabilities"]
        if not self._chooses:
            return vectors
        return np.asarray(log_softmax(vectors[:, known["window"]].astype(np.float64), axis=1))

    def _blended(self, part: Part, known: State) -> Floats:
        own, weight = self._vector(part, known), known.get(OWN_WEIGHT, 1.0)
        return blend(own, part.arrays[NEIGHBOURS], weight) if weight < 1 else own

    def _logs(self, part: Part, known: State) -> Floats:
        return np.asarray(log_softmax(self._blended(part, known), axis=1), dtype=np.float64)

    def result(self, part: Part, known: State) -> MethodResult:
        """Scores of one part."""
        logs = self._blended(part, known)
        classes = logs.shape[1]
        if self._unmixes and known["sizes"].sum() >= classes**2:
            step = self._method.steps[-1]
            assert isinstance(step, Unmix)
            T, rounds, own = as_transition(known["counts"].T.astype(np.float64)), step.rounds, self._logs(part, known)
            logs = np.empty_like(own)

            def work(block: slice) -> None:
                logs[block] = true_classes(own[block], T, rounds)

            over_blocks(len(own), max(1, BLOCK_ELEMENTS // classes), work)
        return MethodResult(self._method.score_probabilities(logs, part.labels))


def factored(method: ComposedMethod | Detector) -> FactoredMethod | None:
    """The method as rounds of map and reduce; None if it needs arrays of the whole run."""
    if isinstance(method, ConfidentLearning):
        return None if method.cleanlab else FactoredConfidentLearning(method)
    if isinstance(method, Detector):
        return None
    if isinstance(method.aggregation, CTRL):
        return FactoredCTRL(method)
    early_window = isinstance(method.aggregation, EarlyProb)
    plain = type(method.aggregation).result is Aggregation.result and not method.aggregation.uses_other_samples
    if not plain and not early_window:
        return None
    if not method.steps:
        return FactoredVectors(method) if early_window else OwnSample(method)
    steps = tuple(map(type, method.steps))
    factors = steps == (Unmix,) or (steps in ((KNN,), (KNN, Unmix)) and not early_window)
    return FactoredVectors(method) if factors and isinstance(method.aggregation, VectorAggregation) else None


def factored_by_name(name: str) -> FactoredMethod | None:
    """The factored method of that name."""
    return factored(parse(name))
