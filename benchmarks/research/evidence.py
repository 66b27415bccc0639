"""Parts of candidates: windows of a run, smoothing over neighbours, memorisation, calibration, blends."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core import early, memorising
from errata.core.aggregations import LastQuarter
from errata.core.checks import Floats, Labels
from errata.core.composed_method import ComposedMethod
from errata.core.measures import LM
from errata.core.neighbours import SpaceName, label_votes
from errata.core.sample_context import SampleContext
from errata.core.smoothing import log_neighbour_mean
from errata.dynamics.store import Dynamics
from runs import Run

VOTES = 10  # neighbours for the start of memorisation, as many as in SimiFeat
CONVERGED = 1e-3
MOST_ROUNDS = 100


def share_of_epochs(run: Run, start: float, end: float) -> Floats:
    """Weight 1 for the epochs (E,) between two fractions of the run, 0 for the others."""
    place = (np.arange(len(run.agreement)) + 0.5) / len(run.agreement)
    return ((place > start) & (place < end)).astype(np.float64)


def ramp(run: Run) -> Floats:
    """Weights 1, 2, 3, ... of the epochs (E,)."""
    return np.arange(1.0, len(run.agreement) + 1)


def until_memorising(run: Run) -> Floats:
    """Weight 1 for the epochs (E,) before the first that agrees with the given labels more often than neighbours do.

    A model that agrees more often than neighbours has started to memorise labels.
    """
    beyond = run.agreement > neighbours_agreement(run)
    weights = np.ones(len(beyond))
    if beyond.any():
        weights[max(1, int(np.argmax(beyond))) :] = 0
    return weights


def early_share(run: Run) -> Floats:
    """Weight 1 for the epochs (E,) of the window that EarlyProb averages."""
    epochs = np.arange(len(run.agreement))
    shares = [np.asarray(epochs < end, dtype=np.float64) for end in early.window_ends(len(epochs))]
    sums = np.stack([run.log_mean(weights) + np.log(weights.sum()) for weights in shares], axis=1)
    return shares[early.choose_window(sums, run.labels, run.context)]


def early_share_alone(run: Run) -> Floats:
    """Weight 1 for the epochs (E,) that EarlyProb averages without inputs."""
    return early_share(replace(run, context=SampleContext()))


def late_unless_memorising(run: Run) -> Floats:
    """Weight 1 for the later half of the epochs (E,) before memorisation starts."""
    usable = int(until_memorising(run).sum())
    return (np.arange(len(run.agreement)) >= usable // 2) * until_memorising(run)


def neighbours_agreement(run: Run) -> float:
    """The share of samples whose label is the most frequent one among their neighbours; ties count in part."""
    space: SpaceName = "inputs" if run.is_table else "features"
    counts = label_votes(run.labels, run.context.nearest(space, VOTES), run.classes)
    return 1 - float(simifeat_vote(counts, run.labels).mean())


def simifeat_vote(counts: Floats, labels: Labels) -> Floats:
    """1 where the vote (N, K) of the neighbours is for another label, 0 where it is for the given one; ties in part."""
    largest = counts == counts.max(axis=1, keepdims=True)
    agreeing: Floats = largest[np.arange(len(labels)), labels] / largest.sum(axis=1)
    return 1 - agreeing


def late_fit_share(run: Run) -> float:
    """Of the labels that the mean over a run does not predict, the share that its last quarter predicts.

    The last half, if the run has two parts only.
    """
    return memorising.late_fit_share(
        memorising.fit_counts(predicted(run), predicted(run, _last_quarter(run)), run.labels)
    )


def label_reversals(run: Run) -> float:
    """Of the labels that a run ruled out before its last quarter, the share that the last quarter predicts.

    The last half, if the run has two parts only.
    """
    late = _last_quarter(run)
    return of_features(np.exp(run.log_mean(1 - late)), predicted(run), predicted(run, late), run.labels)[1]


def of_features(before: Floats, mean: Labels, late: Labels, labels: Labels) -> tuple[float, float]:
    """The late fit and the reversals, from the arguments of `feature_counts`."""
    counts = memorising.feature_counts(before, mean, late, labels)
    return memorising.late_fit_share(counts[:2]), memorising.reversed_share(counts[2:])


def end_of_run(dynamics: Dynamics) -> dict[str, float]:
    """The statistics of memorisation, from the last quarter of complete dynamics."""
    (arrays,) = dynamics.sample_arrays([ComposedMethod(LastQuarter(), LM)])
    log_sums, labels = arrays["log_probabilities"], dynamics.labels
    mean, added = memorising.predicted_classes(log_sums)
    before, late = log_sums[:, 0], added[-1]
    late_fit, reversals = of_features(np.exp(before), mean[-1], late, labels)
    return {
        "late fit": late_fit,
        "confident reversals": memorising.reversed_share(memorising.reversal_counts(before, late, labels)),
        "ruled out": int(memorising.ruled_out(np.exp(before), labels).sum()),
        "reversals": reversals,
    }


def signs_by_sums(run: Run) -> dict[str, float]:
    """The statistics of memorisation, from running sums."""
    before, end = on_the_line(run, 1 / 4), on_the_line(run, 1.0).argmax(axis=1)
    return dict(
        zip(
            ("late fit, by sums", "reversals, by sums"),
            of_features(before, predicted(run), end, run.labels),
            strict=True,
        )
    )


def on_the_line(run: Run, place: float) -> Floats:
    """Probabilities (N, K) at a position of a run (0 to 1), by the line fitted to running sums."""
    return memorising.fitted_line(run.log_mean(np.ones(len(run.agreement))), run.log_mean(ramp(run)), place)


def _last_quarter(run: Run) -> Floats:
    """Weight 1 for the epochs (E,) of the last quarter, or of the last half if the run has two parts; else 0."""
    quarter, *_ = early.window_ends(len(run.agreement))[-2:]
    first = run.bounds[run.bounds <= quarter].max()
    return (np.arange(len(run.agreement)) >= first).astype(np.float64)


def predicted(run: Run, weights: Floats | None = None) -> NDArray[np.int64]:
    """The classes (N,) that the mean over a run predicts; weights (E,): of the epochs."""
    return run.log_mean(np.ones(len(run.agreement)) if weights is None else weights).argmax(axis=1)


def simifeat_rank(counts: Floats, labels: Labels) -> Floats:
    """The negative cosine between the vote (N, K) of the neighbours and the given label."""
    cosine: Floats = counts[np.arange(len(labels)), labels] / np.linalg.norm(counts, axis=1)
    return -cosine


def weighted_votes(labels: Labels, near: NDArray[np.int32], classes: int, weights: Floats) -> Floats:
    """The labels of each sample's neighbours (N, k), counted (N, K) with weights (N, k)."""
    counts = np.zeros((len(labels), classes))
    every = np.arange(len(labels))
    for neighbour, weight in zip(near.T, weights.T, strict=True):
        counts[every, labels[neighbour]] += weight
    return counts


