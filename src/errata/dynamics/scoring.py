"""Scores and flags of any method, from dynamics or arrays."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.core import early, memorising
from errata.core.aggregations import EarlyProb, LastQuarter
from errata.core.checks import Floats
from errata.core.composed_method import ComposedMethod
from errata.core.default import (
    BEATS_HELD_OUT,
    DEFAULT,
    FROZEN_FEATURES,
    MEAN_OF_ALL_EPOCHS,
    WITH_FEATURES,
    choose_default,
    is_default,
    parse_or_default,
)
from errata.core.devices import Progress
from errata.core.measures import LM
from errata.core.memorising import Memorisation
from errata.core.method_parts import MethodResult, SampleArrays
from errata.core.methods import Method, paper_methods, parse
from errata.core.metrics import budget_count
from errata.core.windows import Window
from errata.dynamics.sharded import Mapper, ShardedDynamics, sharded_results
from errata.dynamics.shards import ShardInfo, read_shard
from errata.dynamics.store import Dynamics
from errata.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

OF_SUMS = (MEAN_OF_ALL_EPOCHS, WITH_FEATURES)
"""Methods whose running sums show whether the features have memorised labels."""


def score(
    source: Any,
    *args: Any,
    window: Window | None = None,
    budget: int | float | None = None,
    classes: Sequence[Any] | None = None,
) -> Floats:
    """Scores (N,) of one method; a higher score is more suspicious.

    score(dynamics, "MeanProb-LM"), or score(logits, labels, "Mean-CE") with logits (E, N, K) or (N, K). Without a
    method, the default is used. window: the epochs (start, end), both included. budget: the number of samples that will
    be inspected, used by CTRL only.

    >>> import errata
    >>> logits = [[[2.0, 0.0], [0.0, 3.0], [4.0, 0.0]]]  # 1 epoch, 3 samples, 2 classes
    >>> errata.score(logits, [0, 1, 1], "Mean-LM").tolist()  # the third label is wrong
    [-2.0, -3.0, 4.0]
    """
    return _one_result(source, args, window, budget, classes)[1].scores


def flags(
    source: Any, *args: Any, window: Window | None = None, classes: Sequence[Any] | None = None
) -> NDArray[np.bool_]:
    """Flags (N,) at the threshold that confident learning or CTRL chooses; called like score().

    >>> import errata
    >>> probabilities = [[[2.0, 0.0], [3.0, 0.0], [0.0, 3.0], [0.0, 2.0], [4.0, 0.0]]]
    >>> errata.flags(probabilities, [0, 0, 1, 1, 1], "CL-CC (IS)").tolist()
    [False, False, False, False, True]
    """
    name, result = _one_result(source, args, window, None, classes)
    if result.flags is None:
        raise InputError(f"{name} ranks samples and chooses no threshold; inspect the samples with the highest scores")
    return result.flags


def score_many(
    dynamics: Dynamics,
    methods: Iterable[str | Method] | None = None,
    *,
    window: Window | None = None,
    budget: int | float | None = None,
    progress: Progress | None = None,
) -> "pd.DataFrame":
    """Scores of several methods in one pass over the logits: one row per sample (index: id), one column per method.

    methods=None: all methods of the paper that these dynamics allow. The column of "default" is named "default".

    >>> import errata
    >>> dynamics = errata.Dynamics.from_arrays([[[2.0, 0.0], [0.0, 3.0], [4.0, 0.0]]], [0, 1, 1])
    >>> table = errata.score_many(dynamics, ["Last-LM", "Last-CPD"])
    >>> table["Last-CPD"].tolist()
    [0.0, 0.0, 1.0]
    """
    import pandas as pd

    results = method_results(dynamics, methods, window=window, budget=budget, progress=progress)
    index = pd.Index(dynamics.ids, name="id", tupleize_cols=False)
    return pd.DataFrame({name: result.scores for name, result in results.items()}, index=index)


def method_results(
    dynamics: Dynamics,
    methods: Iterable[str | Method] | None = None,
    *,
    window: Window | None = None,
    budget: int | float | None = None,
    progress: Progress | None = None,
) -> dict[str, MethodResult]:
    """Scores of several methods by column name, in one pass over the logits, with the flags of those that have them."""
    if isinstance(methods, str):
        raise InputError(f"methods must be a list of names, not {methods!r}")
    require_dynamics(dynamics, "score_many")
    count = None if budget is None else budget_count(budget, dynamics.samples)
    viewed = dynamics.window(window)
    columns = chosen_methods(viewed, methods)
    chosen = list({method.name: method for method in columns.values()}.values())
    if isinstance(viewed, ShardedDynamics):
        results = sharded_results(viewed, chosen, count)
    else:
        results = {
            method.name: method.result(arrays, dynamics.labels, count, dynamics.context)
            for method, arrays in zip(chosen, viewed.sample_arrays(chosen, progress), strict=True)
        }
    return {column: results[method.name] for column, method in columns.items()}


def chosen_methods(
    dynamics: Dynamics, methods: Iterable[str | Method] | None, mapper: Mapper = map
) -> dict[str, Method]:
    """The methods by the names of their columns, which are their full names, or "default".

    methods: None for all methods of the paper that these dynamics allow. mapper: how shards are read.
    """
    if methods is None:
        return {method.name: method for method in _paper_methods(dynamics)}
    found = [(name, find_method(dynamics, name, mapper)) for name in methods]
    return {DEFAULT if is_default(name) else method.name: method for name, method in found}


def _paper_methods(dynamics: Dynamics) -> list[Method]:
    """The paper's methods that these dynamics allow."""
    return [
        method
        for method in paper_methods()
        if method.gathering == (dynamics.gathering or "in-sample")
        and (method.reduction.aggregation.reads != "no epoch" or dynamics.knows("swa_logits"))
        and (dynamics.reducers is None or dynamics.reducers.supports(method))
    ]


