"""Which method a run is ranked by where none is named, and over which epochs."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from errata.core import early
from errata.core.aggregations import EarlyProb, LastQuarter
from errata.core.folds import State
from errata.core.measures import LM
from errata.core.memorising import LATE_BY_SUMS, features_have_memorised, on_the_line
from errata.core.methods import (
    DEFAULT_AMONG,
    DEFAULT_MEMORISED,
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


def find_method(dynamics: Dynamics, method: str | Method | None) -> Method:
    """The method, checked against how the dynamics were gathered; None is the default one.

    Features that have memorised the labels are not asked. Where nobody is, late epochs of a model that ends by turning
    against its convictions do not count.
    """
    if method is not None:
        return same_gathering(parse(method), dynamics.gathering)
    among = DEFAULT_AMONG if dynamics.reducers is None else STREAMED_AMONG
    for points in ("inputs", "features"):
        if points in dynamics.space.points:
            default = _gathered_alike(among[points], dynamics)
            asked = _can_answer(dynamics, default) and (points == "inputs" or not _features_have_memorised(dynamics))
            return default if asked else _alone(dynamics)
    return _alone(dynamics)


def epochs_that_count(dynamics: Dynamics, method: Method, window: Window | None = None) -> int:
    """How many epochs of the window the method goes by, from its first on: all, unless it looks for the best share."""
    seen = dynamics.window(window)
    if not isinstance(method, Composed) or not isinstance(method.aggregation, EarlyProb):
        return seen.epochs
    (told,) = ask_run(dynamics, [method], window)
    return early.ends(seen.epochs)[early.best_share(told["log_probabilities"], seen.labels, seen.space)]


def ask_run(
    dynamics: Dynamics, questions: Sequence[Question], window: Window | None, progress: Progress | None = None
) -> list[State]:
    """What each question makes of the epochs of a window, from logits or from running sums."""
    seen = dynamics.window(window)
    if seen.reducers is not None:
        return seen.reducers.ask(questions, seen.labels, seen.swa_logits, progress)
    return ask(seen.replayable(), questions, progress)


def _alone(dynamics: Dynamics) -> Method:
    """The default where no neighbours are asked. Labels that were held out are not memorised."""
    if dynamics.reducers is None and dynamics.gathering != "out-of-sample":
        sums = _sums(dynamics)
        _, added = early.predicted(sums)
        if early.turned(sums[:, 0], added[-1], dynamics.labels) > early.TURNED:
            return parse(DEFAULT_MEMORISED)
    return _gathered_alike(DEFAULT_METHOD, dynamics)


def _gathered_alike(name: str, dynamics: Dynamics) -> Method:
    return with_gathering(parse(name), dynamics.gathering or "in-sample")


def _can_answer(dynamics: Dynamics, method: Method) -> bool:
    return dynamics.reducers is None or dynamics.reducers.answers(method)


def _features_have_memorised(dynamics: Dynamics) -> bool:
    labels = dynamics.labels
    if dynamics.reducers is None:
        sums = _sums(dynamics)
        of_shares, of_parts = early.predicted(sums)
        return features_have_memorised(np.exp(sums[:, 0]), of_shares[-1], of_parts[-1], labels)
    mean, ramp = parse(DEFAULT_METHOD), parse(STREAMED_AMONG["features"])
    if not _can_answer(dynamics, mean):
        return False  # running sums that cannot tell
    of_mean, of_ramp = (told["log_probabilities"] for told in ask_run(dynamics, [mean, ramp], None))
    amid_first_half, heading = (on_the_line(of_mean, of_ramp, place) for place in (1 / 4, 1.0))
    predicted, late = of_mean.argmax(axis=1), heading.argmax(axis=1)
    return features_have_memorised(amid_first_half, predicted, late, labels, LATE_BY_SUMS)


def _sums(dynamics: Dynamics) -> NDArray[np.float32]:
    """Logarithms of the probabilities (N, 2, K) summed over all but the last quarter of a run, and over all of it.

    Of a run of one epoch there is no quarter: (N, 1, K).
    """
    (told,) = ask_run(dynamics, [Composed(LastQuarter(), LM)], None)
    return told["log_probabilities"]
