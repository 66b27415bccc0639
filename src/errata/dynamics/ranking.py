"""The ranking of one run: scores, suggested labels, probabilities that a label is wrong, and noise-rate estimates.

`analyse` computes everything that reads the logits once. `rank`, `noise_rates` and `errata.find` use its result.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from errata.core import rates
from errata.core.checks import Floats
from errata.core.composed_method import ComposedMethod, SuggestedLabel, suggest
from errata.core.default import parse_or_default
from errata.core.held_out import HeldOut
from errata.core.label_weights import combine_passes
from errata.core.method_parts import MethodResult, SampleArrays
from errata.core.methods import Method, parse
from errata.core.metrics import budget_count
from errata.core.pooling import held_out_pool
from errata.core.unmixing import count_typical
from errata.core.windows import Window
from errata.dynamics.ids import portable_ids
from errata.dynamics.scoring import epochs_used, find_method, require_dynamics
from errata.dynamics.store import Dynamics
from errata.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

LOSS = "Mean-CE"
COMPARED = ("MeanProb-LM", "Mean-LM", LOSS, "Last-LM", "CL-PBNR")
"""Methods that rank by different rules: two means of the margin, the loss, the last epoch, confident learning."""

CONFIDENCE = 0.95
FEWEST_WRONG = 0.035
"""Below this estimated share of wrong labels, a second pass does not find more of them."""
SLOPE_OF_ONE_EPOCH = 1.0
SLOPE_PER_DEVIATION = 4.0
"""Slopes of the log-odds of a wrong label: per unit of the score, and per standard deviation of the scores.

