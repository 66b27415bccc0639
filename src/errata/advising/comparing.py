"""What the methods make of one run, side by side; nobody knows the truth."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from errata.core.aggregations import CTRL
from errata.core.checks import Floats
from errata.core.methods import Composed, Method
from errata.core.windows import Window
from errata.dynamics.default import find_method
from errata.dynamics.scoring import applicable, verdicts
from errata.dynamics.store import Dynamics

if TYPE_CHECKING:
    import pandas as pd


def methods_compared(dynamics: Dynamics, named: Iterable[str | Method] | None) -> list[Method]:
    """The default first, then the named methods, or all others that these dynamics can answer.

    CTRL has to be named: its clusterings take minutes where all others together take a second.
    """
    default = find_method(dynamics, None)
    others = _quick(dynamics) if named is None else [find_method(dynamics, name) for name in named]
    return list(dict.fromkeys([default, *others]))


def compare(dynamics: Dynamics, shown: Sequence[Method], count: int) -> "pd.DataFrame":
    """A row a method, the default first, then by agreement: method, agreement, stability.

    agreement: of its first `count` samples, the share that more than half of the methods have among theirs; all that
    the dynamics can answer are asked, whichever are `shown`. stability: the share that the first and the second half of
    the epochs have in common, missing where a method cannot be cut in two.
    """
    import pandas as pd

    asked = list(dict.fromkeys([*shown, *_quick(dynamics)]))
    chosen = {name: first(verdict.scores, count) for name, verdict in verdicts(dynamics, asked, budget=count).items()}
    majority = sum(chosen.values()) > len(chosen) / 2
    stability = _stability(dynamics, shown, count)
    table = pd.DataFrame(
        {
            "method": method.name,
            "agreement": float(chosen[method.name] @ majority) / count,
            "stability": stability.get(method.name),
        }
        for method in shown
    ).astype({"stability": "Float64"})
    others = table.iloc[1:].sort_values("agreement", ascending=False, kind="stable")
    return pd.concat([table.iloc[:1], others], ignore_index=True)


def first(scores: Floats, count: int) -> Floats:
    """How far each sample, scores (N,), is among the `count` highest: 1, 0, or its chance where equal scores tie."""
    last = len(scores) - count
    threshold = np.partition(scores, last)[last]
    above, tied = scores > threshold, scores == threshold
    return np.asarray(above + tied * ((count - above.sum()) / tied.sum()))


def _quick(dynamics: Dynamics) -> list[Method]:
    return [method for method in applicable(dynamics) if not isinstance(method.fold.aggregation, CTRL)]


def _stability(dynamics: Dynamics, methods: Sequence[Method], count: int) -> dict[str, float]:
    middle, end = dynamics.epochs // 2, dynamics.epochs - 1
    halves: list[Window] = [(0, middle - 1), (middle, end)]
    if dynamics.logits is None or not middle or not all(records_everybody(dynamics, half) for half in halves):
        return {}
    cut = [method for method in methods if reads_epochs(method)]
    early, late = (verdicts(dynamics, cut, window=half, budget=count) for half in halves)
    return {
        name: float(np.minimum(first(early[name].scores, count), first(late[name].scores, count)).sum()) / count
        for name in early
    }


def reads_epochs(method: Method) -> bool:
    """Whether a window changes what the method sees; a weight average is of the whole run only."""
    return method.fold.aggregation.reads != "no epoch"


def tunable(method: Method) -> bool:
    """Whether its window may be chosen: it scores, quickly, whatever the window."""
    return isinstance(method, Composed) and reads_epochs(method) and not isinstance(method.aggregation, CTRL)


def records_everybody(dynamics: Dynamics, window: Window) -> bool:
    """Whether every sample was recorded at one epoch of the window at least."""
    logits = dynamics.logits
    if logits is None or not dynamics.allow_missing:
        return True
    seen = np.zeros(dynamics.samples, dtype=np.bool_)
    for epoch in range(window[0], window[1] + 1):
        seen |= ~np.isnan(logits[epoch]).all(axis=1)
    return bool(seen.all())
