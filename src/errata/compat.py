"""Drop-in replacement for cleanlab: `errata.compat.find_label_issues` flags the same samples as cleanlab 2.9."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Labels, as_numpy, rows_by_class
from errata.core.confident_learning import Flags, check_probabilities, flags
from errata.core.confident_rules import (
    CLEANLAB,
    Counts,
    Probabilities,
    calibrated_counts,
    cleanlab_self_confidence,
    prune_counts,
    with_removals,
)
from errata.errors import InputError

PRUNING = {"prune_by_noise_rate": ("PBNR",), "prune_by_class": ("PBC",), "both": ("PBC", "PBNR")}
COUNTING = {"confident_learning": "CYY", "predicted_neq_given": "CC"}
LOWEST = {"low_normalized_margin": "normalized_margin", "low_self_confidence": "self_confidence"}
FILTERS = (*PRUNING, *COUNTING, *LOWEST)
RANKINGS = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
SMALLEST = 1e-6  # replaces 0 in cleanlab's denominators


def find_label_issues(
    labels: Any,
    pred_probs: Any,
    *,
    return_indices_ranked_by: str | None = None,
    rank_by_kwargs: Mapping[str, Any] | None = None,
    filter_by: str = "prune_by_noise_rate",
    frac_noise: float = 1.0,
    num_to_remove_per_class: Sequence[int] | None = None,
    min_examples_per_class: int = 1,
    confident_joint: Any | None = None,
    n_jobs: int | None = None,
    verbose: bool = False,
    multi_label: bool = False,
    classes: Sequence[Any] | None = None,
) -> NDArray[Any]:
    """A mask (N,) of the labels that are probably wrong; with `return_indices_ranked_by`, row numbers, worst first.

    Arguments and results are those of `cleanlab.filter.find_label_issues` 2.9. In addition, labels (N,) and pred_probs
    (N, K) may be tensors, lists or polars objects, and labels may be names if `classes` names the K columns. Rows that
    are not finite or do not sum to 1 are refused. n_jobs is accepted and ignored: threads are always used.

    >>> import errata
    >>> probabilities = [[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8], [0.95, 0.05]]
    >>> errata.compat.find_label_issues([0, 0, 1, 1, 1], probabilities).tolist()
    [False, False, False, False, True]
    """
    adjusted = _check_options(filter_by, return_indices_ranked_by, rank_by_kwargs, n_jobs, multi_label)
    column = as_numpy(labels)
    if column.ndim == 2 and column.shape[1] == 1:  # a data frame of one column
        column = column[:, 0]
    P, y = check_probabilities(pred_probs, column, classes)
    joint = None if confident_joint is None else _check_joint(confident_joint, P.shape[1])
    if filter_by in PRUNING:
        removals = None if num_to_remove_per_class is None else _check_removals(num_to_remove_per_class, P.shape[1])
        if not 0 <= frac_noise < np.inf:
            raise InputError(f"frac_noise must be 0 or more, not {frac_noise}")
        if min_examples_per_class < 0:
            raise InputError(f"min_examples_per_class must be 0 or more, not {min_examples_per_class}")
        flagged = _flags_by_pruning(P, y, filter_by, joint, min_examples_per_class, frac_noise, removals)
    else:
        if num_to_remove_per_class is not None:
            raise InputError(f"num_to_remove_per_class needs filter_by {', '.join(PRUNING)}, not {filter_by!r}")
        for name, passed in (("frac_noise", frac_noise != 1), ("confident_joint", joint is not None)):
            if passed:
                warnings.warn(f"{name} is not used with filter_by {filter_by!r}", stacklevel=2)
        flagged = _flags_without_pruning(P, y, filter_by)
    if verbose:
        print(f"Number of label issues found: {int(flagged.sum())}")
    if return_indices_ranked_by is None:
        return flagged
    rows = np.flatnonzero(flagged)
    quality = _quality(P, y, return_indices_ranked_by, adjusted)
    return rows[np.argsort(quality[rows])]  # ties in the order of numpy's default sort, as in cleanlab


def _flags_by_pruning(
    P: Probabilities,
    y: Labels,
    filter_by: str,
    joint: NDArray[Any] | None,
    fewest: int,
    share: float,
    removals: NDArray[Any] | None,
) -> Flags:
    """Flags (N,) of the samples to prune; a joint (K, K), passed or counted here, gives the number per class pair."""
    sizes = np.bincount(y, minlength=P.shape[1])
    small = np.flatnonzero((sizes > 0) & (sizes <= fewest))
    if len(small):
        names = ", ".join(map(str, small[:10])) + (" ..." if len(small) > 10 else "")
        warnings.warn(f"no label is flagged in classes with {fewest} samples or fewer: {names}", stacklevel=3)

    def budgets(counts: Counts, class_counts: Counts) -> Counts:
        """Numbers of samples (K, K) by given and true label: to keep on the diagonal, to prune elsewhere."""
        pruned = prune_counts(calibrated_counts(counts, class_counts) if joint is None else joint, fewest, share)
        if removals is not None:
            pruned = with_removals(pruned, class_counts, removals)
        limited: Counts = np.clip(pruned, 0, class_counts[:, None])
        too_small = class_counts <= max(fewest, 1)
        limited[too_small] = np.diag(class_counts)[too_small]
        return limited

    rules = CLEANLAB._replace(calibrated=budgets)
    flagged: Flags = np.logical_and.reduce([flags(P, y, variant, rules) for variant in PRUNING[filter_by]])
    return flagged


def _flags_without_pruning(P: Probabilities, y: Labels, filter_by: str) -> Flags:
    if filter_by in COUNTING:
        return flags(P, y, COUNTING[filter_by], CLEANLAB)
    count = int(flags(P, y, "CYY", CLEANLAB).sum())
    flagged = np.zeros(len(y), np.bool_)
    flagged[np.argsort(_quality(P, y, LOWEST[filter_by]))[:count]] = True
    return flagged


def _quality(P: Probabilities, y: Labels, ranking: str, adjusted: bool = False) -> NDArray[Any]:
    """The quality score (N,) of each label in cleanlab, from 0 to 1; low is bad."""
    if adjusted:
        confidence = cleanlab_self_confidence(P, rows_by_class(y, P.shape[1]))
        P = P - confidence + confidence.max()
        P /= P.sum(axis=1, keepdims=True)
    rows = np.arange(len(y))
    own = P[rows, y]
    if ranking == "self_confidence":
        return own
    if ranking == "normalized_margin":
        others = P.copy()
        others[rows, y] = -np.inf
        margin: NDArray[Any] = (own - others.max(axis=1) + 1) / 2
        return margin
    from scipy.special import xlogy

    clipped = np.clip(P, 0, 1)
    entropy = -np.sum(xlogy(clipped, clipped), axis=1) / np.log(P.shape[1])
    weighted = entropy / np.clip(own, SMALLEST, None)
    quality: NDArray[Any] = np.log(weighted + 1) / np.clip(weighted, SMALLEST, None)
    return quality


def _check_options(
    filter_by: str,
    ranking: str | None,
    ranking_options: Mapping[str, Any] | None,
    n_jobs: int | None,
    multi_label: bool,
) -> bool:
    """Refuse unknown options. Returns adjust_pred_probs, which subtracts each class's mean self-confidence."""
    if multi_label:
        raise InputError("multi_label is not supported: errata needs one label per sample")
    if filter_by not in FILTERS:
        raise InputError(f"filter_by {filter_by!r} is not one of {', '.join(FILTERS)}")
    if ranking is not None and ranking not in RANKINGS:
        raise InputError(f"return_indices_ranked_by {ranking!r} is not one of {', '.join(RANKINGS)}")
    if n_jobs is not None and n_jobs < 1:
        raise InputError(f"n_jobs must be 1 or more, not {n_jobs}")
    options = dict(ranking_options or {})
    adjusted = bool(options.pop("adjust_pred_probs", False))
    if options:
        raise InputError(f"rank_by_kwargs supports adjust_pred_probs only, not {', '.join(map(repr, options))}")
    if adjusted and ranking == "confidence_weighted_entropy":
        raise InputError("adjust_pred_probs needs return_indices_ranked_by self_confidence or normalized_margin")
    return adjusted


def _check_joint(confident_joint: Any, num_classes: int) -> NDArray[Any]:
    joint = as_numpy(confident_joint)
    if joint.shape != (num_classes, num_classes):
        raise InputError(f"confident_joint must have shape {(num_classes, num_classes)}, not {joint.shape}")
    if joint.dtype.kind not in "iuf" or not np.isfinite(joint).all() or joint.min() < 0:
        raise InputError("confident_joint must hold counts, none below 0")
    return joint


def _check_removals(removals: Sequence[int], num_classes: int) -> NDArray[Any]:
    numbers = as_numpy(removals)
    if numbers.shape != (num_classes,) or numbers.dtype.kind not in "iu" or numbers.min() < 0:
        raise InputError(f"num_to_remove_per_class must be {num_classes} whole numbers, none below 0")
    return numbers
