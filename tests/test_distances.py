"""The distances of benchmarks/research compared with brute force."""

import numpy as np
import pandas as pd
import pytest

import distances
from errata.core.held_out_models import FOLDS, assign_folds


@pytest.fixture
def table():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 120)
    frame = pd.DataFrame(
        {
            "size": labels + rng.normal(size=120),
            "weight": rng.normal(size=120) * 100,
            "colour": np.array(["red", "green", "blue"])[np.where(rng.random(120) < 0.8, labels, 0)],
        }
    )
    frame.loc[5, "size"] = np.nan
    return frame, labels


def test_gower_is_the_mean_of_differences_by_column(table):
    frame, _ = table
    near = distances.gower_neighbours(frame)
    size, weight = frame["size"].fillna(frame["size"].median()), frame["weight"]
    for row in (0, 5, 77):
        distance = abs(size - size[row]) / (size.max() - size.min())
        distance += abs(weight - weight[row]) / (weight.max() - weight.min())
        distance += frame["colour"] != frame["colour"][row]
        distance[row] = np.inf
        assert near[row].tolist() == np.argsort(distance.to_numpy(), kind="stable")[:80].tolist()


def test_target_encoded_points_compare_by_euclidean_distance(table):
    frame, labels = table
    rows, others = np.arange(20, 120), np.arange(20)
    points = distances.target_encoded(frame, labels, rows)
    plain = points[:, :-1].copy()
    closest = np.argmax(points[others] @ points[rows].T, axis=1)
    apart = np.linalg.norm(plain[others][:, None] - plain[rows][None], axis=2)
    assert closest.tolist() == apart.argmin(axis=1).tolist()


def test_shared_leaves_are_counted(table):
    frame, labels = table
    rows = np.arange(20, 120)
    points = distances.shared_leaves(frame, labels, rows)
    counts = (points @ points.T).toarray()
    assert (counts.diagonal() == 200).all()
    assert counts.min() >= 0
    assert counts.max() == 200


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("distance", ["shared_leaves", "network_features", "target_encoded"])
def test_neighbours_are_of_other_folds_and_ignore_the_own_label(table, distance, monkeypatch):
    frame, labels = table
    near = distances.neighbours_of_others(getattr(distances, distance), frame, labels)
    fold = assign_folds(labels, FOLDS)
    assert (fold[near] != fold[:, None]).all()
    row = int(np.flatnonzero(labels == 2)[0])
    mate = int(np.flatnonzero((labels == 1) & (fold == fold[row]))[0])
    changed = labels.copy()
    changed[[row, mate]] = changed[[mate, row]]
    monkeypatch.setattr(distances, "assign_folds", lambda *_: fold)
    again = distances.neighbours_of_others(getattr(distances, distance), frame, changed)
    assert again[row].tolist() == near[row].tolist()


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_neighbours_of_every_distance_predict_labels(table):
    frame, labels = table
    found = distances.held_out_votes(frame, labels, 3)
    assert len(found) == 4
    for logs in found.values():
        np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1)
        assert (logs.argmax(axis=1) == labels).mean() > 0.5
