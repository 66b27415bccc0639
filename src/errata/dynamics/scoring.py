"""Scores and flags of any method, from dynamics or arrays."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Floats
from errata.core.method_parts import MethodResult
from errata.core.methods import Method, paper_methods
from errata.core.metrics import budget_count
from errata.core.replay import Progress
from errata.core.windows import Window
from errata.dynamics.run_methods import find_method, run_arrays
from errata.dynamics.store import Dynamics
from errata.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def score(
    source: Any,
    *args: Any,
    window: Window | None = None,
    budget: int | float | None = None,
    classes: Sequence[Any] | None = None,
) -> Floats:
    """Scores (N,) of one method, higher = more suspicious.

    score(dynamics, "MeanProb-LM") or, from arrays, score(logits, labels, "Mean-CE") with logits (E, N, K) or (N, K).
    Without a method it is the default one. `window` limits the epochs to (start, end), both included; `budget` is how
    many samples will be inspected, which only CTRL asks for.
    """
    return _verdict(source, args, window, budget, classes)[1].scores


def flags(
    source: Any, *args: Any, window: Window | None = None, classes: Sequence[Any] | None = None
) -> NDArray[np.bool_]:
    """Flags (N,) at the operating point that confident learning and CTRL choose by themselves; called like score()."""
    method, verdict = _verdict(source, args, window, None, classes)
    if verdict.flags is None:
        raise InputError(f"{method.name} ranks samples and has no operating point of its own; inspect its top scores")
    return verdict.flags


def score_many(
    dynamics: Dynamics,
    methods: Iterable[str | Method] | None = None,
    *,
    window: Window | None = None,
    budget: int | float | None = None,
    progress: Progress | None = None,
) -> "pd.DataFrame":
    """Scores of several methods in one pass over the logits: a row a sample (index: id), a column a method.

    Without `methods`: all of the paper's that these dynamics can answer.
    """
    import pandas as pd

    columns = {
        name: verdict.scores
        for name, verdict in verdicts(dynamics, methods, window=window, budget=budget, progress=progress).items()
    }
    return pd.DataFrame(columns, index=pd.Index(dynamics.ids, name="id", tupleize_cols=False))


def verdicts(
    dynamics: Dynamics,
    methods: Iterable[str | Method] | None = None,
    *,
    window: Window | None = None,
    budget: int | float | None = None,
    progress: Progress | None = None,
) -> dict[str, MethodResult]:
    """Scores of several methods by name, in one pass over the logits, and flags of those that decide by themselves."""
    if isinstance(methods, str):
        raise InputError(f"methods must be a list of names, not {methods!r}")
    require_dynamics(dynamics, "score_many")
    count = inspected_count(budget, dynamics)
    chosen = applicable(dynamics, window) if methods is None else [find_method(dynamics, name) for name in methods]
    return {
        method.name: method.result(arrays, dynamics.labels, count, dynamics.spaces)
        for method, arrays in zip(chosen, run_arrays(dynamics, chosen, window, progress), strict=True)
    }


def applicable(dynamics: Dynamics, window: Window | None = None) -> list[Method]:
    """The paper's methods that these dynamics can answer."""
    seen = dynamics.window(window)
    return [
        method
        for method in paper_methods()
        if method.gathering == (dynamics.gathering or "in-sample")
        and (method.reduction.aggregation.reads != "no epoch" or seen.swa_logits is not None)
        and (seen.reducers is None or seen.reducers.supports(method))
    ]


def inspected_count(budget: int | float | None, dynamics: Dynamics) -> int | None:
    """The number of samples that will be inspected; None if no budget is set."""
    return None if budget is None else budget_count(budget, dynamics.samples)


def require_dynamics(value: object, function: str) -> None:
    """Refuse anything but Dynamics as the argument of a function."""
    if not isinstance(value, Dynamics):
        raise InputError(
            f"{function}() takes Dynamics, not {type(value).__name__}: create them with "
            "Dynamics.from_arrays(logits, labels) or Dynamics.open(folder)"
        )


def _verdict(
    source: Any, args: tuple[Any, ...], window: Window | None, budget: int | float | None, classes: Sequence[Any] | None
) -> tuple[Method, MethodResult]:
    if isinstance(source, Dynamics):
        dynamics, rest = source, args
    elif isinstance(source, str | Path):
        raise InputError(f"{str(source)!r} is a path: open it with Dynamics.open() first")
    elif args and isinstance(args[0], str):
        raise InputError("scores from arrays need logits and labels: score(logits, labels, method)")
    elif args:
        dynamics, rest = Dynamics.from_arrays(source, args[0], classes=classes), args[1:]
    else:
        raise InputError("scores from arrays need logits and labels: score(logits, labels, method)")
    if len(rest) > 1:
        raise InputError(f"score() takes one method, not {len(rest)}: {rest!r}")
    method = find_method(dynamics, rest[0] if rest else None)
    count = inspected_count(budget, dynamics)
    (arrays,) = run_arrays(dynamics, [method], window)
    return method, method.result(arrays, dynamics.labels, count, dynamics.spaces)