def log_vote(counts: Floats) -> Floats:
    """The logarithm of the vote share (N, K) of each class, with one uniform vote added."""
    share: Floats = (counts + 1 / counts.shape[1]) / (counts.sum(axis=1, keepdims=True) + 1)
    return np.log(share)


def likelihood(counts: Floats, labels: Labels) -> float:
    """Mean log-likelihood of labels (N,) under the votes (N, K) of neighbours."""
    return float(log_vote(counts)[np.arange(len(labels)), labels].mean())


def iterated(log_p: Floats, near: NDArray[np.int32], own: float, rounds: int | None) -> Floats:
    """Blend log-probabilities (N, K) with those of neighbours, for a number of rounds or until convergence."""
    from scipy.special import log_softmax

    blend = log_p
    for _ in range(rounds or MOST_ROUNDS):
        before = np.asarray(log_softmax(blend, axis=1))
        blend = own * log_p + (1 - own) * log_neighbour_mean(before, near)
        if rounds is None and np.abs(np.exp(log_softmax(blend, axis=1)) - np.exp(before)).max() < CONVERGED:
            break
    return blend


def neighbours_of_neighbours(log_p: Floats, near: NDArray[np.int32], own: float) -> Floats:
    """Blend log-probabilities (N, K) with the mean over the neighbours of the mean over their neighbours."""
    return own * log_p + (1 - own) * log_neighbour_mean(log_neighbour_mean(log_p, near), near)


def centred_by_class(scores: Floats, labels: Labels) -> Floats:
    """Scores (N,) minus the median of the samples with the same given label."""
    result = scores.copy()
    for label in np.unique(labels):
        result[labels == label] -= np.median(scores[labels == label])
    return result


def quantile_in_class(scores: Floats, labels: Labels) -> Floats:
    """The share (N,) of samples with the same given label and a lower score; ties count half."""
    from scipy.stats import rankdata

    result = np.empty(len(scores))
    for label in np.unique(labels):
        member = labels == label
        result[member] = (rankdata(scores[member]) - 0.5) / member.sum()
    return result


def without_prior(log_p: Floats) -> Floats:
    """Log-probabilities (N, K) minus the logarithm of each class's mean probability."""
    prior: Floats = np.exp(log_p).mean(axis=0)
    return log_p - np.log(prior)


def normalised(log_p: Floats) -> Floats:
    """Log-probabilities (N, K) whose rows sum to 1."""
    from scipy.special import log_softmax

    return np.asarray(log_softmax(log_p, axis=1))


def counted_by_arg_max(probabilities: Floats, labels: Labels) -> Floats:
    """Counts (K, K) of given labels by predicted class, plus one."""
    counts = np.ones((probabilities.shape[1],) * 2)
    np.add.at(counts, (probabilities.argmax(axis=1), labels), 1)
    shares: Floats = counts / counts.sum(axis=1, keepdims=True)
    return shares


def counted_by_probability(probabilities: Floats, labels: Labels) -> Floats:
    """Counts (K, K) of given labels by class; a sample counts for each class with its probability."""
    counts = 1 + probabilities.T @ np.eye(probabilities.shape[1])[labels]
    shares: Floats = counts / counts.sum(axis=1, keepdims=True)
    return shares


def transition_posterior(log_p: Floats, labels: Labels) -> Floats:
    """Joint log-probability (N, K) of each class and the given label.

    The label transitions are counted over the predicted classes.
    """
    result: Floats = log_p + np.log(counted_by_arg_max(log_p, labels)[:, labels].T)
    return result


def rank_mean(columns: Sequence[Floats]) -> Floats:
    """The mean rank (N,) over several scores (N,)."""
    from scipy.stats import rankdata

    return np.asarray(np.mean([rankdata(column) for column in columns], axis=0))


def z_mean(columns: Sequence[Floats]) -> Floats:
    """The mean (N,) of several scores (N,), each with mean 0 and standard deviation 1."""
    return np.asarray(np.mean([(column - column.mean()) / column.std() for column in columns], axis=0))


def margin(log_p: Any, labels: Labels) -> Floats:
    """LM (N,) of log-probabilities (N, K)."""
    return np.asarray(LM(log_p, labels))
