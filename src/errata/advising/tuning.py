"""Choosing a method and its window on audited labels, and what that brings beyond what chance would.

The best of many windows on the audited labels looks better than it is, since it was chosen on them. So the gain is
cross-validated: a window is chosen on four fifths of the audit and judged on the fifth that had no part in the choice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from errata.advising.audits import Audit
from errata.advising.comparing import records_everybody, tunable
from errata.core.checks import Floats, check_seed
from errata.core.methods import Method, parse, with_gathering
from errata.core.replay import Epochs
from errata.core.windows import Window, grid_windows, window_scores
from errata.dynamics.default import find_method
from errata.dynamics.store import Dynamics
from errata.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

BESIDE_THE_DEFAULT = ("MeanProb-LM", "Mean-CE", "Last-LM")
GRID_POINTS = 10
"""Epochs at which windows start and end: 55 windows. A small audit cannot tell more of them apart."""

FOLDS, DIVISIONS, RESAMPLES = 5, 20, 200
CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class Tuned:
    """What an audit says of methods and windows; FNR is the share of the audited errors that a method misses.

    method, window: the best on the audit. default_fnr: of the default over the whole run; best_fnr: of the best, which
    flatters it. gain: by how much the choice lowers FNR, cross-validated, with a 95 % interval from `low` to `high`.
    better: whether to go by the choice: it is not the default, and the gain is above 0.
    table: a row a method: its FNR over the whole run (whole_fnr), its best window (start, end) and the FNR of that.
    """

    method: str
    window: Window
    default_fnr: float
    best_fnr: float
    gain: float
    low: float
    high: float
    better: bool
    table: "pd.DataFrame"


@dataclass(frozen=True, eq=False)
class Option:
    """A method over a window, and its scores of the audited samples (n,)."""

    method: Method
    window: Window
    scores: Floats


def tune(dynamics: Dynamics, audit: Audit, methods: Sequence[Method] | None = None, *, seed: int = 0) -> Tuned:
    """Choose among windows of the methods, by default of four, on the audited labels."""
    return choose(options_for(dynamics, audit.rows, methods), audit.wrong, seed=seed)


def choose(options: Sequence[Option], wrong: NDArray[np.bool_], *, seed: int = 0) -> Tuned:
    """The option with the smallest FNR on samples of which some are wrong (n,); of equals the first.

    The first is the default over the whole run.
    """
    rankings = Rankings(np.stack([option.scores for option in options]), wrong)
    fnr = rankings.missed(np.ones(len(wrong))) / wrong.sum()
    best = _smallest(fnr)
    gain, low, high = _gain(rankings, np.random.default_rng(check_seed(seed)))
    return Tuned(
        method=options[best].method.name,
        window=options[best].window,
        default_fnr=float(fnr[0]),
        best_fnr=float(fnr[best]),
        gain=gain,
        low=low,
        high=high,
        better=best != 0 and gain > 0,
        table=_table(options, fnr),
    )


def options_for(dynamics: Dynamics, rows: NDArray[np.int64], methods: Sequence[Method] | None = None) -> list[Option]:
    """The default over the whole run first, then all windows of the methods, wide ones first; scores are of `rows`."""
    chosen = _four(dynamics) if methods is None else [method for method in methods if tunable(method)]
    if not chosen:
        raise InputError("none of these methods has a window to choose: name one such as MeanProb-LM or Mean-CE")
    whole = (0, dynamics.epochs - 1)
    windows = [window for window in grid_windows(dynamics.epochs, GRID_POINTS) if records_everybody(dynamics, window)]
    default = find_method(dynamics, None)
    wanted = {default: [whole]} | {method: _own_windows(method, windows) for method in chosen}
    options = [
        Option(method, window, scores)
        for method, its in wanted.items()
        for window, scores in zip(its, _scores(dynamics, rows, method, its), strict=True)
    ]
    return sorted(
        options, key=lambda one: (one.method != default or one.window != whole, one.window[0] - one.window[1])
    )


class Rankings:
    """Scores (O, n) of options on audited samples of which some are `wrong` (n,), put in order once.

    Samples may count more or less than once: so a resample or a fold is a vector of weights.
    """

    def __init__(self, scores: Floats, wrong: NDArray[np.bool_]) -> None:
        self.wrong = wrong
        self._order = np.argsort(-scores, axis=1, kind="stable")
        ranked = np.take_along_axis(scores, self._order, axis=1)
        starts = np.ones(ranked.shape, dtype=np.bool_)
        starts[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
        places = np.broadcast_to(np.arange(ranked.shape[1]), ranked.shape)
        self._first = np.maximum.accumulate(np.where(starts, places, 0), axis=1)
        ends = np.roll(starts, -1, axis=1)
        ends[:, -1] = True
        last = np.where(ends, places, ranked.shape[1])
        self._last = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]

    def missed(self, weights: Floats, of: slice | list[int] = slice(None)) -> Floats:
        """The weight of wrong labels not found when as much is inspected as is wrong, by option; ties by expectation.

        weights (n,) are of the samples; `of` limits the options.
        """
        order, first, last = self._order[of], self._first[of], self._last[of]
        wrong = weights * self.wrong
        budget = wrong.sum()
        spent = _running(weights[order])
        found = _running(wrong[order])
        place = np.argmax(spent[:, 1:] >= budget, axis=1)[:, None]
        # Equal scores come in no order: what is left of the budget takes of each an equal part.
        before, after = np.take_along_axis(first, place, 1), np.take_along_axis(last, place, 1) + 1
        spent_before, spent_after = np.take_along_axis(spent, before, 1), np.take_along_axis(spent, after, 1)
        found_before, found_after = np.take_along_axis(found, before, 1), np.take_along_axis(found, after, 1)
        part = (budget - spent_before) / np.where(spent_after > spent_before, spent_after - spent_before, 1)
        return np.asarray(budget - found_before - part * (found_after - found_before))[:, 0]


def _running(values: Floats) -> Floats:
    """Running sums (O, n + 1) that start at 0."""
    return np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)


def cross_validated_gain(rankings: Rankings, weights: Floats, folds: NDArray[np.int64]) -> float:
    """By how much FNR falls when the option is chosen without the fold that it is judged on; folds (n,)."""
    saved = errors = 0.0
    for fold in range(FOLDS):
        inside = weights * (folds == fold)
        best = _smallest(rankings.missed(weights - inside))
        default, chosen = rankings.missed(inside, [0, best])
        saved += default - chosen
        errors += float(inside @ rankings.wrong)
    return saved / errors


def divide(wrong: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """Folds (n,) at random, each with its part of the wrong and of the right labels."""
    folds = np.empty(len(wrong), dtype=np.int64)
    for kind in (wrong, ~wrong):
        folds[kind] = rng.permutation(np.arange(kind.sum()) % FOLDS)
    return folds


def _gain(rankings: Rankings, rng: np.random.Generator) -> tuple[float, float, float]:
    """The mean gain over divisions into folds, and an interval from resamples of the audit, each divided anew."""
    wrong = rankings.wrong
    once = np.ones(len(wrong))
    gain = np.mean([cross_validated_gain(rankings, once, divide(wrong, rng)) for _ in range(DIVISIONS)])
    resamples = [cross_validated_gain(rankings, _resample(wrong, rng), divide(wrong, rng)) for _ in range(RESAMPLES)]
    low, high = np.quantile(resamples, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(gain), float(min(low, gain)), float(max(high, gain))


def _resample(wrong: NDArray[np.bool_], rng: np.random.Generator) -> Floats:
    """How often each sample (n,) is in a resample with as many wrong and right labels as the audit."""
    weights = np.empty(len(wrong))
    for kind in (wrong, ~wrong):
        weights[kind] = rng.multinomial(kind.sum(), np.full(kind.sum(), 1 / kind.sum()))
    return weights


def _smallest(values: Floats) -> int:
    """The first of the smallest, whatever was lost in adding up."""
    return int(np.argmin(values.round(9)))


def _four(dynamics: Dynamics) -> list[Method]:
    gathering = dynamics.gathering or "in-sample"
    others = [with_gathering(parse(name), gathering) for name in BESIDE_THE_DEFAULT]
    return [find_method(dynamics, None), *others]


def _scores(dynamics: Dynamics, rows: NDArray[np.int64], method: Method, windows: Sequence[Window]) -> Iterator[Floats]:
    """Scores of the samples in `rows`, (n,), window by window."""
    epochs = dynamics.replayable()
    if not method.looks_around:
        few = Epochs(epochs.logits[:, rows], epochs.labels[rows], allow_missing=epochs.allow_missing)
        yield from window_scores(few, method, windows)
    else:  # anybody may have a say
        yield from (window_scores(epochs, method, [window])[0][rows] for window in windows)


def _own_windows(method: Method, windows: Sequence[Window]) -> list[Window]:
    """Where only the end of a window is read, every single epoch of the grid."""
    one_epoch = method.fold.aggregation.reads == "last epoch"
    return [window for window in windows if not one_epoch or window[0] == window[1]]


def _table(options: Sequence[Option], fnr: Floats) -> "pd.DataFrame":
    import pandas as pd

    numbers = sorted(range(len(options)), key=lambda number: options[number].method.name)
    rows = []
    for name, group in groupby(numbers, key=lambda number: options[number].method.name):
        own = list(group)
        whole = max(own, key=lambda number: (options[number].window[1], -options[number].window[0]))
        best = own[_smallest(fnr[own])]
        start, end = options[best].window
        rows.append({"method": name, "whole_fnr": fnr[whole], "start": start, "end": end, "best_fnr": fnr[best]})
    return pd.DataFrame(rows).sort_values("best_fnr", kind="stable", ignore_index=True)