def require_dynamics(value: object, function: str) -> None:
    """Refuse anything but Dynamics as the argument of a function."""
    if not isinstance(value, Dynamics):
        raise InputError(
            f"{function}() takes Dynamics, not {type(value).__name__}: create them with "
            "Dynamics.from_arrays(logits, labels) or Dynamics.open(folder)"
        )


def _one_result(
    source: Any, args: tuple[Any, ...], window: Window | None, budget: int | float | None, classes: Sequence[Any] | None
) -> tuple[str, MethodResult]:
    """The name and the result of the one method that score() or flags() was called with."""
    if isinstance(source, Dynamics):
        dynamics, rest = source, args
    elif isinstance(source, str | Path):
        raise InputError(f"{str(source)!r} is a path: open it with Dynamics.open() first")
    elif not args or isinstance(args[0], str):
        raise InputError("scores from arrays need logits and labels: score(logits, labels, method)")
    else:
        dynamics, rest = Dynamics.from_arrays(source, args[0], classes=classes), args[1:]
    if len(rest) > 1:
        raise InputError(f"score() takes one method, not {len(rest)}: {rest!r}")
    method = find_method(dynamics, rest[0] if rest else None)
    ((name, result),) = method_results(dynamics, [method], window=window, budget=budget).items()
    return name, result


def find_method(dynamics: Dynamics, method: str | Method | None, mapper: Mapper = map) -> Method:
    """The method of that name, checked against how the dynamics were gathered; None and "default" are the default.

    mapper: how shards are read, if the choice of the default depends on them.
    """
    requested = parse_or_default(method)
    if requested is not None:
        if dynamics.gathering not in (None, requested.gathering):
            raise InputError(
                f"{requested.name} is {requested.gathering}, but this run was recorded {dynamics.gathering}"
            )
        return requested
    reducers = dynamics.reducers
    return choose_default(
        dynamics.known_context,
        dynamics.gathering or "in-sample",
        logits_stored=reducers is None,
        can_score=lambda method: reducers is None or reducers.supports(method),
        memorisation=partial(_memorisation, dynamics, mapper),
        beats_held_out=dynamics.settings.get(BEATS_HELD_OUT) is True,
        frozen_features=dynamics.settings.get(FROZEN_FEATURES) is True,
    )


def _memorisation(dynamics: Dynamics, mapper: Mapper) -> Memorisation:
    """Which parts of a run have memorised labels."""
    if dynamics.reducers is not None and not all(dynamics.reducers.supports(parse(name)) for name in OF_SUMS):
        return Memorisation(features=False, late_epochs=False)
    limit = memorising.LATE_FIT_LIMIT if dynamics.reducers is None else memorising.LATE_FIT_LIMIT_OF_SUMS
    if isinstance(dynamics, ShardedDynamics):
        counts = np.sum(list(mapper(_counts_of_shard, dynamics.shards)), axis=0)
    else:
        counts = _memorisation_counts(dynamics)
    return memorising.from_counts(counts, limit)


def _counts_of_shard(shard: ShardInfo) -> NDArray[np.int64]:
    return _memorisation_counts(read_shard(shard))


def _memorisation_counts(dynamics: Dynamics) -> NDArray[np.int64]:
    if dynamics.reducers is None:
        (arrays,) = dynamics.sample_arrays([ComposedMethod(LastQuarter(), LM)])
        return memorising.counts_of_logits(arrays["log_probabilities"], dynamics.labels)
    mean, ramp = (arrays["log_probabilities"] for arrays in dynamics.sample_arrays([parse(name) for name in OF_SUMS]))
    return memorising.counts_of_sums(mean, ramp, dynamics.labels)


def epochs_used(dynamics: Dynamics, method: Method, arrays: SampleArrays | None = None) -> int:
    """How many epochs the method uses, from the first on; all, except for EarlyProb.

    arrays: the sample arrays of the method, if they are computed already.
    """
    if not isinstance(method, ComposedMethod) or not isinstance(method.aggregation, EarlyProb):
        return dynamics.epochs
    if arrays is None:
        (arrays,) = dynamics.sample_arrays([method])
    chosen = early.choose_window(arrays["log_probabilities"], dynamics.labels, dynamics.context)
    return early.window_ends(dynamics.epochs)[chosen]
