"""The method that ranks a run: the one that is named, or the default (errata.core.default)."""

from collections.abc import Sequence
from functools import partial

from errata.core import early, memorising
from errata.core.aggregations import EarlyProb, LastQuarter
from errata.core.composed_method import ComposedMethod
from errata.core.default import OTHERWISE, WITH_FEATURES, choose_default, parse_or_default
from errata.core.measures import LM
from errata.core.memorising import Memorisation
from errata.core.method_parts import SampleArrays
from errata.core.methods import Method, parse, same_gathering
from errata.core.replay import Progress, SampleStatistic, replay_arrays
from errata.core.windows import Window
from errata.dynamics.store import Dynamics


def find_method(dynamics: Dynamics, method: str | Method | None) -> Method:
    """The method of that name, checked against how the dynamics were gathered; None and "default" are the default."""
    requested = parse_or_default(method)
    if requested is not None:
        return same_gathering(requested, dynamics.gathering)
    reducers = dynamics.reducers
    return choose_default(
        dynamics.spaces.points,
        dynamics.gathering or "in-sample",
        logits_stored=reducers is None,
        can_score=lambda method: reducers is None or reducers.supports(method),
        memorisation=partial(_memorisation, dynamics),
    )


def _memorisation(dynamics: Dynamics) -> Memorisation:
    """Which parts of a run have memorised labels."""
    if dynamics.reducers is None:
        (arrays,) = run_arrays(dynamics, [ComposedMethod(LastQuarter(), LM)])
        return memorising.from_logits(arrays["log_probabilities"], dynamics.labels)
    mean, ramp = parse(OTHERWISE), parse(WITH_FEATURES)
    if not dynamics.reducers.supports(mean):
        return Memorisation(features=False, late_epochs=False)
    log_mean, log_ramp = (arrays["log_probabilities"] for arrays in run_arrays(dynamics, [mean, ramp]))
    return memorising.from_sums(log_mean, log_ramp, dynamics.labels)


def epochs_used(
    dynamics: Dynamics, method: Method, window: Window | None = None, arrays: SampleArrays | None = None
) -> int:
    """How many epochs of the window the method uses, from its first on; all, except for EarlyProb.

    arrays: what `run_arrays` returned for the method, if it was called before.
    """
    viewed = dynamics.window(window)
    if not isinstance(method, ComposedMethod) or not isinstance(method.aggregation, EarlyProb):
        return viewed.epochs
    if arrays is None:
        (arrays,) = run_arrays(dynamics, [method], window)
    return early.window_ends(viewed.epochs)[
        early.choose_window(arrays["log_probabilities"], viewed.labels, viewed.spaces)
    ]


def run_arrays(
    dynamics: Dynamics,
    statistics: Sequence[SampleStatistic],
    window: Window | None = None,
    progress: Progress | None = None,
) -> list[SampleArrays]:
    """The sample arrays of each statistic over the epochs of a window, from logits or from running sums."""
    viewed = dynamics.window(window)
    if viewed.reducers is not None:
        return viewed.reducers.arrays(statistics, viewed.labels, viewed.swa_logits, progress)
    return replay_arrays(viewed.replayable(), statistics, progress)
