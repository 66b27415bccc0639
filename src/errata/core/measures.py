"""Label disagreement measures: how much a logit vector disagrees with the given label.

Each is a function of one statistic per sample: the log odds against the given label, or the margin of the best other
logit over the label's. Both are computed from logits or log-probabilities, so that rounding creates no ties.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from errata.core._measure_kernels import shift_rows, sum_others
from errata.core.checks import as_numpy, check_labels, check_logits
from errata.core.jit import BLOCK_ELEMENTS, over_blocks
from errata.core.method_registry import Kind, register
from errata.errors import InputError

Statistic = Literal["log_odds", "margin"]
LOG_2 = float(np.log(2.0))
UNDERFLOW = 1e-290


@dataclass(frozen=True)
class Measure:
    """A label disagreement measure L(z, y), called on logits (..., K) and labels broadcast to (...); higher disagrees.

    `formula` maps `statistic` to the measure, elementwise.
    `half` is its value where the given label has half the probability (CPD and LM: where it ties with another class).
    """

    registered_name: str
    statistic: Statistic
    half: float
    formula: Callable[[Any], Any] = field(repr=False, compare=False)

    kind: ClassVar[Kind] = "measure"

    @property
    def name(self) -> str:
        """Its name in the names of methods."""
        return self.registered_name

    def __call__(self, logits: Any, labels: Any) -> Any:
        """Value of every sample, float64 (...). The input may be tensors; it is not changed."""
        array = as_numpy(logits)
        lead = array.shape[:-1]
        checked = check_logits(array[None] if array.ndim == 1 else array)
        flat = checked.reshape(-1, checked.shape[-1])
        flat_labels = check_labels(np.broadcast_to(as_numpy(labels), lead).ravel(), flat.shape[1])
        values = np.empty(len(flat))

        def work(block: slice) -> None:
            rows = LabelledLogits(flat[block], flat_labels[block])
            if rows.invalid_row is not None:
                raise InputError(f"logits of sample {block.start + rows.invalid_row} are not finite")
            values[block] = rows.statistic(self.statistic)

        over_blocks(len(flat), max(1, BLOCK_ELEMENTS // flat.shape[1]), work)
        return self.formula(values.reshape(lead) if lead else values[0])


def measure(statistic: Statistic, half: float) -> Callable[[Callable[[Any], Any]], Measure]:
    """Make a function of the statistic a measure, with the name of the function."""
    return lambda formula: Measure(formula.__name__, statistic, half, formula)


@register
@measure(statistic="log_odds", half=LOG_2)
def CE(log_odds: Any) -> Any:
    """Cross-entropy: -log p of the given label."""
    return (log_odds + np.abs(log_odds)) / 2 + np.log1p(np.exp(-np.abs(log_odds)))


@register
@measure(statistic="log_odds", half=0.75 * LOG_2 - 0.75 * float(np.log(1.5)))
def JS(log_odds: Any) -> Any:
    """Jensen-Shannon divergence in nats between the prediction and the one-hot given label; at most log 2."""
    rare = np.exp(-np.abs(log_odds))
    smaller, larger = rare / (1 + rare), 1 / (1 + rare)
    p = np.where(log_odds > 0, smaller, larger)
    q = np.where(log_odds > 0, larger, smaller)  # 1 - p without cancellation
    return (q * LOG_2 - p * CE.formula(log_odds) - (1 + p) * np.log1p(-q / 2)) / 2


@register
@measure(statistic="margin", half=0.0)
def LM(margin: Any) -> Any:
    """Logit margin: the largest logit of another class minus that of the given label."""
    return margin


@register
@measure(statistic="margin", half=0.0)
def CPD(margin: Any) -> Any:
    """Class prediction disagreement: 1 where another class has a larger logit than the label, 0 otherwise."""
    return (margin > 0) * np.ones_like(margin)


class LabelledLogits:
    """Logits (n, K) and labels (n,), with what measures and aggregations need of each row, computed once.

    `invalid_row` is the first row that is not finite, or None. If there is one, no other value may be used.
    """

    def __init__(self, logits: NDArray[Any], labels: NDArray[np.int64]) -> None:
        self.labels = labels
        self.shifted = np.empty(logits.shape)
        self.margin = np.empty(len(logits))
        invalid_row = shift_rows(_kernel_layout(logits), labels, self.shifted, self.margin)
        self.invalid_row = None if invalid_row < 0 else int(invalid_row)

    @cached_property
    def exponentials(self) -> NDArray[np.float64]:
        """exp(z - max z), (n, K): the probabilities times `totals`."""
        return np.asarray(np.exp(self.shifted))

    @cached_property
    def _others_and_own(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        others, own = np.empty(len(self.labels)), np.empty(len(self.labels))
        sum_others(self.exponentials, self.labels, others, own)
        return others, own

    @cached_property
    def totals(self) -> NDArray[np.float64]:
        """Sum of the exponentials of each row, (n,)."""
        others, own = self._others_and_own
        return others + own

    @cached_property
    def log_odds(self) -> NDArray[np.float64]:
        """Log odds against the given label, log sum_{k != y} exp(z_k) - z_y, (n,)."""
        others, _ = self._others_and_own
        every = np.arange(len(self.labels))
        against = np.log(np.maximum(others, UNDERFLOW))
        lost = np.flatnonzero(others <= UNDERFLOW)  # the label leads by about 600: sum the others on their own scale
        if len(lost):
            rest = self.shifted[lost]
            rest[np.arange(len(lost)), self.labels[lost]] = -np.inf
            against[lost] = logsumexp(rest, axis=1)
        return np.asarray(against - self.shifted[every, self.labels])

    def statistic(self, name: Statistic) -> NDArray[np.float64]:
        """The statistic of that name, (n,)."""
        return self.margin if name == "margin" else self.log_odds

    def measure(self, measure: Measure) -> NDArray[np.float64]:
        """The measure of every row, (n,)."""
        return np.asarray(measure.formula(self.statistic(measure.statistic)))


def _kernel_layout(logits: NDArray[Any]) -> NDArray[Any]:
    """Logits in a memory layout and type that the kernels are compiled for; copied only if needed."""
    if logits.dtype not in (np.float32, np.float64):
        logits = logits.astype(np.float32 if logits.dtype == np.float16 else np.float64)
    return np.ascontiguousarray(logits)
