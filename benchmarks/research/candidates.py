"""Candidate detectors that use one run only: each is a function from a Run to scores (N,)."""

from collections.abc import Callable
from functools import partial

import numpy as np

import evidence
from errata.core import memorising
from errata.core.checks import Floats, Labels
from errata.core.held_out import HeldOut
from errata.core.method_parts import ProbabilityVectors
from errata.core.neighbours import SpaceName, label_votes
from errata.core.smoothing import KNN
from errata.core.unmixing import Unmix, transition_of_joint, true_classes
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
    """LM of the mean probabilities. With equal weights it is MeanProb-LM."""
    return margin(run.log_mean(weights(run)), run.labels)


def measured(run: Run, name: str) -> Floats:
    """A method that measures every epoch."""
    return run.scores[name]


def smoothed(run: Run, knn: KNN, weights: Weights = flat) -> Floats:
    """LM of the mean probabilities, smoothed over neighbours."""
    return margin(_smoothed(run.log_mean(weights(run)), run, knn), run.labels)


def _smoothed(log_p: Floats, run: Run, knn: KNN | None = None) -> Floats:
    """Log-probabilities (N, K) blended with those of neighbours."""
    return (knn or KNN()).apply(ProbabilityVectors(log_p), run.labels, run.context).log_probabilities


def _unmixed(log_p: Floats, run: Run) -> Floats:
    """Log-probabilities (N, K) without the learned label noise (unmixed)."""
    return Unmix().apply(ProbabilityVectors(log_p), run.labels, run.context).log_probabilities


def usual(run: Run) -> Floats:
    """The epoch weights (E,) of the default."""
    return evidence.early_share(run) if run.is_table else evidence.ramp(run)


def neighbourly(run: Run, weights: Weights = usual) -> ProbabilityVectors:
    """The smoothing over neighbours with the settings that kNN chooses for a run."""
    return KNN().apply(ProbabilityVectors(run.log_mean(weights(run))), run.labels, run.context)


def default(run: Run, weights: Weights = usual) -> Floats:
    """The default: held-out predictions for tables, neighbours for images whose features have not memorised labels."""
    if run.is_table:
        own = ProbabilityVectors(run.log_mean(weights(run)))
        blend = HeldOut().apply(own, run.labels, run.context)
    elif _memorised(run):
        return unmixed_alone(run, evidence.early_share_alone)
    else:
        blend = neighbourly(run, weights)
    return margin(Unmix().apply(blend, run.labels, run.context).log_probabilities, run.labels)


def _memorised(run: Run) -> bool:
    """Whether features have memorised the labels."""
    return (
        evidence.late_fit_share(run) > memorising.LATE_FIT_LIMIT
        and evidence.label_reversals(run) > memorising.REVERSALS_LIMIT
    )


def not_unmixed(run: Run) -> Floats:
    """Smoothing over neighbours without unmixing."""
    return margin(neighbourly(run).log_probabilities, run.labels)


def unmixed_alone(run: Run, weights: Weights = flat) -> Floats:
    """MeanProb-LM with unmixing."""
    return margin(_unmixed(run.log_mean(weights(run)), run), run.labels)


def unmixed_by(
    run: Run,
    rounds: int = 2,
    count: Transition = transition_of_joint,
    by_all: bool = False,
    own_label: bool = False,
    weights: Weights | None = None,
) -> Floats:
    """Smoothing over neighbours, then a variant of unmixing.

    Variants count transitions differently or over the sample and its neighbours, or add the likelihood of the label.
    """
    blend = neighbourly(run, weights or usual)
    log_p = evidence.normalised(blend.log_probabilities)
    near = (
        log_p
        if by_all or blend.neighbour_log_probabilities is None
        else evidence.normalised(blend.neighbour_log_probabilities)
    )
    T = count(np.exp(near), run.labels)
    log_q = true_classes(log_p, T, rounds)
    return margin(log_q + np.log(T[:, run.labels].T) if own_label else log_q, run.labels)


def unmixed_first(run: Run) -> Floats:
    """Unmixing first, then smoothing over neighbours."""
    unmixed = evidence.normalised(_unmixed(run.log_mean(usual(run)), run))
    return margin(_smoothed(unmixed, run), run.labels)


