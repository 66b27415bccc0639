"""Calibration of p_wrong and of the estimated number of errors: `errata.find` on data with known errors.

ERRATA_DATA=... python benchmarks/calibration.py [iris wine digits satellite letter trec ...]

5 % and 20 % symmetric noise. "Off by": the ranking is cut into 15 parts; the mean absolute difference between the mean
p_wrong and the share of wrong labels of a part, in percentage points; then the same with the true number of errors
instead of the estimate. "Expected" and "found": errors among the first n samples, n being the true number of errors.
"""

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

import errata
from errata.core.noise import symmetric
from errata.dynamics.ranking import SLOPE_PER_DEVIATION, wrong_probabilities
from find import TASKS

PARTS = 15
RATES = (0.05, 0.2)
SEED = 0
Data = tuple[Any, NDArray[np.int64]]


def part(load: Callable[[], Data], samples: int) -> Data:
    """Some samples of a dataset, drawn at random."""
    inputs, labels = load()
    rows = np.random.default_rng(SEED).permutation(len(labels))[:samples]
    chosen = [inputs[row] for row in rows] if isinstance(inputs, list) else inputs[rows]
    return chosen, np.unique(labels[rows], return_inverse=True)[1]


SETS: dict[str, Callable[[], Data]] = {
    "iris": partial(load_iris, return_X_y=True),
    "wine": partial(load_wine, return_X_y=True),
    "breast cancer": partial(load_breast_cancer, return_X_y=True),
    **{f"{name}, {size} samples": partial(part, TASKS[name], size) for name in TASKS for size in (300, 1000)},
    **TASKS,
}


def measure(inputs: Any, clean: NDArray[np.int64], rate: float) -> str:
    """The cells of a row."""
    noisy = symmetric(clean, rate, num_classes=int(clean.max()) + 1, seed=SEED)
    found = errata.find(inputs, noisy.labels, seed=SEED)
    wrong = np.asarray(noisy.truth)[found.ranking["id"].to_numpy()].astype(np.float64)
    scores, p_wrong = found.ranking["score"].to_numpy(), found.ranking["p_wrong"].to_numpy()
    with_truth = wrong_probabilities(scores, noisy.rate, SLOPE_PER_DEVIATION / float(scores.std()))
    first = slice(0, noisy.count)
    low, high = (share * len(wrong) for share in (found.estimate.low, found.estimate.high))
    return (
        f"{len(wrong):,} | {noisy.count:,} | {found.expected:,} ({low:,.0f}–{high:,.0f}) "
        f"| {off_by(p_wrong, wrong):.1f} | {off_by(with_truth, wrong):.1f} "
        f"| {p_wrong[first].sum():,.0f} | {wrong[first].sum():,.0f}"
    )


def off_by(p_wrong: NDArray[np.float64], wrong: NDArray[np.float64]) -> float:
    """The calibration error in percentage points. probabilities, truth (N,): in the order of the ranking."""
    parts = np.array_split(np.arange(len(wrong)), PARTS)
    return 100 * float(np.mean([abs(p_wrong[rows].mean() - wrong[rows].mean()) for rows in parts]))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("| data | samples | wrong | estimated | off by | with the true number | expected | found |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in sys.argv[1:] or SETS:
        for rate in RATES:
            print(f"| {name} | {measure(*SETS[name](), rate)} |", flush=True)
