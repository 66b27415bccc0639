"""Label disagreement measures: how much a logit vector disagrees with the given label.

Each is a function of one number a sample: the log odds against the given label, or the logit margin over it. Both come
from logits directly, so no measure loses a sample to rounding: log odds keep what 1 - p and log p throw away.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import check_labels, check_logits, is_tensor
from errata.errors import InputError

Statistic = Literal["log_odds", "margin"]
LOG_2 = float(np.log(2.0))


@dataclass(frozen=True)
class Measure:
    """A label disagreement measure L(z, y), called on logits (..., K) and labels broadcast to (...); higher disagrees.

    `formula` maps `statistic` to the measure elementwise and works on numpy arrays and torch tensors alike.
    `half` is its value where the given label holds half the probability (for CPD and LM: where it draws level).
    """

    name: str
    title: str
    statistic: Statistic
    half: float
    formula: Callable[[Any, Any], Any] = field(repr=False, compare=False)

    def __call__(self, logits: Any, labels: Any) -> Any:
        """Value for every sample, float64 (...), on the device of the logits; the input is never written to."""
        statistics = _tensor_statistic if is_tensor(logits) else _array_statistic
        return self.of(statistics(logits, labels, self.statistic))

    def of(self, statistic: Any) -> Any:
        """The measure from its statistic, elementwise."""
        return self.formula(statistic, sys.modules["torch"] if is_tensor(statistic) else np)


MEASURES: dict[str, Measure] = {}


def measure(name: str, title: str, statistic: Statistic, half: float) -> Callable[[Callable[[Any, Any], Any]], Measure]:
    """Register a formula as the measure `name`; the formula takes its statistic and the array module (numpy or torch)."""

    def register(formula: Callable[[Any, Any], Any]) -> Measure:
        MEASURES[name] = Measure(name, title, statistic, half, formula)
        return MEASURES[name]

    return register


@measure("CE", "cross-entropy", statistic="log_odds", half=LOG_2)
def CE(log_odds: Any, xp: Any) -> Any:
    """-log p of the given label."""
    return (log_odds + xp.abs(log_odds)) / 2 + xp.log1p(xp.exp(-xp.abs(log_odds)))


@measure("JS", "Jensen-Shannon divergence", statistic="log_odds", half=0.75 * LOG_2 - 0.75 * float(np.log(1.5)))
def JS(log_odds: Any, xp: Any) -> Any:
    """Divergence in nats between the predicted distribution and the one-hot given label; at most log 2."""
    rare = xp.exp(-xp.abs(log_odds))
    smaller, larger = rare / (1 + rare), 1 / (1 + rare)
    p = xp.where(log_odds > 0, smaller, larger)
    q = xp.where(log_odds > 0, larger, smaller)  # 1 - p without cancellation
    return (q * LOG_2 - p * CE.of(log_odds) - (1 + p) * xp.log1p(-q / 2)) / 2


@measure("LM", "logit margin", statistic="margin", half=0.0)
def LM(margin: Any, xp: Any) -> Any:
    """Largest other logit minus the given label's: positive when the model prefers another class."""
    return margin


@measure("CPD", "class prediction disagreement", statistic="margin", half=0.0)
def CPD(margin: Any, xp: Any) -> Any:
    """1 where another class is strictly preferred, else 0: a draw agrees, whatever the order of the classes."""
    return (margin > 0) * xp.ones_like(margin)


def find_measure(name: str) -> Measure:
    """The measure of that name, whatever its case."""
    for known in MEASURES.values():
        if known.name.lower() == name.lower():
            return known
    raise InputError(f"unknown measure {name!r}; there are {', '.join(MEASURES)}")


def _array_statistic(logits: Any, labels: Any, statistic: Statistic) -> Any:
    checked = check_logits(np.asarray(logits)[None] if np.ndim(logits) == 1 else logits)
    lead = np.shape(logits)[:-1]
    given = np.asarray(labels)
    flat_labels = check_labels(np.broadcast_to(given, lead).ravel(), checked.shape[-1])
    flat = checked.reshape(-1, checked.shape[-1])
    broken = unfinite_row(flat)
    if broken is not None:
        raise InputError(f"logits of sample {broken} are not finite")
    result = row_statistic(flat, flat_labels, statistic).reshape(lead)
    return result if lead else np.float64(result)


def row_statistic(logits: NDArray[Any], labels: NDArray[np.int64], statistic: Statistic) -> NDArray[np.float64]:
    """Log odds or margin (n,) of finite logits (n, K) and labels (n,)."""
    from errata.core import _measure_kernels as kernels

    result = np.empty(len(logits))
    kernel = kernels.log_odds_against if statistic == "log_odds" else kernels.margin
    kernel(for_kernels(logits), labels, result)
    return result


def unfinite_row(logits: NDArray[Any]) -> int | None:
    """The first row of logits (n, K) with a NaN or an infinity."""
    from errata.core._measure_kernels import finite_rows

    finite = np.empty(len(logits), dtype=np.bool_)
    return int(np.flatnonzero(~finite)[0]) if finite_rows(for_kernels(logits), finite) else None


def for_kernels(logits: NDArray[Any]) -> NDArray[Any]:
    """Logits (n, K) in a layout and type the kernels are compiled for, copied only if they are not."""
    dtype = logits.dtype if logits.dtype in (np.float32, np.float64) else None
    if dtype is None:
        dtype = np.dtype(np.float32 if logits.dtype == np.float16 else np.float64)
    return np.ascontiguousarray(logits, dtype=dtype)


def _tensor_statistic(logits: Any, labels: Any, statistic: Statistic) -> Any:
    torch = sys.modules["torch"]
    if logits.shape[-1] < 2:
        raise InputError("logits have one column only; label errors need at least two classes")
    values = logits.detach()
    values = values.to(torch.float32 if values.device.type == "mps" else torch.float64)  # mps has no float64
    given = torch.as_tensor(labels, device=values.device).to(torch.int64).broadcast_to(values.shape[:-1])
    if given.numel() and not 0 <= int(given.min()) <= int(given.max()) < values.shape[-1]:
        raise InputError(f"labels must be class numbers 0..{values.shape[-1] - 1}")
    finite = torch.isfinite(values).all(dim=-1).reshape(-1)
    if not bool(finite.all()):
        raise InputError(f"logits of sample {int((~finite).nonzero()[0])} are not finite")
    own = values.gather(-1, given.unsqueeze(-1))
    others = values.scatter(-1, given.unsqueeze(-1), -torch.inf)
    against = others.logsumexp(dim=-1) if statistic == "log_odds" else others.amax(dim=-1)
    return against - own.squeeze(-1)