def _settled(run: Run) -> tuple[SpaceName, int, float]:
    """Fixed space, number of neighbours and own weight, one choice for tables and one for images."""
    return ("inputs", 10, 0.7) if run.is_table else ("features", 50, 0.5)


def iterated(run: Run, rounds: int | None) -> Floats:
    """Probabilities smoothed in several rounds."""
    points, k, own = _settled(run)
    return margin(evidence.iterated(run.log_mean(flat(run)), run.context.nearest(points, k), own, rounds), run.labels)


def twice_removed(run: Run) -> Floats:
    """Probabilities of neighbours of neighbours."""
    points, k, own = _settled(run)
    near = run.context.nearest(points, k)
    return margin(evidence.neighbours_of_neighbours(run.log_mean(flat(run)), near, own), run.labels)


def both_spaces(run: Run) -> Floats:
    """Neighbour labels in input space and in feature space, each with half the weight."""
    log_p = run.log_mean(flat(run))
    blends = [_smoothed(log_p, run, KNN(10, 0.7, 1.0, points)) for points in ("inputs", "features")]
    return margin(np.mean(blends, axis=0), run.labels)


def nearer_labels(run: Run) -> Floats:
    """The labels of 50 neighbours, weighted 1, 1/2, 1/3, ... by rank."""
    near = run.context.nearest(_settled(run)[0], 50)
    weights = np.broadcast_to(1 / np.arange(1.0, near.shape[1] + 1), near.shape)
    return _with_vote(run, evidence.weighted_votes(run.labels, near, run.classes, weights))


def trusted_labels(run: Run) -> Floats:
    """The labels of neighbours, weighted by the model's probability of each label."""
    points, k, _ = _settled(run)
    near = run.context.nearest(points, k)
    trust = np.exp(run.log_mean(flat(run))[np.arange(len(run.labels)), run.labels])
    return _with_vote(run, evidence.weighted_votes(run.labels, near, run.classes, trust[near]))


def likeliest_labels(run: Run) -> Floats:
    """The labels of neighbours, with the space and number of neighbours that predict the given labels best."""
    tried = [
        label_votes(run.labels, run.context.nearest(points, k), run.classes)
        for points in run.context.points
        for k in (5, 10, 20, 50)
    ]
    return _with_vote(run, max(tried, key=partial(evidence.likelihood, labels=run.labels)))


def geometric_with_labels(run: Run) -> Floats:
    """Smoothing over neighbours and unmixing, with the geometric mean over the parts of a run."""
    blend = KNN().apply(ProbabilityVectors(evidence.normalised(run.log_parts.mean(axis=0))), run.labels, run.context)
    return margin(Unmix().apply(blend, run.labels, run.context).log_probabilities, run.labels)


def _with_vote(run: Run, counts: Floats) -> Floats:
    blend: Floats = 0.7 * run.log_mean(flat(run)) + 0.3 * evidence.log_vote(counts)
    return margin(blend, run.labels)


def simifeat(run: Run, points: SpaceName, rule: Callable[..., Floats], k: int = evidence.VOTES) -> Floats:
    """SimiFeat's vote or rank: neighbour labels only."""
    return rule(label_votes(run.labels, run.context.nearest(points, k), run.classes), run.labels)


def calibrated(run: Run, knn: bool, rule: Callable[..., Floats]) -> Floats:
    """Margins made comparable between classes."""
    return rule(default(run) if knn else alone(run), run.labels)


def reweighted(run: Run, knn: bool, change: str) -> Floats:
    """LM after dividing by the class prior, or after applying the label transitions."""
    log_p = run.log_mean(flat(run))
    if knn:
        log_p = _smoothed(log_p, run)
    changed = evidence.without_prior(log_p) if change == "prior" else evidence.transition_posterior(log_p, run.labels)
    return margin(changed, run.labels)


def blended(run: Run, names: tuple[str, ...], rule: Callable[..., Floats]) -> Floats:
    """Several methods blended."""
    known = {BASELINE: alone, "default": default}
    return rule([known[name](run) if name in known else run.scores[name] for name in names])
