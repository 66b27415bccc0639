"""Which method a run is ranked by, and over which epochs."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from errata.core import early
from errata.core.aggregations import EarlyProb
from errata.core.folds import State
from errata.core.memorising import features_have_memorised, last_quarter
from errata.core.methods import (
    DEFAULT_AMONG,
    DEFAULT_METHOD,
    STREAMED_AMONG,
    Composed,
    Method,
    parse,
    same_gathering,
    with_gathering,
)
from errata.core.replay import Progress, Question, ask
from errata.core.windows import Window
from errata.dynamics.store import Dynamics

AT_THE_END = "Unmixed-Last-LM"  # asked for its probabilities, which are those of the last epoch


def find_method(dynamics: Dynamics, method: str | Method | None) -> Method:
    """The method, checked against how the dynamics were gathered; None is the default one.

    Of features that have memorised the labels none are asked, and then early epochs count as much as late ones.
    """
    if method is not None:
        return same_gathering(parse(method), dynamics.gathering)
    among = DEFAULT_AMONG if dynamics.reducers is None else STREAMED_AMONG
    known = [among[points] for points in ("inputs", "features") if points in dynamics.space.points]
    for name in (*known[:1], DEFAULT_METHOD):
        default = with_gathering(parse(name), dynamics.gathering or "in-sample")
        if dynamics.reducers is not None and not dynamics.reducers.answers(default):
            continue
        if name != among["features"] or not _features_have_memorised(dynamics):
            break
    return default


def epochs_that_count(dynamics: Dynamics, method: Method, window: Window | None = None) -> int:
    """How many epochs of the window the method goes by, from its first on: all, unless it looks for the best share."""
    seen = dynamics.window(window)
    if not isinstance(method, Composed) or not isinstance(method.aggregation, EarlyProb):
        return seen.epochs
    (told,) = answers(dynamics, [method], window)
    return early.ends(seen.epochs)[early.best_share(told["log_probabilities"], seen.labels, seen.space)]


def answers(
    dynamics: Dynamics, questions: Sequence[Question], window: Window | None, progress: Progress | None = None
) -> list[State]:
    """What each question makes of the epochs of a window, from logits or from running sums."""
    seen = dynamics.window(window)
    if seen.reducers is not None:
        return seen.reducers.ask(questions, seen.labels, seen.swa_logits, progress)
    return ask(seen.replayable(), questions, progress)


def _features_have_memorised(dynamics: Dynamics) -> bool:
    mean, last = parse(DEFAULT_METHOD), parse(AT_THE_END)
    if dynamics.reducers is not None and not dynamics.reducers.answers(mean):
        return False  # running sums that cannot tell
    over_the_run = _predicted(dynamics, mean)
    if dynamics.reducers is None and not dynamics.allow_missing:
        late = _predicted(dynamics, mean, last_quarter(dynamics.epochs))
    elif dynamics.reducers is None or dynamics.reducers.answers(last):
        late = _predicted(dynamics, last)  # not every sample is known in the last quarter
    else:
        late = over_the_run
    return features_have_memorised(over_the_run, late, dynamics.labels, dynamics.space)


def _predicted(dynamics: Dynamics, method: Method, window: Window | None = None) -> NDArray[np.int64]:
    """The likeliest class (N,) by the probabilities that a method goes by."""
    (told,) = answers(dynamics, [method], window)
    return np.asarray(told["log_probabilities"].argmax(axis=1))
