"""CTRL compared with a plain implementation in scikit-learn: 50,000 curves of 100 epochs, 10 classes."""

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score
from threadpoolctl import threadpool_limits

from common import Row, print_rows, timed
from errata.core import ctrl
from errata.core.ctrl import CONFIGURATIONS, SILHOUETTE_SAMPLES, operating_points, selection_scores, smoothed

SAMPLES, EPOCHS, CLASSES = 50_000, 100, 10


def training() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Noisy cross-entropy curves of a model that fits wrong labels late."""
    rng = np.random.default_rng(0)
    truth = rng.random(SAMPLES) < 0.2
    learned_at = np.where(truth, rng.gamma(6, EPOCHS / 8, SAMPLES), rng.gamma(2, EPOCHS / 40, SAMPLES))
    speed = rng.uniform(0.05, 0.4, SAMPLES)
    logits = (np.arange(EPOCHS) - learned_at[:, None]) * speed[:, None]
    logits = np.clip(logits, -6, 6) + rng.normal(size=(SAMPLES, EPOCHS)) + 0.7 * rng.normal(size=(SAMPLES, 1))
    return np.logaddexp(0, -logits), rng.integers(0, CLASSES, SAMPLES)


def our_votes(losses: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    return ctrl.votes(smoothed(losses, labels), labels)


def plain_votes(losses: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    curves = smoothed(losses, labels)
    counted = np.zeros((len(CONFIGURATIONS), len(labels)), dtype=np.int64)
    for row, configuration in zip(counted, CONFIGURATIONS, strict=True):
        for start, stop in configuration.bounds(EPOCHS):
            for label in np.unique(labels):
                members = np.flatnonzero(labels == label)
                fit = KMeans(configuration.clusters, n_init=10, random_state=0).fit(curves[members, start:stop])
                noisy = np.argsort(-fit.cluster_centers_.sum(axis=1))[: configuration.selected]
                row[members] += np.isin(fit.labels_, noisy)
    return counted


def plain_scores(curves: NDArray[np.float64], masks: list[NDArray[np.bool_]]) -> list[float]:
    return [silhouette_score(curves, mask, sample_size=SILHOUETTE_SAMPLES, random_state=0) for mask in masks]


def run() -> list[Row]:
    losses, labels = training()
    counted = our_votes(losses, labels)
    ours = timed(lambda: our_votes(losses, labels))
    plain = timed(lambda: np.testing.assert_array_equal(plain_votes(losses, labels), counted), repeat=1)
    with threadpool_limits(1):
        plain_one_thread = timed(lambda: plain_votes(losses, labels), repeat=2)

    curves, correct = smoothed(losses, labels), np.ones(SAMPLES, dtype=np.bool_)
    one_window = [c for c in CONFIGURATIONS if c.windows == 1]  # one operating point each: one mask per configuration
    masks = [row > 0 for row in ctrl.votes(curves, labels, one_window)]
    scores = selection_scores(curves, np.array(masks), correct, 0.0)
    np.testing.assert_allclose(scores, plain_scores(curves, masks), atol=1e-9)
    selecting = timed(lambda: ctrl.select(curves, our_votes(losses, labels), correct, [None]))
    plain_scoring = timed(lambda: plain_scores(curves, masks[:1]), repeat=2)
    points = sum(len(operating_points(row, c)) for row, c in zip(counted, CONFIGURATIONS, strict=True))

    size = f"{SAMPLES:,} × {EPOCHS} losses, {CLASSES} classes, {len(CONFIGURATIONS)} configurations"
    return [
        Row(
            work="CTRL votes",
            against="scikit-learn KMeans, a fit for every configuration, window and class",
            ratio=plain / ours,
            reach=2,
            detail=f"{size}: {ours:.1f} s and {plain:.1f} s, votes identical; {plain_one_thread / ours:.1f} times "
            f"faster than the same with scikit-learn held to one thread ({plain_one_thread:.1f} s)",
        ),
        Row(
            work="CTRL votes and selection",
            against="the same on one thread, and silhouette_score for every operating point",
            ratio=(plain_one_thread + points * plain_scoring) / selecting,
            reach=2,
            detail=f"{points} operating points scored on {SILHOUETTE_SAMPLES:,} curves: {selecting:.1f} s in all; one "
            f"silhouette_score takes {plain_scoring:.1f} s, scores equal",
        ),
    ]


if __name__ == "__main__":
    print_rows(run())
