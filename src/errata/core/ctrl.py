"""CTRL (Yue and Jha, "CTRL: Clustering Training Losses for Label Error Detection").

The epochs are divided into windows. In every window the loss curves of each class are clustered. A sample in one of the
clusters with the largest losses gets one vote for being noisy. A configuration is (W windows, K clusters, Ks clusters
selected as noisy); a mask (N,) is True for noisy samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.core._ctrl_clusters import Mask, cluster_ranks, silhouettes
from errata.core.checks import Floats, Labels, as_numpy
from errata.errors import InputError

Votes = NDArray[np.int64]

SILHOUETTE_SAMPLES = 10_000
"""The most curves for a silhouette, whose cost grows with the square of their number."""


@dataclass(frozen=True, order=True)
class Configuration:
    """W windows of epochs, and K clusters per class, of which the Ks with the largest area are noisy."""

    windows: int
    clusters: int
    selected: int

    def __post_init__(self) -> None:
        if self.windows < 1:
            raise InputError(f"CTRL needs at least one window, not {self.windows}")
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


@dataclass(frozen=True, eq=False)
class Selection:
    """The configuration with the best selection score, its votes (N,) and mask (N,), and the score of each."""

    configuration: Configuration
    votes: Votes
    mask: Mask
    scores: dict[Configuration, float]


def smoothed(losses: ArrayLike, labels: ArrayLike, smooth: int = 5) -> Floats:
    """Losses (N, T) clipped from above at 2 ln(observed classes), then averaged over the last `smooth` epochs.

    The first `smooth` epochs get the first full average, as in the authors' code. If there are no more than `smooth`
    epochs, the average is over all but one.
    """
    checked = _check_losses(losses)
    classes = np.unique(_check_labels(labels, len(checked)))
    if smooth < 1:
        raise InputError(f"smooth must be at least 1 epoch, not {smooth}")
    clipped: Floats = np.minimum(checked, 2 * np.log(len(classes)), dtype=np.float64)
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


def votes(
    losses: ArrayLike,
    labels: ArrayLike,
    configurations: Sequence[Configuration] = CONFIGURATIONS,
    smooth: int = 5,
) -> Votes:
    """The number of windows (C, N) in which each sample is noisy, for every configuration: the paper's W - u."""
    curves = smoothed(losses, labels, smooth)
    return _votes(curves, _check_labels(labels, len(curves)), configurations)


def _votes(curves: Floats, labels: Labels, configurations: Sequence[Configuration]) -> Votes:
    if not configurations:
        raise InputError("CTRL needs at least one configuration")
    samples, epochs = curves.shape
    # Configurations with the same window and number of clusters share their fit.
    fits = {(window, c.clusters): None for c in configurations for window in c.bounds(epochs)}
    ranks = cluster_ranks(curves, labels, fits)
    counted = np.zeros((len(configurations), samples), dtype=np.int64)
    for row, configuration in zip(counted, configurations, strict=True):
        for window in configuration.bounds(epochs):
            row += ranks[window, configuration.clusters] < configuration.selected
    return counted


