"""Metrics of a ranking when only a budget of samples can be inspected.

The samples with the highest scores are inspected, and every error among them is corrected. Samples with unknown truth
are left out, so a budget is a count or a fraction of the samples with known truth. For tied scores, a metric is its
expectation over all orders of the tied samples, so that it does not depend on the order of rows.

>>> import errata
>>> errata.metrics.fnr([0.9, 0.8, 0.1], [True, False, True])  # one of two errors is among the first two
0.5
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.core.checks import Floats, as_numpy, check_scores
from errata.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Bools = NDArray[np.bool_]
BUDGET_ARGUMENTS = """scores: (N,). truth: (N,), True if the label is wrong. budget: an int is a count, a float a
fraction, None the number of errors."""


@dataclass(frozen=True)
class Inspection:
    """Numbers of samples, errors, inspected samples and errors found, for one budget or for an array of budgets."""

    samples: int
    errors: int
    inspected: NDArray[np.int64]
    found: Floats


METRICS: dict[str, Callable[..., float]] = {}
_AT_BUDGET: dict[str, Callable[[Inspection], Floats]] = {}


def metric(function: Callable[..., float]) -> Callable[..., float]:
    """Register a metric that is called with scores and truth."""
    if function.__name__ in METRICS:
        raise InputError(f"there is already a metric named {function.__name__}")
    METRICS[function.__name__] = function
    return function


def budget_metric(formula: Callable[[Inspection], Floats]) -> Callable[..., float]:
    """Register a formula on an `Inspection` as a metric at one budget and as a column of `budget_curve`."""

    def at_budget(scores: ArrayLike, truth: ArrayLike, budget: int | float | None = None) -> float:
        known_scores, wrong = _known(scores, truth)
        inspected = int(wrong.sum()) if budget is None else budget_count(budget, len(wrong))
        value = float(_evaluate(formula, wrong, inspected, _errors_found(known_scores, wrong, inspected)))
        if math.isnan(value):
            raise InputError(f"{formula.__name__} is undefined when nothing is inspected, so the budget cannot be 0")
        return value

    at_budget.__name__ = at_budget.__qualname__ = formula.__name__
    summary, _, example = inspect.cleandoc(formula.__doc__ or "").partition("\n\n")
    at_budget.__doc__ = "\n\n".join(part for part in (summary, BUDGET_ARGUMENTS, example) if part)
    metric(at_budget)
    _AT_BUDGET[formula.__name__] = formula
    return at_budget


@budget_metric
def fnr(inspection: Inspection) -> Floats:
    """The share of the errors that is missed: the paper's metric.

    >>> import errata
    >>> errata.metrics.fnr([0.9, 0.8, 0.1], [True, False, True], budget=1)  # the first sample is inspected
    0.5
    """
    return (inspection.errors - inspection.found) / inspection.errors


@budget_metric
def residual_noise(inspection: Inspection) -> Floats:
    """The share of all samples that is still wrong after the errors found are corrected.

    >>> import errata
    >>> errata.metrics.residual_noise([0.9, 0.8, 0.3, 0.1], [True, False, True, False], budget=0.25)
    0.25
    """
    return (inspection.errors - inspection.found) / inspection.samples


@budget_metric
def precision(inspection: Inspection) -> Floats:
    """The share of the inspected samples that is wrong.

    >>> import errata
    >>> errata.metrics.precision([0.9, 0.8, 0.1], [True, False, True], budget=2)
    0.5
    """
    return inspection.found / inspection.inspected


@budget_metric
def recall(inspection: Inspection) -> Floats:
    """The share of the errors that is found.

    >>> import errata
    >>> errata.metrics.recall([0.9, 0.8, 0.1], [True, False, True], budget=3)
    1.0
    """
    return inspection.found / inspection.errors


@budget_metric
def lift(inspection: Inspection) -> Floats:
    """Errors found, relative to the expected number among randomly chosen samples: precision / noise rate.

    >>> import errata
    >>> errata.metrics.lift([0.9, 0.8, 0.3, 0.1], [True, False, True, False], budget=1)
    2.0
    """
    return (inspection.found * inspection.samples) / (inspection.inspected * inspection.errors)


@metric
def auroc(scores: ArrayLike, truth: ArrayLike) -> float:
    """The probability that a wrong label scores higher than a correct one; a tie counts half. scores, truth: (N,).

    >>> import errata
    >>> errata.metrics.auroc([0.9, 0.8, 0.1], [True, False, True])
    0.5
    """
    from sklearn.metrics import roc_auc_score

    known_scores, wrong = _known(scores, truth)
    if wrong.all():
        raise InputError("every label is an error in truth; AUROC needs correct labels as well")
    return float(roc_auc_score(wrong, _ranks(known_scores)))


@metric
def auprc(scores: ArrayLike, truth: ArrayLike) -> float:
    """The area under the precision-recall curve, as average precision; a tie is one step. scores, truth: (N,).

    >>> import errata
    >>> errata.metrics.auprc([0.9, 0.8, 0.3, 0.1], [True, True, False, False])
    1.0
    """
    from sklearn.metrics import average_precision_score

    known_scores, wrong = _known(scores, truth)
    return float(average_precision_score(wrong, _ranks(known_scores)))


def budget_curve(scores: ArrayLike, truth: ArrayLike) -> "pd.DataFrame":
    """Every budget metric at every budget, for scores (N,) and truth (N,).

    One row per number of inspected samples, 0..N, with the fraction as `budget`. Within tied scores, the errors found
    grow linearly. Metrics that are undefined for 0 inspected samples are NaN in the first row.

    >>> import errata
    >>> curve = errata.metrics.budget_curve([0.9, 0.8, 0.1], [True, False, True])
    >>> curve[["inspected", "fnr"]].to_dict("list")
    {'inspected': [0, 1, 2, 3], 'fnr': [1.0, 0.5, 0.5, 0.0]}
    """
    import pandas as pd

    known_scores, wrong = _known(scores, truth)
    inspected = np.arange(len(wrong) + 1)
    found = _errors_found_everywhere(known_scores, wrong)
    columns = {name: _evaluate(formula, wrong, inspected, found) for name, formula in _AT_BUDGET.items()}
    return pd.DataFrame({"inspected": inspected, "budget": inspected / len(wrong), **columns})


def ideal_fnr(budget: ArrayLike, rate: ArrayLike) -> float | Floats:
    """The FNR at a budget (fraction) of a detector that ranks every error first, for a noise rate; broadcasts.

    >>> import errata
    >>> errata.metrics.ideal_fnr([0.1, 0.2, 0.4], 0.2).tolist()
    [0.5, 0.0, 0.0]
    """
    fnr_of_ideal: float | Floats = np.maximum(0.0, 1.0 - np.asarray(budget) / np.asarray(rate))
    return fnr_of_ideal


def random_fnr(budget: ArrayLike) -> float | Floats:
    """The expected FNR at a budget (fraction) of a detector that ranks at random.

    >>> import errata
    >>> errata.metrics.random_fnr([0.1, 0.5]).tolist()
    [0.9, 0.5]
    """
    fnr_at_random: float | Floats = 1.0 - np.asarray(budget, dtype=np.float64)
    return fnr_at_random


def _evaluate(formula: Callable[[Inspection], Floats], wrong: Bools, inspected: ArrayLike, found: ArrayLike) -> Floats:
    inspection = Inspection(len(wrong), int(wrong.sum()), np.asarray(inspected), np.asarray(found, dtype=np.float64))
    with np.errstate(invalid="ignore"):
        return formula(inspection)


def _errors_found(scores: Floats, wrong: Bools, inspected: int) -> float:
    """The expected number of errors among the `inspected` highest scores, in O(N)."""
    if inspected == 0:
        return 0.0
    last = len(scores) - inspected
    threshold = np.partition(scores, last)[last]
    above = scores > threshold
    tied = np.flatnonzero(scores == threshold)
    slots = inspected - int(above.sum())
    return float(_found_in_ties(int((above & wrong).sum()), slots, int(wrong[tied].sum()), len(tied)))


def _errors_found_everywhere(scores: Floats, wrong: Bools) -> Floats:
    """Errors expected among the b highest scores for every b = 0..N, shape (N+1,)."""
    descending = np.argsort(-scores)
    ranked, cumulative = scores[descending], np.concatenate(([0], np.cumsum(wrong[descending])))
    starts = np.concatenate(([0], np.flatnonzero(ranked[1:] != ranked[:-1]) + 1))
    sizes = np.diff(np.append(starts, len(ranked)))
    found_above = np.repeat(cumulative[starts], sizes)
    errors_tied = np.repeat(cumulative[starts + sizes] - cumulative[starts], sizes)
    slots = np.arange(1, len(ranked) + 1) - np.repeat(starts, sizes)
    return np.concatenate(([0.0], _found_in_ties(found_above, slots, errors_tied, np.repeat(sizes, sizes))))


def _found_in_ties(found_above: Any, slots: Any, errors_tied: Any, tied: Any) -> Any:
    """Errors above a group of tied scores, and the expected ones among the first `slots` of the group."""
    return found_above + slots * errors_tied / tied


def budget_count(budget: int | float, samples: int) -> int:
    """A budget as a number of samples: an int is that number, a float a fraction of all."""
    if isinstance(budget, int | np.integer) and not isinstance(budget, bool):
        if not 0 <= budget <= samples:
            raise InputError(f"budget is {budget} samples, outside 0..{samples}, the number of samples")
        return int(budget)
    if not isinstance(budget, float | np.floating):
        raise InputError(f"budget must be a count (int) or a fraction (float), not {budget!r}")
    if not 0 <= budget <= 1:
        raise InputError(f"budget is the fraction {budget}, outside 0..1; a number of samples is an int")
    product = float(budget) * samples
    # 0.1 * 30 is 3.0000000000000004: a rounding error must not add a sample.
    nearest, fuzz = round(product), 8 * float(np.finfo(type(budget)).eps) * samples
    return nearest if abs(product - nearest) <= fuzz else math.ceil(product)


def _known(scores: ArrayLike, truth: ArrayLike) -> tuple[Floats, Bools]:
    """Scores and truth of the samples with known truth; at least one of them must be an error."""
    checked = check_scores(scores)
    wrong, known = _read_truth(truth)
    if len(checked) != len(wrong):
        raise InputError(f"there are {len(checked)} scores but truth of {len(wrong)} samples")
    if not known.any():
        raise InputError("truth is unknown for every sample")
    if not wrong.any():
        raise InputError("truth has no error (no True), so that the metrics are undefined")
    return checked[known], wrong[known]


def _read_truth(truth: ArrayLike) -> tuple[Bools, Bools]:
    """Which samples are True, and which are known; unknown is None, NaN or pandas.NA."""
    import pandas as pd

    values = as_numpy(truth)
    if values.ndim != 1:
        raise InputError(f"truth must have shape (N,), not {values.shape}")
    known = ~np.asarray(pd.isna(values), dtype=np.bool_)
    is_true, is_false = np.zeros((2, len(values)), dtype=np.bool_)
    # Comparisons with pandas.NA return NA, so only known values are compared.
    is_true[known], is_false[known] = values[known] == 1, values[known] == 0
    neither = known & ~is_true & ~is_false
    if neither.any():
        row = int(np.flatnonzero(neither)[0])
        raise InputError(f"truth of sample {row} is {values.tolist()[row]!r}, not True or False")
    return is_true, known


def _ranks(scores: Floats) -> NDArray[np.int64]:
    """Dense ranks, with the same order and ties; scikit-learn refuses infinite scores."""
    return np.unique(scores, return_inverse=True)[1]
