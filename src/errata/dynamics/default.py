"""The method that ranks a run: the one that is named, or the default (errata.core.default)."""

from collections.abc import Sequence
from functools import partial

from errata.core import early, memorising
from errata.core.aggregations import EarlyProb, LastQuarter
from errata.core.default import OTHERWISE, WITH_FEATURES, choose_default, parse_or_default
from errata.core.folds import State
from errata.core.measures import LM
from errata.core.memorising import Memorisation
from errata.core.methods import Composed, Method, parse, same_gathering
from errata.core.replay import Progress, Question, ask
from errata.core.windows import Window
from errata.dynamics.store import Dynamics


def find_method(dynamics: Dynamics, method: str | Method | None) -> Method:
    """The method of that name, checked against how the dynamics were gathered; None and "default" are the default."""
    named = parse_or_default(method)
    if named is not None:
        return same_gathering(named, dynamics.gathering)
    reducers = dynamics.reducers
    return choose_default(
        dynamics.space.points,
        dynamics.gathering or "in-sample",
        logits_stored=reducers is None,
        can_score=lambda method: reducers is None or reducers.answers(method),
        memorisation=partial(_memorisation, dynamics),
    )


def _memorisation(dynamics: Dynamics) -> Memorisation:
    """Which parts of a run have memorised labels."""
    if dynamics.reducers is None:
        (told,) = ask_run(dynamics, [Composed(LastQuarter(), LM)], None)
        return memorising.from_logits(told["log_probabilities"], dynamics.labels)
    mean, ramp = parse(OTHERWISE), parse(WITH_FEATURES)
    if not dynamics.reducers.answers(mean):
        return Memorisation(features=False, late_epochs=False)
    log_mean, log_ramp = (told["log_probabilities"] for told in ask_run(dynamics, [mean, ramp], None))
    return memorising.from_sums(log_mean, log_ramp, dynamics.labels)


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
    return early.window_ends(seen.epochs)[early.choose_window(rows["log_probabilities"], seen.labels, seen.space)]


def ask_run(
    dynamics: Dynamics, questions: Sequence[Question], window: Window | None, progress: Progress | None = None
) -> list[State]:
    """What each question makes of the epochs of a window, from logits or from running sums."""
    seen = dynamics.window(window)
    if seen.reducers is not None:
        return seen.reducers.ask(questions, seen.labels, seen.swa_logits, progress)
    return ask(seen.replayable(), questions, progress)
