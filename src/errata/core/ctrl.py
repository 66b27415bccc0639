"""CTRL: cluster the curves of every class in windows of training, and let each window vote on who is noisy.

After Yue and Jha, "CTRL: Clustering Training Losses for Label Error Detection". The paper's names: a configuration is
(W windows, K clusters, Ks selected); a mask is True where a sample is held to be noisy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.core._kmeans import cluster_ranks
from errata.core._silhouettes import silhouettes
from errata.core.checks import Floats, Labels, as_numpy, check_seed
from errata.errors import InputError

Mask = NDArray[np.bool_]
Votes = NDArray[np.int64]

SILHOUETTE_SAMPLES = 10_000
"""Curves a silhouette is taken over: its cost grows with their square."""


@dataclass(frozen=True, order=True)
class Configuration:
    """How CTRL clusters: W windows of training, K clusters a class, of which the Ks of largest area are noisy."""

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
        """The W half-open windows that divide the epochs; some are empty where there are fewer epochs than windows."""
        return [(i * epochs // self.windows, (i + 1) * epochs // self.windows) for i in range(self.windows)]


CONFIGURATIONS = tuple(
    Configuration(windows, clusters, selected)
    for windows in (1, 2, 4)
    for clusters, selected in ((2, 1), (3, 1), (3, 2))
)


@dataclass(frozen=True, eq=False)
class Selection:
    """The configuration that CTRL's own score prefers, its votes (N,) and mask (N,), and the best score of each."""

    configuration: Configuration
    votes: Votes
    mask: Mask
    scores: dict[Configuration, float]


def smoothed(losses: ArrayLike, labels: ArrayLike, smooth: int = 5) -> Floats:
    """Losses (N, T) clipped from above at 2 ln(observed classes), then averaged over the last `smooth` epochs.

    The first `smooth` epochs have no full average before them and take the one after, as in the authors' code; where
    training is no longer than that, the average is over as many epochs as leave one out.
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
    """How many windows hold each sample noisy, shape (C, N): the paper's W - u for every configuration."""
    curves = smoothed(losses, labels, smooth)
    return _votes(curves, _check_labels(labels, len(curves)), configurations)


def _votes(curves: Floats, labels: Labels, configurations: Sequence[Configuration]) -> Votes:
    if not configurations:
        raise InputError("CTRL needs at least one configuration")
    samples, epochs = curves.shape
    # Configurations that differ only in Ks, or share a window, share its clusters.
    fits = {(window, c.clusters): None for c in configurations for window in c.bounds(epochs)}
    ranks = cluster_ranks(curves, labels, fits)
    counted = np.zeros((len(configurations), samples), dtype=np.int64)
    for row, configuration in zip(counted, configurations, strict=True):
        for window in configuration.bounds(epochs):
            row += ranks[window, configuration.clusters] < configuration.selected
    return counted


