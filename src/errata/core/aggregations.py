"""Aggregations: from the logits of every epoch to one score a sample, each a fold over epochs (errata.core.folds)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from errata.core import early
from errata.core.checks import Floats, Labels
from errata.core.folds import Aggregation, Chunk, State, VectorAggregation, Verdict, aggregation
from errata.core.measures import CPD, Measure
from errata.core.neighbourhood import Space
from errata.errors import InputError

_BINARY = "a yes or no from one prediction: most samples tie, and the margin ranks them finer"
_SAME_AS_CE = "ranks exactly as CE: for one probability vector the two grow together"
_NEVER_EXPLORED = "has a threshold on the measure to choose, and no published motivation"


@aggregation
@dataclass(frozen=True)
class Last(VectorAggregation):
    """The measure at the last epoch."""

    title = "last epoch"
    known_from: ClassVar = {
        "CE": ("Co-teaching", "DivideMix"),
        "JS": ("Unicon", "Jo-SRC"),
    }
    left_out: ClassVar = {"JS": _SAME_AS_CE, "CPD": _BINARY}
    reads = "last epoch"

    def start(self, samples: int, classes: int, epochs: int) -> State:
        return {"logits": np.zeros((samples, classes))}

    def update(self, state: State, chunk: Chunk, measure: Measure) -> None:
        state["logits"][:] = chunk.logits

    def vector(self, state: State) -> NDArray[Any]:
        return state["logits"]


class _ProbabilityAggregation(VectorAggregation):
    """Blends the probabilities of the epochs; their logarithm is the vector."""

    def start(self, samples: int, classes: int, epochs: int) -> State:
        return {"probabilities": np.full((samples, classes), -np.inf)}

    def vector(self, state: State) -> NDArray[Any]:
        return _log_probabilities(state["probabilities"])


@aggregation
@dataclass(frozen=True)
class MeanProb(_ProbabilityAggregation):
    """The measure of the logarithm of the probabilities averaged over the epochs."""

    title = "mean probability"
    known_from: ClassVar = {"CE": ("Dataset Cartography",), "CPD": ("SELF",)}
    left_out: ClassVar = {"JS": _SAME_AS_CE, "CPD": "is MeanProb-LM cut at zero: " + _BINARY}

    def update(self, state: State, chunk: Chunk, measure: Measure) -> None:
        _blend(state, chunk, keep=1.0, weight=1.0, first=1.0)


@aggregation
@dataclass(frozen=True)
class RampProb(_ProbabilityAggregation):
    """The measure of the logarithm of the probabilities averaged with weights 1, 2, 3, ...: later epochs count more."""

    title = "mean probability, later epochs count more"

    def update(self, state: State, chunk: Chunk, measure: Measure) -> None:
        _blend(state, chunk, keep=1.0, weight=chunk.epoch + 1.0, first=chunk.epoch + 1.0)


@aggregation
@dataclass(frozen=True)
class EarlyProb(VectorAggregation):
    """The measure of the logarithm of the probabilities averaged over the epochs before the model begins to memorise.

    Neighbours in the inputs tell which these are or, where there are none or they are as by chance, the convictions
    that the model turns against (errata.core.early).
    """

    title = "mean probability until the model memorises"
    streams = False
    looks_around = True

    def start(self, samples: int, classes: int, epochs: int) -> State:
        return {str(end): np.full((samples, classes), -np.inf) for end in early.window_ends(epochs)}

    def update(self, state: State, chunk: Chunk, measure: Measure) -> None:
        end = next(end for end in state if chunk.epoch < int(end))
        _blend({"probabilities": state[end]}, chunk, keep=1.0, weight=1.0, first=1.0)

    def vector(self, state: State) -> NDArray[Any]:
        """A vector a share of the run, (n, P, K); of a sample that a share has not seen, the next one that has."""
        shares = np.stack([_log_probabilities(part) for part in state.values()], axis=1)
        np.logaddexp.accumulate(shares, axis=1, out=shares)
        for share in range(shares.shape[1] - 2, -1, -1):
            unseen = np.isneginf(shares[:, share]).all(axis=1)
            shares[unseen, share] = shares[unseen, share + 1]
        return np.maximum(shares, np.finfo(np.float32).min).astype(np.float32)

    def log_probabilities(self, state: State) -> NDArray[Any]:
        """Logarithms of the probabilities summed over each share, so that what one adds to the one before is known."""
        return self.vector(state)

    def settle(self, log_probabilities: NDArray[Any], labels: Labels, space: Space) -> Floats:
        from scipy.special import log_softmax

        chosen = early.choose_window(log_probabilities, labels, space)
        return np.asarray(log_softmax(log_probabilities[:, chosen].astype(np.float64), axis=1))


@dataclass(frozen=True)
class LastQuarter(EarlyProb):
    """All but the last quarter of the epochs, and all: what the quarter adds is known then. A sign, and no method."""

    def start(self, samples: int, classes: int, epochs: int) -> State:
        ends = dict.fromkeys([*early.window_ends(epochs)[-2:-1], epochs])
        return {str(end): np.full((samples, classes), -np.inf) for end in ends}


@aggregation
@dataclass(frozen=True)
class EMA(_ProbabilityAggregation):
    """The measure of an exponential moving average of the probabilities, p <- decay * p + (1 - decay) * p_new."""

    decay: float = 0.9

    title = "exponential moving average of probabilities"
    known_from: ClassVar = {"CPD": ("SELF",)}
    left_out: ClassVar = dict.fromkeys(
        ("CE", "LM"), "the paper takes the plain mean of the probabilities in its place"
    ) | {
        "JS": _SAME_AS_CE,
        "CPD": _BINARY,
    }

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise InputError(f"EMA needs 0 <= decay < 1, not {self.decay:g}")

    def update(self, state: State, chunk: Chunk, measure: Measure) -> None:
        _blend(state, chunk, keep=self.decay, weight=1 - self.decay, first=1.0)


@aggregation
@dataclass(frozen=True)
class SWA(VectorAggregation):
    """The measure of the logits of the model whose weights are the mean over the epochs."""

    title = "stochastic weight averaging"
    left_out: ClassVar = {"JS": _SAME_AS_CE, "CPD": _BINARY}
    reads = "no epoch"

    def start(self, samples: int, classes: int, epochs: int) -> State:
        return {}

    def update(self, state: State, chunk: Chunk, measure: Measure) -> None:
        raise AssertionError("the averaged model is evaluated once, after the epochs")

    def vector(self, state: State) -> NDArray[Any]:
        return state["swa_logits"]


@aggregation
@dataclass(frozen=True)
class Mean(Aggregation):
    """The measure averaged over the epochs."""

    title = "mean"
    left_out: ClassVar = {}
    known_from: ClassVar = {"CE": ("O2U-Net", "AUL"), "LM": ("AUM",), "CPD": ("Wrong Event",)}

    def start(self, samples: int, classes: int, epochs: int) -> State:
        return {"total": np.zeros(samples), "count": np.zeros(samples, dtype=np.int64)}

    def update(self, state: State, chunk: Chunk, measure: Measure) -> None:
        state["total"] += chunk.measure(measure)
        state["count"] += 1

    def rows(self, state: State, measure: Measure, labels: Labels, epochs: int) -> State:
        return {"scores": state["total"] / state["count"]}


@aggregation
@dataclass(frozen=True)
class LateStopping(Aggregation):
    """The epoch at which the measure has been at most `delta` for `k` epochs in a row; one past the end if never.

    Without `delta` the threshold is where the given label draws level with the rest.
    """

    k: int = 1
    delta: float | None = None

    title = "late stopping"
    known_from: ClassVar = {"CPD": ("Late Stopping",)}
    left_out: ClassVar = dict.fromkeys(("CE", "JS", "LM"), _NEVER_EXPLORED)

    def __post_init__(self) -> None:
        if self.k != int(self.k) or self.k < 1:
            raise InputError(f"LateStopping needs a whole k of at least 1, not {self.k}")

    def start(self, samples: int, classes: int, epochs: int) -> State:
        return {"run": np.zeros(samples, dtype=np.int32), "learned": np.zeros(samples, dtype=np.int32)}

    def update(self, state: State, chunk: Chunk, measure: Measure) -> None:
        agrees = chunk.measure(measure) <= (measure.half if self.delta is None else self.delta)
        run, learned = state["run"], state["learned"]
        np.multiply(run + 1, agrees, out=run, casting="unsafe")
        learned[(learned == 0) & (run >= self.k)] = chunk.epoch + 1

    def rows(self, state: State, measure: Measure, labels: Labels, epochs: int) -> State:
        learned = state["learned"]
        return {"scores": np.where(learned == 0, epochs + 1, learned).astype(np.float64)}


@aggregation
@dataclass(frozen=True)
class CTRL(Aggregation):
    """Votes of k-means clusterings of the measure curves, class by class and window by window (errata.core.ctrl).

    Without windows, clusters and selected (the paper's W, K, Ks) the best of nine candidates is chosen by CTRL's own
    score, silhouette * (accuracy * loss ratio) ** alpha, which needs no truth.
    """

    windows: int | None = None
    clusters: int | None = None
    selected: int | None = None
    smooth: int = 5
    alpha: float = 0.0

    title = "clustering of training curves"
    left_out: ClassVar = {}
    known_from: ClassVar = {"CE": ("CTRL",)}
    streams = False

    def __post_init__(self) -> None:
        given = [value is not None for value in (self.windows, self.clusters, self.selected)]
        if any(given) and not all(given):
            raise InputError("CTRL takes windows, clusters and selected together, or none of them to choose by itself")
        for name in ("windows", "clusters", "selected", "smooth"):
            value = getattr(self, name)
            if value is not None and (value != int(value) or value < 1):
                raise InputError(f"CTRL needs a whole number of {name}, at least 1, not {value:g}")

    def start(self, samples: int, classes: int, epochs: int) -> State:
        return {"curve": np.full((samples, epochs), np.nan), "correct": np.zeros(samples, dtype=np.bool_)}

    def update(self, state: State, chunk: Chunk, measure: Measure) -> None:
        state["curve"][:, chunk.epoch] = chunk.measure(measure)
        state["correct"][:] = chunk.measure(CPD) == 0

    def rows(self, state: State, measure: Measure, labels: Labels, epochs: int) -> State:
        return {"curve": _without_gaps(state["curve"]), "correct": state["correct"]}

    def verdict(self, rows: State, measure: Measure, labels: Labels, budget: int | None) -> Verdict:
        from errata.core import ctrl

        candidates = ctrl.CONFIGURATIONS
        if self.windows is not None and self.clusters is not None and self.selected is not None:
            candidates = (ctrl.Configuration(self.windows, self.clusters, self.selected),)
        options: dict[str, Any] = {"alpha": self.alpha, "smooth": self.smooth, "configurations": candidates}
        told = (rows["curve"], labels, rows["correct"])
        if budget is None:
            own = ranked = ctrl.select(*told, **options)
        else:
            ranked, own = ctrl.selections(*told, budgets=[budget, None], **options)
        return Verdict(ranked.votes.astype(np.float64), own.mask)


def _without_gaps(curve: Floats) -> Floats:
    """Curves (n, E) in which a missing epoch repeats the one before it, or the first one there is."""
    missing = np.isnan(curve)
    if not missing.any():
        return curve
    epochs = np.arange(curve.shape[1])
    source = np.maximum.accumulate(np.where(missing, -1, epochs), axis=1)
    first = np.argmin(missing, axis=1)
    source = np.where(source < 0, first[:, None], source)
    return np.take_along_axis(curve, source, axis=1)


def _blend(state: State, chunk: Chunk, *, keep: float, weight: float, first: float) -> None:
    from errata.core._measure_kernels import blend_probabilities

    blend_probabilities(chunk.shifted, chunk.exponentials, chunk.totals, keep, weight, first, state["probabilities"])


def _log_probabilities(encoded: Floats) -> Floats:
    """Logarithms of numbers in the encoding of TINY."""
    result = encoded.copy()
    np.log(encoded, out=result, where=encoded >= 0)
    return result
