"""Preparation of tables in steps, each fitted on the training split alone.

A step is a function of the training table that returns what is then done to any table, so nothing of the test split can
leak into it.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Apply = Callable[[Floats], Floats]
Step = Callable[[Floats], Apply]


def run_steps(train: Floats, test: Floats, steps: Sequence[Step]) -> tuple[Floats, Floats]:
    """Both tables after every step."""
    for step in steps:
        apply = step(train)
        train, test = apply(train), apply(test)
    return train, test


def clip_quantiles(low: float, high: float, others: Mapping[int, tuple[float, float]] | None = None) -> Step:
    """Cut every column off at two of its quantiles, in percent; `others` are columns with their own."""

    def step(train: Floats) -> Apply:
        bounds = np.percentile(train, [low, high], axis=0)
        for column, (own_low, own_high) in (others or {}).items():
            bounds[:, column] = np.percentile(train[:, column], [own_low, own_high])
        return lambda table: np.clip(table, *bounds)

    return step


def clip_fences(others: Mapping[int, tuple[float, float]] | None = None) -> Step:
    """Cut every column off at Tukey's fences, 1.5 interquartile ranges beyond its quartiles."""

    def step(train: Floats) -> Apply:
        lower, upper = np.percentile(train, [25, 75], axis=0)
        bounds = np.stack([lower - 1.5 * (upper - lower), upper + 1.5 * (upper - lower)])
        for column, own in (others or {}).items():
            bounds[:, column] = np.percentile(train[:, column], own)
        return lambda table: np.clip(table, *bounds)

    return step


def standardise(train: Floats) -> Apply:
    """Bring every column to mean 0 and deviation 1; one that does not vary to 0."""
    from sklearn.preprocessing import StandardScaler

    apply: Apply = StandardScaler().fit(train).transform
    return apply


def principal_components(share: float) -> Step:
    """As many principal components as hold that share of the variance."""

    def step(train: Floats) -> Apply:
        from sklearn.decomposition import PCA

        apply: Apply = PCA(share, svd_solver="full").fit(train).transform
        return apply

    return step


def stratified_split(labels: NDArray[np.int64], train: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of a training part of that size and of the rest, each class in its share, always the same."""
    from sklearn.model_selection import train_test_split

    rows: tuple[NDArray[np.int64], NDArray[np.int64]] = train_test_split(
        np.arange(len(labels)), train_size=train, random_state=0, stratify=labels
    )
    return rows