def operating_points(votes: Votes, configuration: Configuration) -> Mask:
    """Masks (P, N) of CTRL's own thresholds: noisy with fewer than t clean votes, t from 1 to half the windows + 1."""
    clean_votes = configuration.windows - votes
    return np.array([clean_votes < threshold for threshold in range(1, configuration.windows // 2 + 2)])


def selection_score(
    curves: ArrayLike, mask: ArrayLike, correct: ArrayLike, alpha: float, labels: ArrayLike | None = None
) -> float:
    """CTRL's own score of a mask (N,) over smoothed curves (N, T): silhouette × (A R)^alpha; -inf if a side is empty.

    A is the accuracy on the clean side, where `correct` (N,) says that the final prediction is the given label; R the
    mean last loss of the noisy side over that of the clean side. The silhouette is global, over a fixed subsample of
    10,000 (which must hold both sides too); with `labels` it is taken within every class and averaged over those that
    hold both sides, as the authors do.
    """
    checked = _check_losses(curves).astype(np.float64, copy=False)
    samples = len(checked)
    held, right = _check_flags(mask, "mask", samples), _check_flags(correct, "correct", samples)
    _check_alpha(checked, alpha)
    given = None if labels is None else _check_labels(labels, samples)
    return float(_selection_scores(checked, held[None], right, alpha, given)[0])


def _selection_scores(curves: Floats, masks: Mask, correct: Mask, alpha: float, labels: Labels | None) -> Floats:
    """The selection score of each of `masks` (M, N), shape (M,)."""
    many_noisy, many_clean = masks.sum(axis=1), (~masks).sum(axis=1)
    last = curves[:, -1]
    with np.errstate(divide="ignore", invalid="ignore"):
        accuracy = (~masks & correct).sum(axis=1) / many_clean
        loss_ratio = (masks @ last / many_noisy) / (~masks @ last / many_clean)
        scores = silhouettes(curves, masks, labels, SILHOUETTE_SAMPLES) * (accuracy * loss_ratio) ** alpha
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
    per_class: bool = False,
    seed: int = 0,
) -> Selection:
    """The configuration whose mask has the highest selection score; of equals, the first.

    With a `budget` (a count) the mask of a configuration is that many samples with most votes, ties broken by a
    permutation under `seed`; without, each of its own operating points competes.
    """
    selections = _selections(losses, labels, correct, [budget], alpha, configurations, smooth, per_class, seed)
    return selections[0]


def select_both(
    losses: ArrayLike,
    labels: ArrayLike,
    correct: ArrayLike,
    *,
    budget: int,
    alpha: float = 0.0,
    configurations: Sequence[Configuration] = CONFIGURATIONS,
    smooth: int = 5,
) -> tuple[Selection, Selection]:
    """What `select` says with a budget and what it says without one; the curves are clustered once for both."""
    at_budget, by_itself = _selections(
        losses, labels, correct, [budget, None], alpha, configurations, smooth, per_class=False, seed=0
    )
    return at_budget, by_itself


def _selections(
    losses: ArrayLike,
    labels: ArrayLike,
    correct: ArrayLike,
    budgets: Sequence[int | None],
    alpha: float,
    configurations: Sequence[Configuration],
    smooth: int,
    per_class: bool,
    seed: int,
) -> list[Selection]:
    curves = smoothed(losses, labels, smooth)
    given = _check_labels(labels, len(curves))
    right = _check_flags(correct, "correct", len(curves))
    _check_alpha(curves, alpha)
    for budget in budgets:
        if budget is not None and not (isinstance(budget, int | np.integer) and 0 <= budget <= len(curves)):
            raise InputError(f"budget must be a count from 0 to {len(curves)}, not {budget}")
    shuffled = np.random.default_rng(check_seed(seed)).permutation(len(curves))
    counted = _votes(curves, given, configurations)
    candidates = [
        (number, row, mask)
        for number, budget in enumerate(budgets)
        for row, configuration in enumerate(configurations)
        for mask in _masks(counted[row], configuration, budget, shuffled)
    ]
    masks = np.array([mask for _, _, mask in candidates])
    scores = _selection_scores(curves, masks, right, alpha, given if per_class else None)
    asked, owner = (np.array(column) for column in zip(*((number, row) for number, row, _ in candidates), strict=True))
    return [
        _best(configurations, counted, masks[asked == number], owner[asked == number], scores[asked == number])
        for number in range(len(budgets))
    ]


def _masks(votes: Votes, configuration: Configuration, budget: int | None, shuffled: NDArray[np.int64]) -> Mask:
    """The masks (P, N) that compete for a configuration."""
    return operating_points(votes, configuration) if budget is None else _most_votes(votes, budget, shuffled)[None]


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
    given = as_numpy(labels)
    if given.shape != (samples,):
        raise InputError(f"labels must have shape ({samples},), one for each row of losses, not {given.shape}")
    if given.dtype.kind not in "biu":
        raise InputError(f"labels must be class numbers, not {given.dtype}")
    return given.astype(np.int64, copy=False)


def _check_flags(flags: ArrayLike, name: str, samples: int) -> Mask:
    checked = as_numpy(flags)
    if checked.shape != (samples,) or checked.dtype != np.bool_:
        raise InputError(f"{name} must be {samples} booleans, not {checked.dtype} of shape {checked.shape}")
    return checked


def _check_alpha(curves: Floats, alpha: float) -> None:
    if not 0 <= alpha < np.inf:
        raise InputError(f"alpha must be a number from 0 up, not {alpha}")
    if alpha and (curves < 0).any():
        row = int(np.flatnonzero((curves < 0).any(axis=1))[0])
        raise InputError(
            f"alpha must be 0, not {alpha}, for a signed measure such as LM: the smoothed loss of sample {row} is "
            "negative, and a ratio of signed losses says nothing about how far the two sides are apart"
        )
