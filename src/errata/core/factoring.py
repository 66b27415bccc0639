"""Methods on a run in parts (shards): map and reduce, with the results of the whole run.

A method factors if one part can be scored from its own samples and a small state of the whole run. The state is
computed in a few rounds. In each round, `map` computes the state of one part, `merge` adds the states of all parts, and
`reduce` turns the sum into the input of the next round. At the end, `result` scores one part.

- A method whose scores depend on their own sample only needs no round.
- Confident learning needs the mean self-confidence of each class (sums of K fractions), then the confident joint
  (K, K). PBC and PBNR need the value of the last flagged sample too: histograms (K, K, bins) show its bin, and the
  values in this one bin are then compared. So flags are exact, and the histograms are no approximation.
- Unmixed needs the same two states for T.
- EarlyProb without held-out predictions needs counts of candidate windows first (errata.core.early).
- CTRL clusters a sample of the curves (errata.core.factored_ctrl).
- kNN needs what the neighbours of each sample predict, from a search before the first round
  (errata.dynamics.shard_neighbours).

All others (held-out models, the rules of cleanlab) need arrays of the whole run.
"""

from fractions import Fraction
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
from errata.core.jit import BLOCK_ELEMENTS, over_blocks
from errata.core.method_parts import Aggregation, Detector, MethodResult, VectorAggregation
from errata.core.methods import parse
from errata.core.sample_context import SampleContext
from errata.core.smoothing import KNN, blend
from errata.core.unmixing import Unmix, as_transition, true_classes

HISTOGRAM_CELLS, MOST_BINS, FEWEST_BINS = 1 << 22, 1024, 16


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
        """None for CC; class means for CYY; for the others also the joint and the last flagged value."""
        assert isinstance(self.method, ConfidentLearning)
        return {"CC": 0, "CYY": 1, "PBC": 3, "PBNR": 3}[self.method.variant]

    def map(self, number: int, part: Part, known: State) -> State:
        """Round 1: also histograms. Round 2: the values in the bin of the last flagged value of each pair."""
        if number == 0:
            return super().map(number, part, known)
        P, y = cl.check_probabilities(self.probabilities(part, known), part.labels)
        members = cl.members_of_classes(y, P.shape[1])
        bins = _bins(P.shape[1])
        state: State = {} if number == 2 else super().map(number, part, known)
        for k, j in self._pairs(P.shape[1]) if number == 1 else known["bins"]:
            values = self._values(P, members[k], k, j)
            if number == 1:
                state[k, j] = np.bincount(_bin(values, bins), minlength=bins)
                continue
            rows = members[k][_bin(values, bins) == known["bins"][k, j][0]]
            content, by_row = tie_hashes(P, rows, rows.astype(np.int64) + part.first)
            state[k, j] = ((self._values(P, rows, k, j), content, by_row),)
        return state

    def reduce(self, number: int, state: State, known: State) -> State:
        """Round 1: the bin of the last flagged value, and how many values in it. Round 2: that value and its hashes."""
        if number == 0:
            return super().reduce(number, state, known)
        if number == 1:
            joint = PAPER.calibrated(state["counts"], known["sizes"])
            found = {}
            for k, j in self._pairs(len(joint)):
                budget = round(known["sizes"][k] - joint[k, k]) if self._by_class else int(np.rint(joint[k, j]))
                if budget > 0:
                    reached = np.cumsum(state[k, j][::-1])
                    place = int(np.searchsorted(reached, budget))
                    above = int(reached[place - 1]) if place else 0
                    found[k, j] = (len(reached) - 1 - place, budget - above)
            return known | {"bins": found}
        last = {}
        for pair, (_, left) in known["bins"].items():
            values, content, by_row = (np.concatenate(arrays) for arrays in zip(*state[pair], strict=True))
            at = np.lexsort((by_row, content, -values))[left - 1]
            last[pair] = (values[at], content[at], by_row[at])
        return known | {"last": last}

    def result(self, part: Part, known: State) -> MethodResult:
        """Flags and scores of one part."""
        P, y = cl.check_probabilities(self.probabilities(part, known), part.labels)
        thresholds = known.get("thresholds", np.full(P.shape[1], np.inf))
        confident, disagrees = cl.find_confident_classes(P, y, thresholds, PAPER.slack)
        flagged = disagrees if self.rounds == 0 else (confident != y) & (confident >= 0)
        if self.rounds == 3:
            flagged = np.zeros(len(P), np.bool_)
            members = cl.members_of_classes(y, P.shape[1])
            for (k, j), (value, content, by_row) in known["last"].items():
                values = self._values(P, members[k], k, j)
                flagged[members[k][values > value]] = True
                equal = members[k][values == value]
                own_content, own_row = tie_hashes(P, equal, equal.astype(np.int64) + part.first)
                before = (own_content < content) | ((own_content == content) & (own_row <= by_row))
                flagged[equal[before]] = True
        return MethodResult(cl.scores(flagged, P, part.labels), flagged)

    @property
    def _by_class(self) -> bool:
        assert isinstance(self.method, ConfidentLearning)
        return self.method.variant == "PBC"

    def _pairs(self, classes: int) -> list[tuple[int, int]]:
        """The pairs of label and class among which samples are flagged."""
        if self._by_class:
            return [(k, k) for k in range(classes)]
        return [(k, j) for k in range(classes) for j in range(classes) if j != k]

    def _values(self, P: NDArray[Any], rows: NDArray[Any], k: int, j: int) -> Floats:
        """What decides which samples labelled k are flagged: −P_k, or the margin P_j − P_k."""
        own = P[rows, k].astype(np.float64)
        return np.asarray(-own if j == k else P[rows, j].astype(np.float64) - own)


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


def _bins(classes: int) -> int:
    return int(np.clip(HISTOGRAM_CELLS // classes**2, FEWEST_BINS, MOST_BINS))


def _bin(values: Floats, bins: int) -> NDArray[np.int64]:
    """The bin (n,) of values between −1 and 1; a larger value is never in a lower bin."""
    return np.clip((values + 1) * (bins / 2), 0, bins - 1).astype(np.int64)
