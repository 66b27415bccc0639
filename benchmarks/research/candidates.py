"""Detectors that might beat MeanProb-LM with what one run leaves behind: each a function from a Run to scores (N,)."""

from collections.abc import Callable
from functools import partial

import numpy as np

import evidence
from errata.core import memorising
from errata.core.checks import Floats, Labels
from errata.core.method_parts import ProbabilityVectors
from errata.core.neighbourhood import SpaceName, label_votes
from errata.core.smoothing import KNN
from errata.core.unmixing import Unmix, transition, true_classes
from evidence import margin
from runs import Run

Score = Callable[[Run], Floats]
Weights = Callable[[Run], Floats]
Transition = Callable[[Floats, Labels], Floats]
BASELINE = "MeanProb-LM"


def flat(run: Run) -> Floats:
    """The same weight for all epochs (E,)."""
    return np.ones(len(run.agreement))


def alone(run: Run, weights: Weights = flat) -> Floats:
    """LM of the mean probabilities: MeanProb-LM, where all epochs weigh the same."""
    return margin(run.log_mean(weights(run)), run.labels)


def measured(run: Run, name: str) -> Floats:
    """A method that measures every epoch."""
    return run.scores[name]


def smoothed(run: Run, knn: KNN, weights: Weights = flat) -> Floats:
    """LM of the mean probabilities after neighbours had their say."""
    return margin(_smoothed(run.log_mean(weights(run)), run, knn), run.labels)


def _smoothed(log_p: Floats, run: Run, knn: KNN | None = None) -> Floats:
    """Log-probabilities (N, K) blended with those of neighbours."""
    return (knn or KNN()).apply(ProbabilityVectors(log_p), run.labels, run.spaces).log_probabilities


def _unmixed(log_p: Floats, run: Run) -> Floats:
    """Log-probabilities (N, K) without the label noise that was learned."""
    return Unmix().apply(ProbabilityVectors(log_p), run.labels, run.spaces).log_probabilities


def usual(run: Run) -> Floats:
    """The weights of the epochs (E,) that the default takes."""
    return evidence.early_share(run) if run.is_table else evidence.ramp(run)


def neighbourly(run: Run, weights: Weights = usual) -> ProbabilityVectors:
    """The run after neighbours had their say, where the axis of errata chooses what they say."""
    return KNN().apply(ProbabilityVectors(run.log_mean(weights(run))), run.labels, run.spaces)


def default(run: Run, weights: Weights = usual) -> Floats:
    """What errata ranks by: with neighbours but, of images, where features have memorised the labels."""
    if not run.is_table and _memorised(run):
        return unmixed_alone(run, evidence.early_share_alone)
    blend = neighbourly(run, weights)
    return margin(Unmix().apply(blend, run.labels, run.spaces).log_probabilities, run.labels)


def _memorised(run: Run) -> bool:
    """Whether features have memorised the labels."""
    return (
        evidence.come_round(run) > memorising.LATE_FIT_LIMIT and evidence.taken_back(run) > memorising.REVERSALS_LIMIT
    )


def not_unmixed(run: Run) -> Floats:
    """What errata ranked by before it took out the noise that a model has learned."""
    return margin(neighbourly(run).log_probabilities, run.labels)


def unmixed_alone(run: Run, weights: Weights = flat) -> Floats:
    """MeanProb-LM without the noise that was learned."""
    return margin(_unmixed(run.log_mean(weights(run)), run), run.labels)


def unmixed_by(
    run: Run,
    rounds: int = 2,
    count: Transition = transition,
    by_all: bool = False,
    own_label: bool = False,
    weights: Weights | None = None,
) -> Floats:
    """Neighbours, then unmixing in another way than the default's.

    Transitions may be counted otherwise, or by the sample and its neighbours, and how likely the given label is added.
    """
    blend = neighbourly(run, weights or usual)
    log_p = evidence.normalised(blend.log_probabilities)
    heard = (
        log_p
        if by_all or blend.neighbour_log_probabilities is None
        else evidence.normalised(blend.neighbour_log_probabilities)
    )
    T = count(np.exp(heard), run.labels)
    log_q = true_classes(log_p, T, rounds)
    return margin(log_q + np.log(T[:, run.labels].T) if own_label else log_q, run.labels)


