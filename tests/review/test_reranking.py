"""Ranking again after verdicts: what it learns, and that it never needs training."""

import numpy as np
import pytest
from scipy.optimize import minimize

from errata.review.reranking import DEVIATIONS, PRIOR, JudgedLabels, reranked


def judged(rows, classes):
    return JudgedLabels(np.array(rows, dtype=np.int64), np.array(classes, dtype=np.int64))


def test_without_verdicts_the_order_stays():
    p_wrong = np.random.default_rng(0).random(200)
    after = reranked(p_wrong, np.zeros(200, dtype=np.int64), judged([], []))
    assert np.argsort(-after).tolist() == np.argsort(-p_wrong).tolist()
    assert after == pytest.approx(p_wrong, abs=1e-3)


def test_verdicts_correct_the_level():
    p_wrong, labels = np.linspace(0.99, 0.5, 400), np.zeros(400, dtype=np.int64)
    rows = np.arange(0, 400, 4)
    right = judged(rows, np.zeros(100))  # every reviewed label was right
    assert reranked(p_wrong, labels, right).mean() < 0.2


def test_verified_labels_influence_their_neighbours():
    labels = np.array([0, 0, 0, 0, 0, 0])
    near = np.array([[1, 2], [0, 2], [0, 1], [4, 5], [3, 5], [3, 4]], dtype=np.int32)
    after = reranked(np.full(6, 0.5), labels, judged([0, 1, 3, 4], [1, 1, 0, 0]), near)
    assert after[2] > 0.6 > 0.4 > after[5]


def test_the_fit_is_the_optimum_of_its_objective():
    rng = np.random.default_rng(1)
    p_wrong, labels = rng.uniform(0.05, 0.95, 300), np.zeros(300, dtype=np.int64)
    wrong = rng.random(300) < p_wrong**2
    after = reranked(p_wrong, labels, judged(np.arange(300), wrong))
    features = np.stack([np.ones(300), np.log(p_wrong / (1 - p_wrong)), np.zeros(300)])

    def objective(weights):
        odds = weights @ features
        return (np.logaddexp(0, odds) - wrong * odds).sum() + (((weights - PRIOR) / DEVIATIONS) ** 2).sum() / 2

    best = minimize(objective, PRIOR).x
    assert after == pytest.approx(1 / (1 + np.exp(-best @ features)), abs=1e-3)


def test_re_ranking_finds_more_errors_where_errors_cluster():
    rng = np.random.default_rng(2)
    points = rng.normal(size=(2_000, 2))
    wrong = (points[:, 0] > 1) & (rng.random(2_000) < 0.8)  # a region that was labelled carelessly
    p_wrong = np.clip(0.3 + 0.05 * wrong + 0.3 * rng.random(2_000), 0.01, 0.99)
    labels = np.zeros(2_000, dtype=np.int64)
    near = np.argsort(((points[:, None] - points[None]) ** 2).sum(axis=2), axis=1)[:, 1:11].astype(np.int32)
    first = np.argsort(-p_wrong)[:150]
    after = reranked(p_wrong, labels, judged(first, wrong[first]), near)
    rest = np.setdiff1d(np.arange(2_000), first)
    taken = rest[np.argsort(-after[rest])[:100]], rest[np.argsort(-p_wrong[rest])[:100]]
    assert wrong[taken[0]].sum() > 1.3 * wrong[taken[1]].sum()
    assert len(after) == 2_000
    assert np.isfinite(after).all()
