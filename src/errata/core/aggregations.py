"""Aggregations: from the logits of all epochs to one score or one vector per sample."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from errata.core import ctrl, early
from errata.core._measure_kernels import blend_probabilities
from errata.core.checks import Floats, Labels
from errata.core.measures import CPD, Measure
from errata.core.method_parts import Aggregation, EpochBatch, MethodResult, SampleArrays, VectorAggregation
from errata.core.method_registry import register
from errata.core.sample_context import SampleContext
from errata.errors import InputError

_BINARY = "0 or 1 from one prediction: most samples tie, and the margin ranks them in finer steps"
_SAME_AS_CE = "ranks exactly like CE: for one probability vector both increase together"
_NO_THRESHOLD = "needs a threshold on the measure, and no publication motivates one"


@register
@dataclass(frozen=True)
class Last(VectorAggregation):
    """The measure at the last epoch."""

    known_from: ClassVar = {"CE": ("Co-teaching", "DivideMix"), "JS": ("Unicon", "Jo-SRC")}
    paper_measures = ("CE", "LM")
    why_not_in_paper: ClassVar = {"JS": _SAME_AS_CE, "CPD": _BINARY}
    reads = "last epoch"

    def start(self, samples: int, classes: int, epochs: int) -> SampleArrays:
        return {"logits": np.zeros((samples, classes))}

    def update(self, state: SampleArrays, batch: EpochBatch, measure: Measure) -> None:
        state["logits"][:] = batch.logits

    def vector(self, state: SampleArrays) -> NDArray[Any]:
        return state["logits"]


class _ProbabilityAggregation(VectorAggregation):
    """Adds up weighted probabilities of the epochs; the vector is the logarithm of the sums, not normalised."""

    def start(self, samples: int, classes: int, epochs: int) -> SampleArrays:
        return {"probabilities": np.full((samples, classes), -np.inf)}

    def vector(self, state: SampleArrays) -> NDArray[Any]:
        return _log_probabilities(state["probabilities"])


@register
@dataclass(frozen=True)
class MeanProb(_ProbabilityAggregation):
    """The probabilities averaged over the epochs; the measure is taken of their logarithm."""

    known_from: ClassVar = {"CE": ("Dataset Cartography",), "CPD": ("SELF",)}
    paper_measures = ("CE", "LM")
    why_not_in_paper: ClassVar = {"JS": _SAME_AS_CE, "CPD": "is MeanProb-LM cut at zero: " + _BINARY}

    def update(self, state: SampleArrays, batch: EpochBatch, measure: Measure) -> None:
        _blend(state, batch, keep=1.0, weight=1.0, first=1.0)


@register
@dataclass(frozen=True)
class RampProb(_ProbabilityAggregation):
    """The probabilities averaged with weights 1, 2, 3, ...: later epochs count more."""

    def update(self, state: SampleArrays, batch: EpochBatch, measure: Measure) -> None:
        _blend(state, batch, keep=1.0, weight=batch.epoch + 1.0, first=batch.epoch + 1.0)


@register
@dataclass(frozen=True)
class EarlyProb(VectorAggregation):
    """The probabilities averaged over an early part of the run, or all of it if the model does not memorise.

    The state has one sum for each part of the run between two candidate ends, in ascending order; its key is the end.
    errata.core.early chooses the end.
    """

    can_stream = False
    uses_other_samples = True

    def start(self, samples: int, classes: int, epochs: int) -> SampleArrays:
        return {str(end): np.full((samples, classes), -np.inf) for end in early.window_ends(epochs)}

    def update(self, state: SampleArrays, batch: EpochBatch, measure: Measure) -> None:
        end = next(end for end in state if batch.epoch < int(end))
        _blend({"probabilities": state[end]}, batch, keep=1.0, weight=1.0, first=1.0)

    def vector(self, state: SampleArrays) -> NDArray[Any]:
        """One vector per candidate window, (n, P, K): logarithms of the probabilities summed over the window.

        A sample that was not recorded in a window has the vector of the next window in which it was.
        """
        windows = np.stack([_log_probabilities(part) for part in state.values()], axis=1)
        np.logaddexp.accumulate(windows, axis=1, out=windows)
        for window in range(windows.shape[1] - 2, -1, -1):
            unseen = np.isneginf(windows[:, window]).all(axis=1)
            windows[unseen, window] = windows[unseen, window + 1]
        return np.maximum(windows, np.finfo(np.float32).min).astype(np.float32)

    def log_probabilities(self, state: SampleArrays) -> NDArray[Any]:
        """The vector, not normalised: the difference of two sums shows what one window adds to the one before."""
        return self.vector(state)

    def select_vector(self, log_probabilities: NDArray[Any], labels: Labels, context: SampleContext) -> Floats:
        chosen = early.choose_window(log_probabilities, labels, context)
        return np.asarray(log_softmax(log_probabilities[:, chosen].astype(np.float64), axis=1))


@dataclass(frozen=True)
class LastQuarter(EarlyProb):
    """Sums over all but the last quarter of the epochs, and over all: the input of `memorising.counts_of_logits`."""

    def start(self, samples: int, classes: int, epochs: int) -> SampleArrays:
        ends = dict.fromkeys([*early.window_ends(epochs)[-2:-1], epochs])
        return {str(end): np.full((samples, classes), -np.inf) for end in ends}


@register
@dataclass(frozen=True)
class EMA(_ProbabilityAggregation):
    """The measure of an exponential moving average of the probabilities, p <- decay * p + (1 - decay) * p_new."""

    decay: float = 0.9

    known_from: ClassVar = {"CPD": ("SELF",)}
    why_not_in_paper: ClassVar = dict.fromkeys(("CE", "LM"), "the paper uses the plain mean of the probabilities") | {
        "JS": _SAME_AS_CE,
        "CPD": _BINARY,
    }

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise InputError(f"EMA needs 0 <= decay < 1, not {self.decay:g}")

    def update(self, state: SampleArrays, batch: EpochBatch, measure: Measure) -> None:
        _blend(state, batch, keep=self.decay, weight=1 - self.decay, first=1.0)


@register
@dataclass(frozen=True)
class SWA(VectorAggregation):
    """The measure of the logits of the model whose weights are the mean over the epochs."""

    paper_measures = ("CE", "LM")
    why_not_in_paper: ClassVar = {"JS": _SAME_AS_CE, "CPD": _BINARY}
    reads = "no epoch"

    def start(self, samples: int, classes: int, epochs: int) -> SampleArrays:
        return {}

    def update(self, state: SampleArrays, batch: EpochBatch, measure: Measure) -> None:
        raise AssertionError("the averaged model is evaluated once, after the last epoch")

    def vector(self, state: SampleArrays) -> NDArray[Any]:
        return state["swa_logits"]


@register
@dataclass(frozen=True)
class Mean(Aggregation):
    """The measure averaged over the epochs."""

    paper_measures = ("CE", "JS", "LM", "CPD")
    known_from: ClassVar = {"CE": ("O2U-Net", "AUL"), "LM": ("AUM",), "CPD": ("Wrong Event",)}

    def start(self, samples: int, classes: int, epochs: int) -> SampleArrays:
        return {"total": np.zeros(samples), "count": np.zeros(samples, dtype=np.int64)}

    def update(self, state: SampleArrays, batch: EpochBatch, measure: Measure) -> None:
        state["total"] += batch.measure(measure)
        state["count"] += 1

    def sample_arrays(self, state: SampleArrays, measure: Measure, labels: Labels, epochs: int) -> SampleArrays:
        return {"scores": state["total"] / state["count"]}


@register
@dataclass(frozen=True)
class LateStopping(Aggregation):
    """The epoch at which the measure has been at most `delta` for `k` epochs in a row; one past the end if never.

    Without `delta` the threshold is the measure where the given label has half the probability.
    """

    k: int = 1
    delta: float | None = None

    known_from: ClassVar = {"CPD": ("Late Stopping",)}
    paper_measures = ("CPD",)
    why_not_in_paper: ClassVar = dict.fromkeys(("CE", "JS", "LM"), _NO_THRESHOLD)

    def __post_init__(self) -> None:
        if self.k != int(self.k) or self.k < 1:
            raise InputError(f"LateStopping needs a whole k of at least 1, not {self.k}")

    def start(self, samples: int, classes: int, epochs: int) -> SampleArrays:
        return {"run": np.zeros(samples, dtype=np.int32), "learned": np.zeros(samples, dtype=np.int32)}

    def update(self, state: SampleArrays, batch: EpochBatch, measure: Measure) -> None:
        agrees = batch.measure(measure) <= (measure.half if self.delta is None else self.delta)
        run, learned = state["run"], state["learned"]
        np.multiply(run + 1, agrees, out=run, casting="unsafe")
        learned[(learned == 0) & (run >= self.k)] = batch.epoch + 1

    def sample_arrays(self, state: SampleArrays, measure: Measure, labels: Labels, epochs: int) -> SampleArrays:
        learned = state["learned"]
        return {"scores": np.where(learned == 0, epochs + 1, learned).astype(np.float64)}


@register
@dataclass(frozen=True)
class CTRL(Aggregation):
    """Votes of k-means clusterings of the measure curves, per class and per window of epochs (errata.core.ctrl).

    Without windows, clusters and selected (the paper's W, K, Ks), the best of nine candidates is chosen by CTRL's own
    score, silhouette * (accuracy * loss ratio) ** alpha, which needs no true labels.
    """

    windows: int | None = None
    clusters: int | None = None
    selected: int | None = None
    smooth: int = 5
    alpha: float = 0.0

    paper_measures = ("CE", "JS", "LM", "CPD")
    known_from: ClassVar = {"CE": ("CTRL",)}
    can_stream = False

    def __post_init__(self) -> None:
        given = [value is not None for value in (self.windows, self.clusters, self.selected)]
        if any(given) and not all(given):
            raise InputError("CTRL needs windows, clusters and selected together, or none of the three")
        for name in ("windows", "clusters", "selected", "smooth"):
            value = getattr(self, name)
            if value is not None and (value != int(value) or value < 1):
                raise InputError(f"CTRL needs a whole number of {name}, at least 1, not {value:g}")

    def start(self, samples: int, classes: int, epochs: int) -> SampleArrays:
        return {"curve": np.full((samples, epochs), np.nan), "correct": np.zeros(samples, dtype=np.bool_)}

    def update(self, state: SampleArrays, batch: EpochBatch, measure: Measure) -> None:
        state["curve"][:, batch.epoch] = batch.measure(measure)
        state["correct"][:] = batch.measure(CPD) == 0

    def sample_arrays(self, state: SampleArrays, measure: Measure, labels: Labels, epochs: int) -> SampleArrays:
        return {"curve": _without_gaps(state["curve"]), "correct": state["correct"]}

    def result(self, arrays: SampleArrays, measure: Measure, labels: Labels, budget: int | None) -> MethodResult:
        curves = ctrl.smoothed(arrays["curve"], len(np.unique(labels)), self.smooth)
        return self.vote(self.choose(curves, labels, arrays["correct"], slice(None), budget), curves, labels)

    def choose(
        self, curves: Floats, labels: Labels, correct: NDArray[np.bool_], uniform: Any, budget: int | None
    ) -> ctrl.Choice:
        """Clusters and configurations from smoothed curves, as in errata.core.ctrl."""
        candidates = ctrl.CONFIGURATIONS
        if self.windows is not None and self.clusters is not None and self.selected is not None:
            candidates = (ctrl.Configuration(self.windows, self.clusters, self.selected),)
        return ctrl.choose(curves, labels, correct, uniform, budget, self.alpha, candidates)

    @staticmethod
    def vote(choice: ctrl.Choice, curves: Floats, labels: Labels) -> MethodResult:
        """The votes of samples as scores, and their flags."""
        votes, flags = ctrl.vote(choice, curves, labels)
        return MethodResult(votes.astype(np.float64), flags)


def _without_gaps(curve: Floats) -> Floats:
    """Curves (n, E) in which a missing epoch has the value of the one before it, or of the first recorded one."""
    missing = np.isnan(curve)
    if not missing.any():
        return curve
    epochs = np.arange(curve.shape[1])
    source = np.maximum.accumulate(np.where(missing, -1, epochs), axis=1)
    first = np.argmin(missing, axis=1)
    source = np.where(source < 0, first[:, None], source)
    return np.take_along_axis(curve, source, axis=1)


def _blend(state: SampleArrays, batch: EpochBatch, *, keep: float, weight: float, first: float) -> None:
    blend_probabilities(batch.shifted, batch.exponentials, batch.totals, keep, weight, first, state["probabilities"])


def _log_probabilities(encoded: Floats) -> Floats:
    """Logarithms of numbers that are encoded as in _measure_kernels.TINY."""
    result = encoded.copy()
    np.log(encoded, out=result, where=encoded >= 0)
    return result