def unmixed_first(run: Run) -> Floats:
    """Neighbours of probabilities that are unmixed already."""
    unmixed = evidence.normalised(_unmixed(run.log_mean(usual(run)), run))
    return margin(_smoothed(unmixed, run), run.labels)


def _settled(run: Run) -> tuple[SpaceName, int, float]:
    """Space, neighbours and own weight that suit tables or images, for what the axis of errata does not have."""
    return ("inputs", 10, 0.7) if run.is_table else ("features", 50, 0.5)


def iterated(run: Run, rounds: int | None) -> Floats:
    """Probabilities smoothed again and again."""
    points, k, own = _settled(run)
    return margin(evidence.iterated(run.log_mean(flat(run)), run.spaces.nearest(points, k), own, rounds), run.labels)


def twice_removed(run: Run) -> Floats:
    """Probabilities of neighbours of neighbours."""
    points, k, own = _settled(run)
    near = run.spaces.nearest(points, k)
    return margin(evidence.neighbours_of_neighbours(run.log_mean(flat(run)), near, own), run.labels)


def both_spaces(run: Run) -> Floats:
    """Labels of the neighbours in the inputs and of those in the features, each with half of their weight."""
    log_p = run.log_mean(flat(run))
    blends = [_smoothed(log_p, run, KNN(10, 0.7, 1.0, points)) for points in ("inputs", "features")]
    return margin(np.mean(blends, axis=0), run.labels)


def nearer_labels(run: Run) -> Floats:
    """The labels of 50 neighbours, the nearest counts 1, the second 1/2, the third 1/3, ..."""
    near = run.spaces.nearest(_settled(run)[0], 50)
    weights = np.broadcast_to(1 / np.arange(1.0, near.shape[1] + 1), near.shape)
    return _with_vote(run, evidence.weighted_votes(run.labels, near, run.classes, weights))


def trusted_labels(run: Run) -> Floats:
    """The labels of neighbours, each counted with the probability that the run gives it."""
    points, k, _ = _settled(run)
    near = run.spaces.nearest(points, k)
    trust = np.exp(run.log_mean(flat(run))[np.arange(len(run.labels)), run.labels])
    return _with_vote(run, evidence.weighted_votes(run.labels, near, run.classes, trust[near]))


def likeliest_labels(run: Run) -> Floats:
    """The labels of neighbours, in the space and of the number that predict given labels best."""
    tried = [
        label_votes(run.labels, run.spaces.nearest(points, k), run.classes)
        for points in run.spaces.points
        for k in (5, 10, 20, 50)
    ]
    return _with_vote(run, max(tried, key=partial(evidence.likelihood, labels=run.labels)))


def geometric_with_labels(run: Run) -> Floats:
    """The default, but of the mean of the logarithms of the parts' probabilities, normalised."""
    blend = KNN().apply(ProbabilityVectors(evidence.normalised(run.log_parts.mean(axis=0))), run.labels, run.spaces)
    return margin(Unmix().apply(blend, run.labels, run.spaces).log_probabilities, run.labels)


def _with_vote(run: Run, counts: Floats) -> Floats:
    blend: Floats = 0.7 * run.log_mean(flat(run)) + 0.3 * evidence.log_vote(counts)
    return margin(blend, run.labels)


def simifeat(run: Run, points: SpaceName, rule: Callable[..., Floats], k: int = evidence.ASKED) -> Floats:
    """SimiFeat's vote or rank: the labels of the neighbours alone."""
    return rule(label_votes(run.labels, run.spaces.nearest(points, k), run.classes), run.labels)


def calibrated(run: Run, knn: bool, rule: Callable[..., Floats]) -> Floats:
    """Margins made comparable between classes."""
    return rule(default(run) if knn else alone(run), run.labels)


def reweighted(run: Run, knn: bool, change: str) -> Floats:
    """LM after the prior is taken out, or the transition of labels put in."""
    log_p = run.log_mean(flat(run))
    if knn:
        log_p = _smoothed(log_p, run)
    changed = evidence.without_prior(log_p) if change == "prior" else evidence.transition_posterior(log_p, run.labels)
    return margin(changed, run.labels)


def blended(run: Run, names: tuple[str, ...], rule: Callable[..., Floats]) -> Floats:
    """Several methods as one."""
    known = {BASELINE: alone, "default": default}
    return rule([known[name](run) if name in known else run.scores[name] for name in names])