The score of a single epoch is a log-odds of two classes, so its slope is 1. A mean over epochs is smaller, as early
epochs are undecided. There, 4 per standard deviation fitted known errors better than any fixed slope
(benchmarks/calibration.py).
"""
ESTIMATORS = {
    "confident joint": "confident joint",
    "mixture": "two groups of scores",
    "sign": "the model's preference",
    rates.TYPICAL_SAMPLES: "labels of typical samples",
}
"""The estimates of the noise rate by kind, each with its name in sentences."""

Estimates = dict[str, rates.NoiseRate | InputError]


@dataclass(frozen=True, eq=False)
class RunAnalysis:
    """The result of one method on N samples of a run.

    dynamics: the epochs of the window. epochs_used: how many of these the method uses, from the first on.
    log_probabilities: (N, K) of the classes, not normalised; None if the method computes no class probabilities.
    suggestion: suggested (N,), label_probability (N,), suggested_probability (N,); empty if they cannot be computed.
    compared: the results of the COMPARED methods by name; empty if they were not computed.
    """

    dynamics: Dynamics
    method: Method
    is_default: bool
    epochs_used: int
    result: MethodResult
    log_probabilities: Floats | None
    suggestion: SampleArrays
    compared: dict[str, MethodResult]

    @cached_property
    def estimates(self) -> Estimates:
        """Estimates of the noise rate by kind, see `estimate_rates`."""
        return estimate_rates(self)

    @property
    def rate(self) -> rates.NoiseRate:
        """The share of wrong labels: the median of the estimates."""
        together = self.estimates["together"]
        if isinstance(together, InputError):
            raise together
        return together


def analyse(
    dynamics: Dynamics,
    method: str | Method | None = None,
    *,
    window: Window | None = None,
    budget: int | float | None = None,
    compare: bool = False,
) -> RunAnalysis:
    """Score a run with one method, by default the default method.

    compare: apply the COMPARED methods as well, in the same pass over the logits.
    """
    requested, viewed = parse_or_default(method), dynamics.window(window)
    chosen, count = find_method(dynamics, requested), None if budget is None else budget_count(budget, viewed.samples)
    others = compared_methods(dynamics) if compare else []
    with_probabilities = chosen if isinstance(chosen, ComposedMethod) and chosen.uses_other_samples else None
    suggests = with_probabilities is None and _can_answer(viewed, SuggestedLabel())
    arrays, *answers = viewed.sample_arrays([chosen, *others, *([SuggestedLabel()] if suggests else [])])
    suggestion: SampleArrays = answers.pop() if suggests else {}
    compared = {
        other.name: other.result(answer, viewed.labels, None, viewed.context)
        for other, answer in zip(others, answers, strict=True)
    }
    used, log_probabilities = epochs_used(viewed, chosen, arrays), None
    if with_probabilities is not None:
        log_probabilities = with_probabilities.class_log_probabilities(arrays, viewed.labels, viewed.context)
        result = MethodResult(with_probabilities.score_probabilities(log_probabilities, viewed.labels), None)
        del arrays, answers  # arrays (N, K) and larger
        suggestion = suggest(log_probabilities, viewed.labels)
    else:
        result = chosen.result(arrays, viewed.labels, count, viewed.context)
    return RunAnalysis(viewed, chosen, requested is None, used, result, log_probabilities, suggestion, compared)


def with_second_pass(first: RunAnalysis, second: Dynamics) -> RunAnalysis:
    """The analysis of a run together with that of its second training pass, which the same method ranks.

    second: dynamics in the same order. Inputs and held-out predictions are those of the first run; features are those
    of the second, if it has any. Only the second half of the second run is used, because a new model needs the first
    half to become as good as that of the first run. The class probabilities of both are combined by their geometric
    mean.
    """
    run = first.dynamics
    assert first.log_probabilities is not None
    assert isinstance(first.method, ComposedMethod)
    features = run.features if second.features is None else second.features
    described = replace(second, features=features, inputs=run.inputs, held_out=run.held_out, settings=run.settings)
    again = analyse(described, first.method, window=(second.epochs // 2, second.epochs - 1))
    assert again.log_probabilities is not None
    combined = combine_passes(first.log_probabilities, again.log_probabilities)
    result = MethodResult(first.method.score_probabilities(combined, run.labels), None)
    return replace(first, result=result, log_probabilities=combined, suggestion=suggest(combined, run.labels))


def second_pass_helps(first: RunAnalysis) -> bool:
    """Whether a second pass may find more errors than this run: not if very few labels seem to be wrong.

    Their share is the estimate by the confident joint, which is close for few errors (docs/backbones.md).
    """
    estimate = first.estimates["confident joint"]
    return isinstance(estimate, InputError) or estimate.rate >= FEWEST_WRONG


def compared_methods(dynamics: Dynamics) -> list[Method]:
    """The COMPARED methods for the gathering of these dynamics."""
    return [replace(parse(name), gathering=dynamics.gathering or "in-sample") for name in COMPARED]


def can_compare(dynamics: Dynamics) -> bool:
    """Whether the stored logits or running sums suffice for all COMPARED methods."""
    return all(_can_answer(dynamics, other) for other in compared_methods(dynamics))


def rank(
    dynamics: Dynamics,
    method: str | Method | None = None,
    *,
    window: Window | None = None,
    budget: int | float | None = None,
) -> "pd.DataFrame":
    """All samples, most suspicious first; ties are ordered by a hash of the id. `budget` is used by CTRL only.

    The columns: id, label, suggested (the most probable class), score, rank, label_probability and
    suggested_probability; flag, for methods that choose a threshold themselves; and, for the default method, p_wrong
    (the estimated probability that the label is wrong), agree (the share of the compared methods that count the sample
    among the estimated errors) and mean_loss.

    >>> import errata
    >>> dynamics = errata.Dynamics.from_arrays([[[2.0, 0.0], [0.0, 3.0], [4.0, 0.0]]], [0, 1, 1])
    >>> errata.rank(dynamics, "Mean-LM")[["id", "label", "suggested", "rank"]]
       id  label  suggested  rank
    0   2      1          0     1
    1   0      0          0     2
    2   1      1          1     3
    """
    require_dynamics(dynamics, "rank")
    requested = parse_or_default(method)
    compare = requested is None and can_compare(dynamics)
    return ranking_table(analyse(dynamics, requested, window=window, budget=budget, compare=compare))


def ranking_table(analysis: RunAnalysis) -> "pd.DataFrame":
    """One row per sample, most suspicious first; ties are ordered by a hash of the id, not by row.

    id, label, suggested (the most probable class), score, rank, label_probability, suggested_probability.
    flag: only for methods that choose a threshold themselves.
    p_wrong, only for the default method: the estimated probability that the label is wrong.
    agree, mean_loss, only if the compared methods were applied: the share of methods, the default one included, that
    count the sample among the estimated errors, and the mean loss over the epochs.

    There is no `suggested` and no probability if running sums without mean probabilities were stored.
    """
    import pandas as pd

    dynamics, (scores, flags) = analysis.dynamics, analysis.result
    tie_break = pd.util.hash_array(portable_ids(dynamics.ids))
    names = pd.Index([dynamics.class_name(number) for number in range(dynamics.num_classes)], tupleize_cols=False)
    columns: dict[str, Any] = {"id": dynamics.ids, "label": names.take(dynamics.labels)}
    if analysis.suggestion:
        columns["suggested"] = names.take(analysis.suggestion["suggested"])
    columns |= {"score": scores, "rank": 0}
    if analysis.suggestion:
        columns |= {name: analysis.suggestion[name] for name in ("label_probability", "suggested_probability")}
    if analysis.is_default:
        rate = analysis.rate.rate
        columns["p_wrong"] = wrong_probabilities(scores, rate, _slope(scores, dynamics.epochs))
        if analysis.compared:
            count = round(rate * dynamics.samples)
            votes = [_votes(result, count, tie_break) for result in (analysis.result, *analysis.compared.values())]
            columns["agree"] = np.mean(votes, axis=0)
            columns["mean_loss"] = analysis.compared[
                replace(parse(LOSS), gathering=analysis.method.gathering).name
            ].scores
    if flags is not None:
        columns["flag"] = flags
    table = pd.DataFrame(columns).iloc[np.lexsort((tie_break, -scores))].reset_index(drop=True)
    return table.assign(rank=np.arange(1, len(table) + 1))


def wrong_probabilities(scores: Floats, rate: float, slope: float) -> Floats:
    """The probability (N,) that each label is wrong: a logistic curve of scores (N,).

    The curve is shifted so that the probabilities sum to rate × N.
    """
    from scipy.optimize import brentq

    total = rate * len(scores)
    if total <= 0 or total >= len(scores):
        return np.full(len(scores), min(max(rate, 0.0), 1.0))
    scaled = slope * scores

    def excess(shift: float) -> float:
        return float(expit(scaled - shift).sum() - total)

    margin = 40.0 + np.log(len(scores))  # this far beyond every score the curve is flat at 0 or 1
    shift = brentq(excess, scaled.min() - margin, scaled.max() + margin, xtol=1e-12)
    return np.asarray(expit(scaled - shift))


def noise_rates(dynamics: Dynamics, *, window: Window | None = None, confidence: float = CONFIDENCE) -> "pd.DataFrame":
    """Estimates of the share of wrong labels, and before them their median, `together`. None uses true labels.

    Three use the class probabilities and scores of the default method. If that uses held-out predictions, a fourth uses
    the labels of the samples that these are most confident about. One row per estimate: its name, rate, low, high, how
    it is computed, and its kind, which does not depend on the method. An estimate that the scores do not allow is
    NaN, with the reason.

    >>> import errata
    >>> dynamics = errata.Dynamics.from_arrays([[[2.0, 0.0], [0.0, 3.0], [4.0, 0.0]]], [0, 1, 1])
    >>> errata.noise_rates(dynamics)["estimate"].tolist()
    ['together', 'confident joint', 'mixture on Unmixed-MeanProb-LM', 'sign of Unmixed-MeanProb-LM']
    """
    require_dynamics(dynamics, "noise_rates")
    if not 0 < confidence < 1:
        raise InputError(f"confidence is {confidence}, not between 0 and 1")
    analysis = analyse(dynamics, window=window)
    return rates_table(analysis, estimate_rates(analysis, confidence))


def rates_table(analysis: RunAnalysis, estimates: Estimates | None = None) -> "pd.DataFrame":
    """The table that `noise_rates` returns, by default for the estimates of the analysis."""
    import pandas as pd

    names = {"mixture": f"mixture on {analysis.method.name}", "sign": f"sign of {analysis.method.name}"}
    return pd.DataFrame(
        [
            {"estimate": names.get(kind, kind), **_row(one), "kind": kind}
            for kind, one in (estimates or analysis.estimates).items()
        ]
    )


def estimate_rates(analysis: RunAnalysis, confidence: float = CONFIDENCE) -> Estimates:
    """Estimates of the noise rate by kind; the reason as an InputError where the scores do not allow one.

    The first, `together`, is the median of the others.
    """
    assert analysis.log_probabilities is not None
    labels, margins = analysis.dynamics.labels, analysis.result.scores
    probabilities = softmax(analysis.log_probabilities, axis=1)
    single = {
        "confident joint": _attempt(lambda: rates.from_confident_joint(probabilities, labels, confidence=confidence)),
        "mixture": _attempt(lambda: rates.from_mixture(margins, confidence=confidence)),
        "sign": _attempt(lambda: rates.from_sign(margins, confidence=confidence)),
    }
    held_out = _held_out(analysis)
    if held_out is not None:
        typical = count_typical(held_out, labels)
        single[rates.TYPICAL_SAMPLES] = _attempt(lambda: rates.from_typical_samples(typical, confidence=confidence))
    available = {kind: one for kind, one in single.items() if isinstance(one, rates.NoiseRate)}
    names = [ESTIMATORS[kind] for kind in available]
    return {"together": _attempt(lambda: rates.combine(available, names)), **single}


def _held_out(analysis: RunAnalysis) -> Floats | None:
    """The held-out log-probabilities (N, K) that the method used, or None."""
    dynamics, method = analysis.dynamics, analysis.method
    if not isinstance(method, ComposedMethod) or not any(isinstance(step, HeldOut) for step in method.steps):
        return None
    return held_out_pool(dynamics.labels, dynamics.num_classes, dynamics.context)


def _attempt(estimate: Callable[[], rates.NoiseRate]) -> rates.NoiseRate | InputError:
    try:
        return estimate()
    except InputError as error:
        return error


def _row(estimate: rates.NoiseRate | InputError) -> dict[str, Any]:
    if isinstance(estimate, InputError):
        return {"rate": np.nan, "low": np.nan, "high": np.nan, "how": f"because {estimate}"}
    return {"rate": estimate.rate, "low": estimate.low, "high": estimate.high, "how": estimate.how}


def _can_answer(dynamics: Dynamics, method: Method | SuggestedLabel) -> bool:
    return dynamics.reducers is None or dynamics.reducers.supports(method)


def _slope(scores: Floats, epochs: int) -> float:
    spread = float(scores.std())
    return SLOPE_OF_ONE_EPOCH if epochs == 1 or spread == 0 else SLOPE_PER_DEVIATION / spread


def _votes(result: MethodResult, count: int, tie_break: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """True (N,) for flagged samples; without flags, for the `count` samples with the highest scores."""
    if result.flags is not None:
        return result.flags
    chosen = np.zeros(len(result.scores), dtype=np.bool_)
    chosen[np.lexsort((tie_break, -result.scores))[:count]] = True
    return chosen
