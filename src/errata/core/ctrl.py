"""CTRL (Yue and Jha, "CTRL: Clustering Training Losses for Label Error Detection").

The epochs are divided into windows. In every window the loss curves of each class are clustered. A sample in one of the
clusters with the largest losses gets one vote for being noisy. A configuration is (W windows, K clusters, Ks clusters
selected as noisy); a mask (N,) is True for noisy samples.
"""

import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Floats, Labels, rows_by_class
from errata.core.jit import over_blocks
from errata.errors import InputError

Mask = NDArray[np.bool_]
Votes = NDArray[np.int64]
Ranks = NDArray[np.int32]
Fit = tuple[tuple[int, int], int]  # the epochs, as a half-open range, and the number of clusters

SILHOUETTE_SAMPLES = 10_000
"""The most curves for a silhouette, whose cost grows with the square of their number."""

NEVER_SELECTED = np.iinfo(np.int32).max
"""The rank of a curve that is in the lowest cluster, which is never selected as noisy."""


@dataclass(frozen=True)
class Configuration:
    """W windows of epochs and K clusters per class; the Ks clusters with the largest area are noisy."""

    windows: int
    clusters: int
    selected: int

    def __post_init__(self) -> None:
        if not 1 <= self.selected < self.clusters:
            raise InputError(
                f"CTRL must select from 1 to clusters - 1 = {self.clusters - 1} clusters, not {self.selected}"
            )

    def bounds(self, epochs: int) -> list[tuple[int, int]]:
        """The W half-open windows that divide the epochs; some are empty if there are fewer epochs than windows."""
        return [(i * epochs // self.windows, (i + 1) * epochs // self.windows) for i in range(self.windows)]


CONFIGURATIONS = tuple(
    Configuration(windows, clusters, selected)
    for windows in (1, 2, 4)
    for clusters, selected in ((2, 1), (3, 1), (3, 2))
)


class Selection(NamedTuple):
    """A configuration, its votes (N,), and one of its masks (N,).

    needed: how many votes make a sample noisy; None if the mask follows from a budget.
    """

    configuration: Configuration
    votes: Votes
    mask: Mask
    needed: int | None = None


class Clusters(NamedTuple):
    """The clusters of one class in one window: centres (c, T), and the rank (c,) of each."""

    centres: Floats
    ranks: Ranks


class Choice(NamedTuple):
    """What CTRL learns from the curves: clusters by fit and class, and the configurations that vote.

    scores: the configuration whose votes are the scores. flags: that which flags samples with `needed` votes or more.
    """

    clusters: dict[Fit, dict[int, Clusters]]
    scores: Configuration
    flags: Configuration
    needed: int


def smoothed(losses: Floats, observed: int, smooth: int = 5) -> Floats:
    """Losses (N, T) clipped from above at 2 ln(classes that are observed), then averaged over the last `smooth` epochs.

    The first `smooth` epochs get the first full average, as in the authors' code. If there are no more than `smooth`
    epochs, the average is over all but one.
    """
    clipped: Floats = np.minimum(losses, 2 * np.log(observed), dtype=np.float64)
    epochs = clipped.shape[1]
    span = min(smooth, epochs - 1)
    if not span:
        return clipped
    curves = np.zeros_like(clipped)
    for lag in range(span):
        curves[:, span:] += clipped[:, span - lag : epochs - lag]
    curves[:, span:] /= span
    curves[:, :span] = curves[:, span : span + 1]
    return curves


def choose(
    curves: Floats,
    labels: Labels,
    correct: Mask,
    uniform: Mask | slice,
    budget: int | None,
    alpha: float,
    configurations: Sequence[Configuration] = CONFIGURATIONS,
) -> Choice:
    """Cluster smoothed curves (n, T), and choose configurations by their selection scores.

    uniform: those of the curves, all or a mask (n,), that are a uniform sample of the run. budget: of these.
    """
    clusters = cluster_classes(curves, labels, _fits(configurations, curves.shape[1]))
    sampled, correct = curves[uniform], correct[uniform]
    counted = count_votes(sampled, labels[uniform], clusters, configurations)
    budgets = dict.fromkeys([budget, None])  # each once
    selections = select(sampled, counted, correct, budgets, alpha, configurations)
    needed = selections[-1].needed
    assert needed is not None
    return Choice(clusters, selections[0].configuration, selections[-1].configuration, needed)


def vote(choice: Choice, curves: Floats, labels: Labels) -> tuple[Votes, Mask]:
    """The votes (n,) and flags (n,) of samples with these smoothed curves (n, T)."""
    scores, flags = count_votes(curves, labels, choice.clusters, (choice.scores, choice.flags))
    return scores, flags >= choice.needed


def _fits(configurations: Sequence[Configuration], epochs: int) -> set[Fit]:
    """The fits of configurations; those with the same window and number of clusters share one."""
    return {(window, c.clusters) for c in configurations for window in c.bounds(epochs)}


def votes(curves: Floats, labels: Labels, configurations: Sequence[Configuration] = CONFIGURATIONS) -> Votes:
    """The number of windows (C, N) in which each sample is noisy, for every configuration: the paper's W - u.

    curves: smoothed losses (N, T).
    """
    clusters = cluster_classes(curves, labels, _fits(configurations, curves.shape[1]))
    return count_votes(curves, labels, clusters, configurations)


def count_votes(
    curves: Floats,
    labels: Labels,
    clusters: dict[Fit, dict[int, Clusters]],
    configurations: Sequence[Configuration],
) -> Votes:
    """The number of windows (C, n) in which each sample is in a noisy cluster, for every configuration."""
    samples, epochs = curves.shape
    ranks = {fit: _nearest_ranks(curves, labels, fit[0], clusters[fit]) for fit in _fits(configurations, epochs)}
    counted = np.zeros((len(configurations), samples), dtype=np.int64)
    for row, configuration in zip(counted, configurations, strict=True):
        for window in configuration.bounds(epochs):
            row += ranks[window, configuration.clusters] < configuration.selected
    return counted


def operating_points(votes: Votes, configuration: Configuration) -> Mask:
    """Masks (P, N) of CTRL's thresholds t = 1 .. W // 2 + 1: a sample with fewer than t clean votes is noisy."""
    clean_votes = configuration.windows - votes
    return np.array([clean_votes < threshold for threshold in range(1, configuration.windows // 2 + 2)])


def select(
    curves: Floats,
    counted: Votes,
    correct: Mask,
    budgets: Iterable[int | None],
    alpha: float = 0.0,
    configurations: Sequence[Configuration] = CONFIGURATIONS,
) -> list[Selection]:
    """For each budget, the mask with the highest selection score; the first of equal ones.

    counted: votes (C, N). With a budget (a count), the mask of a configuration is the samples with the most votes, with
    ties in random order. Without one (None), all its `operating_points` compete.
    """
    _check_alpha(curves, alpha)
    shuffled = np.random.default_rng(0).permutation(len(curves))
    candidates = [
        [
            Selection(configuration, row, mask, None if budget is not None else configuration.windows - point)
            for configuration, row in zip(configurations, counted, strict=True)
            for point, mask in enumerate(
                operating_points(row, configuration) if budget is None else [_most_votes(row, budget, shuffled)]
            )
        ]
        for budget in budgets
    ]
    # All masks are scored together, because the distances between curves are the same for all.
    masks = np.array([candidate.mask for group in candidates for candidate in group])
    ends = np.cumsum([len(group) for group in candidates])
    scores = np.split(selection_scores(curves, masks, correct, alpha), ends[:-1])
    return [group[int(scored.argmax())] for group, scored in zip(candidates, scores, strict=True)]


def selection_scores(curves: Floats, masks: Mask, correct: Mask, alpha: float) -> Floats:
    """CTRL's score (M,) of each of `masks` (M, N) over smoothed curves (N, T): silhouette × (A R)^alpha.

    A is the accuracy on the clean side: the share of `correct` (N,), where the last prediction is the given label. R is
    the mean last loss of the noisy side divided by that of the clean side. -inf if a side is empty.
    """
    noisy_count, clean_count = masks.sum(axis=1), (~masks).sum(axis=1)
    last = curves[:, -1]
    with np.errstate(divide="ignore", invalid="ignore"):
        accuracy = (~masks & correct).sum(axis=1) / clean_count
        loss_ratio = (masks @ last / noisy_count) / (~masks @ last / clean_count)
        scores = silhouettes(curves, masks, SILHOUETTE_SAMPLES) * (accuracy * loss_ratio) ** alpha
    return np.where(np.isnan(scores), -np.inf, scores)


def _most_votes(votes: Votes, budget: int, shuffled: NDArray[np.int64]) -> Mask:
    mask = np.zeros(len(votes), dtype=np.bool_)
    mask[np.lexsort((shuffled, -votes))[:budget]] = True
    return mask


def _check_alpha(curves: Floats, alpha: float) -> None:
    if not 0 <= alpha < np.inf:
        raise InputError(f"alpha must be a number from 0 up, not {alpha}")
    if alpha and (curves < 0).any():
        row = int(np.flatnonzero((curves < 0).any(axis=1))[0])
        raise InputError(
            f"alpha must be 0, not {alpha}, for a signed measure such as LM: the smoothed loss of sample {row} is "
            "negative, and a ratio of signed losses has no meaning"
        )


def cluster_classes(curves: Floats, labels: Labels, fits: Collection[Fit]) -> dict[Fit, dict[int, Clusters]]:
    """For each of `fits`, the clusters of every class that can be split: not one sample, and not equal curves.

    curves: (N, T). The cluster with the largest area has rank 0; the lowest cluster has rank NEVER_SELECTED.
    """
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    found: dict[Fit, dict[int, Clusters]] = {fit: {} for fit in fits}
    # The widest windows first: they take longest, so that no core is idle for long at the end.
    windows = sorted({window for window, _ in fits}, key=lambda window: (window[0] - window[1], window))
    classes = enumerate(rows_by_class(labels, 0))
    members = [(label, rows) for label, rows in classes if len(rows)]
    jobs = [(window, label, rows) for window in windows for label, rows in members]
    native_threads = ThreadpoolController()

    def work(block: slice) -> None:
        for window, label, rows in jobs[block]:
            within = curves[rows, slice(*window)]
            counts = [clusters for fitted, clusters in fits if fitted == window]
            distinct = _distinct(within, at_most=max(counts))
            # An OpenMP limit applies only to the thread that sets it, unlike the BLAS limit below.
            with native_threads.limit(limits=1, user_api="openmp"):
                for clusters in counts:
                    if min(clusters, distinct) > 1:
                        found[window, clusters][label] = _cluster(within, min(clusters, distinct))

    # One thread per fit: a single class is too small to share, and sums do not depend on the number of cores.
    with native_threads.limit(limits=1), warnings.catch_warnings():
        # Curves that are nearly equal may leave a cluster empty; `_cluster` ignores empty clusters.
        warnings.simplefilter("ignore", ConvergenceWarning)
        over_blocks(len(jobs), 1, work)
    return found


def _distinct(curves: Floats, at_most: int) -> int:
    """The number of different curves, counted up to `at_most`; 0 if they have no columns."""
    unlike = np.full(len(curves), curves.shape[1] > 0)
    for count in range(at_most):
        if not unlike.any():
            return count
        unlike &= (curves != curves[unlike.argmax()]).any(axis=1)
    return at_most


def _cluster(curves: Floats, clusters: int) -> Clusters:
    """K-means of curves (n, T), ranked by the area under the centres."""
    from sklearn.cluster import KMeans

    fit = KMeans(clusters, n_init=10, random_state=0).fit(curves)
    centres = fit.cluster_centers_[np.unique(fit.labels_)]  # not the empty ones
    ranks = np.full(len(centres), NEVER_SELECTED, dtype=np.int32)
    by_area = np.argsort(-centres.sum(axis=1), kind="stable")
    ranks[by_area[:-1]] = np.arange(len(by_area) - 1)
    return Clusters(centres, ranks)


def _nearest_ranks(curves: Floats, labels: Labels, window: tuple[int, int], clusters: dict[int, Clusters]) -> Ranks:
    """The rank (n,) of the cluster whose centre is nearest to each curve (n, T) in a window; of its class."""
    ranks = np.full(len(curves), NEVER_SELECTED, dtype=np.int32)
    for label, (centres, rank_of_cluster) in clusters.items():
        rows = np.flatnonzero(labels == label)
        within = curves[rows, slice(*window)]
        distances = np.stack([((within - centre) ** 2).sum(axis=1) for centre in centres])
        ranks[rows] = rank_of_cluster[distances.argmin(axis=0)]
    return ranks


def silhouettes(curves: Floats, masks: Mask, at_most: int) -> Floats:
    """The mean silhouette (M,) of each of `masks` (M, N), which split curves (N, T) into noisy and clean ones.

    -inf if one side is empty. Of more than `at_most` curves, the subsample is used that scikit-learn's
    silhouette_score(sample_size=at_most, random_state=0) takes. Distances are computed once for all masks.
    """
    from threadpoolctl import threadpool_limits

    if len(curves) > at_most:
        chosen = np.random.RandomState(0).permutation(len(curves))[:at_most]
        curves, masks = curves[chosen], masks[:, chosen]
    samples = len(curves)
    centred = curves - curves.mean(axis=0)  # smaller numbers, so that the squares below lose less precision
    squared = np.einsum("nt,nt->n", centred, centred)
    noisy = masks.T
    noisy_columns = noisy.astype(np.float64)
    noisy_count = noisy.sum(axis=0)
    silhouette = np.zeros(noisy.shape)

    def work(rows: slice) -> None:
        distance = -2 * centred[rows] @ centred.T
        distance += squared
        distance += squared[rows, None]
        np.sqrt(np.maximum(distance, 0, out=distance), out=distance)
        itself = np.arange(rows.start, rows.stop)
        distance[itself - rows.start, itself] = 0
        to_noisy = distance @ noisy_columns
        to_clean = distance.sum(axis=1, keepdims=True) - to_noisy
        size = np.where(noisy[rows], noisy_count, samples - noisy_count)
        within = np.where(noisy[rows], to_noisy, to_clean) / np.maximum(size - 1, 1)
        across = np.where(noisy[rows], to_clean, to_noisy) / np.maximum(samples - size, 1)
        larger = np.maximum(within, across)
        np.divide(across - within, larger, out=silhouette[rows], where=(larger > 0) & (size > 1))

    with threadpool_limits(1):  # the blocks already use every core
        over_blocks(samples, 64, work)
    return np.where((noisy_count > 0) & (noisy_count < samples), silhouette.mean(axis=0), -np.inf)
