"""Which method a run is ranked by where none is named, and over which epochs."""

from collections.abc import Sequence

import numpy as np

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
from errata.core.neighbourhood import Points
from errata.core.replay import Progress, Question, ask
from errata.core.windows import Window
from errata.dynamics.store import Dynamics

ASKED_IN_TURN: tuple[Points, ...] = ("inputs", "features")


def find_method(dynamics: Dynamics, method: str | Method | None) -> Method:
    """The method, checked against how the dynamics were gathered; None is the default one.

    Features that have memorised the labels are not asked. Where nobody is, late epochs of a model that ends by turning
    against its convictions do not count.
    """
    if method is not None:
        return same_gathering(parse(method), dynamics.gathering)
    among = DEFAULT_AMONG if dynamics.reducers is None else STREAMED_AMONG
    points = next((points for points in ASKED_IN_TURN if points in dynamics.space.points), None)
    with_neighbours = None if points is None else _gathered_alike(among[points], dynamics)
    if with_neighbours is not None and not _can_answer(dynamics, with_neighbours):
        with_neighbours = None
    if with_neighbours is not None and points == "inputs":
        return with_neighbours
    told = _of_sums if dynamics.reducers is not None else _of_logits
    return told(dynamics, with_neighbours) or _gathered_alike(DEFAULT_METHOD, dynamics)


def epochs_that_count(
    dynamics: Dynamics, method: Method, window: Window | None = None, rows: State | None = None
) -> int:
    """How many epochs of the window the method uses, from its first on; all, except for EarlyProb.

    rows: what `ask_run` returned for the method, if it was called before.
    """
    seen = dynamics.window(window)
    if not isinstance(method, Composed) or not isinstance(method.aggregation, EarlyProb):
        return seen.epochs
    if rows is None:
        (rows,) = ask_run(dynamics, [method], window)
    return early.ends(seen.epochs)[early.best_share(rows["log_probabilities"], seen.labels, seen.space)]


def ask_run(
    dynamics: Dynamics, questions: Sequence[Question], window: Window | None, progress: Progress | None = None
) -> list[State]:
    """What each question makes of the epochs of a window, from logits or from running sums."""
    seen = dynamics.window(window)
    if seen.reducers is not None:
        return seen.reducers.ask(questions, seen.labels, seen.swa_logits, progress)
    return ask(seen.replayable(), questions, progress)


def _gathered_alike(name: str, dynamics: Dynamics) -> Method:
    return with_gathering(parse(name), dynamics.gathering or "in-sample")


def _can_answer(dynamics: Dynamics, method: Method) -> bool:
    return dynamics.reducers is None or dynamics.reducers.answers(method)


def _of_logits(dynamics: Dynamics, with_features: Method | None) -> Method | None:
    """The default as the end of a run tells; None where it tells nothing. Held-out labels are not memorised."""
    held_out = dynamics.gathering == "out-of-sample"
    if with_features is None and held_out:
        return None
    (told,) = ask_run(dynamics, [Composed(LastQuarter(), LM)], None)
    # of all but the last quarter, and of the whole run; of one epoch there is no quarter, and both are the same
    log_sums = told["log_probabilities"]
    mean, added = early.predicted(log_sums)
    before, late, labels = log_sums[:, 0], added[-1], dynamics.labels
    if with_features is not None and not features_have_memorised(np.exp(before), mean[-1], late, labels):
        return with_features
    return parse(DEFAULT_MEMORISED) if not held_out and early.turned(before, late, labels) > early.TURNED else None


def _of_sums(dynamics: Dynamics, with_features: Method | None) -> Method | None:
    """The same as far as running sums tell."""
    mean, ramp = parse(DEFAULT_METHOD), parse(STREAMED_AMONG["features"])
    if with_features is None or not _can_answer(dynamics, mean):
        return with_features
    of_mean, of_ramp = (told["log_probabilities"] for told in ask_run(dynamics, [mean, ramp], None))
    amid_first_half, heading = (on_the_line(of_mean, of_ramp, place) for place in (1 / 4, 1.0))
    predicted, late = of_mean.argmax(axis=1), heading.argmax(axis=1)
    memorised = features_have_memorised(amid_first_half, predicted, late, dynamics.labels, LATE_BY_SUMS)
    return None if memorised else with_features
