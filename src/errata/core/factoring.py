"""Methods on a run in parts (shards): map and reduce, with the results of the whole run.

A method factors if one part can be scored from its own samples and a small state of the whole run. The state is
computed in a few rounds. In each round, `map` computes the state of one part, `merge` adds the states of all parts, and
`reduce` turns the sum into the input of the next round. At the end, `result` scores one part.

- A method whose scores depend on their own sample only needs no round.
- Confident learning needs the mean self-confidence of each class (sums of K fractions), then the confident joint
  (K, K). PBC and PBNR need the value of the last flagged sample of each class or pair of classes too
  (errata.core.factored_selection), so their flags are exact.
- Unmixed needs the same two states for T.
- EarlyProb first needs counts of candidate windows, and sums if there are held-out predictions (errata.core.early).
- HeldOut with stored predictions blends each sample with its own. Unmixed then needs, for each predicted class, the
  confidence of its last typical sample (errata.core.factored_selection), and then the labels of the typical ones.
- CTRL clusters a sample of the curves (errata.core.factored_ctrl).
- kNN needs what the neighbours of each sample predict, from a search before the first round
  (errata.dynamics.shard_neighbours).

All others (held-out models of inputs, the rules of cleanlab) need arrays of the whole run.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from errata.core import confident_learning as cl
from errata.core import early
from errata.core._confident_kernels import exact_sum
from errata.core.aggregations import CTRL, EarlyProb
from errata.core.checks import Floats
from errata.core.composed_method import ComposedMethod
from errata.core.confident_learning import ConfidentLearning
from errata.core.confident_rules import PAPER, tie_hashes
from errata.core.factored_ctrl import FactoredCTRL
from errata.core.factored_method import HELD_OUT, NEIGHBOURS, OWN_WEIGHT, FactoredMethod, Part, State
from errata.core.factored_selection import GroupValues, RankSelection
from errata.core.held_out import HeldOut
from errata.core.method_parts import Aggregation, Detector, MethodResult, VectorAggregation
from errata.core.methods import parse
from errata.core.sample_context import SampleContext
from errata.core.smoothing import KNN, blend
from errata.core.unmixing import Unmix, as_transition, transition_of_typical, typical_size

VALUE_WORDS, TIE_WORDS = 2, 4
"""Words of the keys of a RankSelection: equal values are all wanted, or hashes decide between them."""
WINDOW_COUNTS, HELD_OUT_SUMS = ("reversals", "predicted", "late"), ("held-out sums", "held-out sizes")
"""The names of the `window_counts` and the `held_out_sums` of errata.core.early in a state."""


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
            sums = [exact_sum(P[rows, k]) for k, rows in enumerate(members)]
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
        last = known.get("last") or RankSelection.start(classes if self._by_class else classes**2, TIE_WORDS)
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
        return known | {"last": replace(RankSelection.start(len(ranks), TIE_WORDS), ranks=ranks).narrowed(state)}

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

    def _candidates(self, P: NDArray[Any], y: NDArray[Any], first: int) -> Iterator[GroupValues]:
        """For each label k, what decides which samples are flagged: −P_k, or the margins P_j − P_k of all classes j."""
        rows_of_part = np.arange(len(P))
        ties = cache(lambda: tie_hashes(P, rows_of_part, rows_of_part + first))
        classes = P.shape[1]
        for k, rows in enumerate(cl.members_of_classes(y, classes)):
            own = P[rows, k].astype(np.float64)
            if self._by_class:
                yield GroupValues(np.full(len(rows), k), -own, -own, rows, ties)
                continue
            others = np.delete(np.arange(classes), k)
            margins = (P[rows].astype(np.float64) - own[:, None])[:, others].reshape(-1)
            groups = np.tile(k * classes + others, len(rows))
            yield GroupValues(groups, margins, margins, np.repeat(rows, classes - 1), ties)


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
        return self._window_state(part)

    def reduce(self, number: int, state: State, known: State) -> State:
        """The window first, if there are windows."""
        if not self._chooses:
            return super().reduce(number, state, known)
        if number:
            return known | super().reduce(number - 1, state, known)
        return known | self._chosen_window(state)

    def probabilities(self, part: Part, known: State) -> Floats:
        """Probabilities of given labels (n, K): those of the neighbours, if they are used."""
        if known.get(OWN_WEIGHT, 1.0) < 1:
            return np.asarray(softmax(part.arrays[NEIGHBOURS], axis=1))
        return np.asarray(np.exp(self._logs(part, known)))

    def _window_state(self, part: Part) -> State:
        """What the choice of the window needs."""
        log_sums = part.arrays["log_probabilities"]
        state: State = dict(zip(WINDOW_COUNTS, early.window_counts(log_sums, part.labels), strict=True))
        if self.held_out:
            sums = early.held_out_sums(log_sums, part.labels, part.arrays[HELD_OUT])
            state |= dict(zip(HELD_OUT_SUMS, sums, strict=True))
        return state

    def _chosen_window(self, state: State) -> State:
        chosen = early.closest_window(*(state[name] for name in HELD_OUT_SUMS)) if self.held_out else None
        by_run = early.before_reversals(*(state[name] for name in WINDOW_COUNTS))
        return {"window": by_run if chosen is None else chosen}

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
        T = self._transition(known, logs.shape[1])
        if T is not None:
            step = self._method.steps[-1]
            assert isinstance(step, Unmix)
            typical_labels = part.labels if isinstance(self, FactoredHeldOut) else None
            logs = step.unmixed(self._logs(part, known), T, typical_labels)
        return MethodResult(self._method.score_probabilities(logs, part.labels))

    def _transition(self, known: State, classes: int) -> Floats | None:
        """T (K, K), or None without Unmixed or with too few samples for it."""
        if not self._unmixes or known["sizes"].sum() < classes**2:
            return None
        return as_transition(known["counts"].T.astype(np.float64))


class FactoredHeldOut(FactoredVectors):
    """The step HeldOut with stored predictions, also before Unmixed."""

    def needs_round(self, number: int, known: State) -> bool:
        """One for the window of EarlyProb; for Unmixed until the labels of typical samples are counted."""
        return (self._unmixes and "typical counts" not in known) or (self._chooses and number == 0)

    def map(self, number: int, part: Part, known: State) -> State:
        """Round 0: for the window. From then on what shows the last typical samples, then the labels of all of them."""
        state = self._window_state(part) if self._chooses and number == 0 else {}
        if not self._unmixes:
            return state
        held_out, classes = part.arrays[HELD_OUT], part.arrays[HELD_OUT].shape[1]
        rows, predicted = np.arange(len(held_out)), held_out.argmax(axis=1)
        confidence = held_out[rows, predicted]
        last = known.get("last typical") or RankSelection.start(classes, VALUE_WORDS)
        candidates = GroupValues(predicted, 1 / (1 - np.minimum(confidence, 0)), confidence, rows)
        if number == 0 or not last.done:
            return state | last.state([candidates])
        typical = last.reached(candidates)
        pairs = predicted[typical] * classes + part.labels[typical]
        return {"typical counts": np.bincount(pairs, minlength=classes**2).reshape(classes, classes)}

    def reduce(self, number: int, state: State, known: State) -> State:
        """The window and the last typical samples, or the counts of their labels."""
        if "typical counts" in state:
            return known | state
        if number == 0 and self._chooses:
            known = known | self._chosen_window(state)
        if not self._unmixes:
            return known
        last = known.get("last typical")
        if last is None:
            ranks = np.array([typical_size(size) for size in state["histogram"].sum(axis=1).tolist()])
            last = replace(RankSelection.start(len(ranks), VALUE_WORDS), ranks=ranks)
        return known | {"last typical": last.narrowed(state)}

    def _blended(self, part: Part, known: State) -> Floats:
        step = self._method.steps[0]
        assert isinstance(step, HeldOut)
        return step.blended(self._vector(part, known), part.arrays[HELD_OUT])

    def _transition(self, known: State, classes: int) -> Floats | None:
        return transition_of_typical(known["typical counts"].astype(np.float64)) if self._unmixes else None


def factored(method: ComposedMethod | Detector, context: SampleContext) -> FactoredMethod | None:
    """The method as rounds of map and reduce; None if it needs arrays of the whole run. context: what the run has."""
    return _factored(method, context.held_out is not None, context.can_hold_out)


def _factored(method: ComposedMethod | Detector, held_out: bool, can_hold_out: bool) -> FactoredMethod | None:
    """held_out: whether held-out predictions are stored. can_hold_out: whether they could be made of inputs, too."""
    if isinstance(method, ConfidentLearning):
        return None if method.cleanlab else FactoredConfidentLearning(method)
    if isinstance(method, Detector):
        return None
    if isinstance(method.aggregation, CTRL):
        return FactoredCTRL(method)
    early_window = isinstance(method.aggregation, EarlyProb)
    if early_window and can_hold_out and not held_out:
        return None
    plain = type(method.aggregation).result is Aggregation.result and not method.aggregation.uses_other_samples
    if not plain and not early_window:
        return None
    if not method.steps:
        return FactoredVectors(method, held_out) if early_window else OwnSample(method)
    if not isinstance(method.aggregation, VectorAggregation):
        return None
    steps = tuple(map(type, method.steps))
    if steps in ((HeldOut,), (HeldOut, Unmix)):
        return FactoredHeldOut(method, True) if held_out else None
    factors = steps == (Unmix,) or (steps in ((KNN,), (KNN, Unmix)) and not early_window)
    return FactoredVectors(method, held_out and early_window) if factors else None


def factored_by_name(name: str, held_out: bool) -> FactoredMethod | None:
    """The factored method of that name."""
    return _factored(parse(name), held_out, held_out)