def operating_points(votes: Votes, configuration: Configuration) -> Mask:
    """Masks (P, N) of CTRL's thresholds t = 1 .. W // 2 + 1: a sample with fewer than t clean votes is noisy."""
    clean_votes = configuration.windows - votes
    return np.array([clean_votes < threshold for threshold in range(1, configuration.windows // 2 + 2)])


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


def select(
    losses: ArrayLike,
    labels: ArrayLike,
    correct: ArrayLike,
    *,
    budget: int | None = None,
    alpha: float = 0.0,
    configurations: Sequence[Configuration] = CONFIGURATIONS,
    smooth: int = 5,
) -> Selection:
    """The configuration whose mask has the highest selection score; the first of equal ones.

    With a `budget` (a count), the mask of a configuration is the `budget` samples with the most votes, with ties in
    random order. Without one, all its `operating_points` compete.
    """
    return selections(losses, labels, correct, [budget], alpha, configurations, smooth)[0]


def selections(
    losses: ArrayLike,
    labels: ArrayLike,
    correct: ArrayLike,
    budgets: Sequence[int | None],
    alpha: float = 0.0,
    configurations: Sequence[Configuration] = CONFIGURATIONS,
    smooth: int = 5,
) -> list[Selection]:
    """What `select` returns for each of the budgets; the curves are clustered once for all."""
    curves = smoothed(losses, labels, smooth)
    class_numbers = _check_labels(labels, len(curves))
    is_correct = as_numpy(correct)
    if is_correct.shape != (len(curves),) or is_correct.dtype != np.bool_:
        raise InputError(f"correct must be {len(curves)} booleans, not {is_correct.dtype} of shape {is_correct.shape}")
    _check_alpha(curves, alpha)
    for budget in budgets:
        if budget is not None and not (isinstance(budget, int | np.integer) and 0 <= budget <= len(curves)):
            raise InputError(f"budget must be a count from 0 to {len(curves)}, not {budget}")
    shuffled = np.random.default_rng(0).permutation(len(curves))
    counted = _votes(curves, class_numbers, configurations)
    candidates = [
        (number, row, mask)
        for number, budget in enumerate(budgets)
        for row, configuration in enumerate(configurations)
        for mask in (
            operating_points(counted[row], configuration)
            if budget is None
            else [_most_votes(counted[row], budget, shuffled)]
        )
    ]
    masks = np.array([mask for _, _, mask in candidates])
    scores = selection_scores(curves, masks, is_correct, alpha)
    of_budget, owner = (np.array(column) for column in zip(*((n, row) for n, row, _ in candidates), strict=True))
    return [
        _best(configurations, counted, masks[mine], owner[mine], scores[mine])
        for mine in (of_budget == number for number in range(len(budgets)))
    ]


def _best(
    configurations: Sequence[Configuration], counted: Votes, masks: Mask, owner: NDArray[np.int64], scores: Floats
) -> Selection:
    best = int(scores.argmax())
    return Selection(
        configuration=configurations[owner[best]],
        votes=counted[owner[best]],
        mask=masks[best],
        scores={c: float(scores[owner == row].max()) for row, c in enumerate(configurations)},
    )


def _most_votes(votes: Votes, budget: int, shuffled: NDArray[np.int64]) -> Mask:
    mask = np.zeros(len(votes), dtype=np.bool_)
    mask[np.lexsort((shuffled, -votes))[:budget]] = True
    return mask


def _check_losses(losses: ArrayLike) -> NDArray[Any]:
    checked = as_numpy(losses)
    if checked.ndim != 2 or 0 in checked.shape:
        raise InputError(f"losses must have shape (samples, epochs), not {checked.shape}")
    if checked.dtype.kind not in "biuf":
        raise InputError(f"losses must be numbers, not {checked.dtype}")
    finite = np.isfinite(checked)
    if not finite.all():
        row, epoch = np.argwhere(~finite)[0]
        raise InputError(f"loss of sample {row} at epoch {epoch} is {checked[row, epoch]}")
    return checked


def _check_labels(labels: ArrayLike, samples: int) -> Labels:
    checked = as_numpy(labels)
    if checked.shape != (samples,):
        raise InputError(f"labels must have shape ({samples},), one for each row of losses, not {checked.shape}")
    if checked.dtype.kind not in "biu":
        raise InputError(f"labels must be class numbers, not {checked.dtype}")
    return checked.astype(np.int64, copy=False)


def _check_alpha(curves: Floats, alpha: float) -> None:
    if not 0 <= alpha < np.inf:
        raise InputError(f"alpha must be a number from 0 up, not {alpha}")
    if alpha and (curves < 0).any():
        row = int(np.flatnonzero((curves < 0).any(axis=1))[0])
        raise InputError(
            f"alpha must be 0, not {alpha}, for a signed measure such as LM: the smoothed loss of sample {row} is "
            "negative, and a ratio of signed losses has no meaning"
        )
