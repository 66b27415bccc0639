"""Neighbours by other distances between rows of a table than that of scaled columns.

Every distance gives the 80 nearest rows of each sample. Distances that are learned from labels are computed in five
folds, between a sample and the rows of the other folds, so that no sample's own label is used.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from errata.core.held_out_models import FOLDS, NEIGHBOUR_COUNTS, assign_folds, best_variant, neighbour_votes

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
MOST_NEIGHBOURS = NEIGHBOUR_COUNTS[-1]
BLOCK = 256  # samples whose distances to all others are in memory at a time

Distance = Callable[[pd.DataFrame, Rows, Rows], Array | csr_matrix]
"""Points (N, D) from columns, labels (N,) and the training rows. The training row with the largest product with another
row is its nearest."""


def held_out_votes(frame: pd.DataFrame, labels: Rows, classes: int) -> dict[str, Array]:
    """Log-probabilities (N, K) by neighbours of each distance; of several numbers of neighbours, the best one."""
    nearest = {
        "Gower distance": gower_neighbours(frame),
        "shared leaves of a forest": neighbours_of_others(shared_leaves, frame, labels),
        "features of a network": neighbours_of_others(network_features, frame, labels),
        "target-encoded categories": neighbours_of_others(target_encoded, frame, labels),
    }
    return {
        name: best_variant(neighbour_votes(labels, classes, lambda _, near=near: near), labels)
        for name, near in nearest.items()
    }


def gower_neighbours(frame: pd.DataFrame) -> NDArray[np.int32]:
    """The nearest rows (N, 80) by Gower's distance: mean over columns of |x - y| / range, or of x != y for words."""
    numbers, words = split_columns(frame)
    scaled = (numbers - numbers.min(axis=0)) / np.maximum(np.ptp(numbers, axis=0), 1e-12)
    near = np.empty((len(frame), min(MOST_NEIGHBOURS, len(frame) - 1)), dtype=np.int32)
    for first in range(0, len(frame), BLOCK):
        rows = np.arange(first, min(first + BLOCK, len(frame)))
        distance = np.zeros((len(rows), len(frame)))
        for column in scaled.T:
            distance += np.abs(column[rows, None] - column)
        for column in words.T:
            distance += column[rows, None] != column
        distance[np.arange(len(rows)), rows] = np.inf
        near[rows] = np.argsort(distance, axis=1, kind="stable")[:, : near.shape[1]]
    return near


def neighbours_of_others(distance: Distance, frame: pd.DataFrame, labels: Rows) -> NDArray[np.int32]:
    """The nearest rows (N, 80) of other folds, by a distance that is learned on these folds."""
    fold = assign_folds(labels, FOLDS)
    training = [np.flatnonzero(fold != number) for number in range(FOLDS)]
    near = np.empty((len(labels), min(MOST_NEIGHBOURS, *map(len, training))), dtype=np.int32)
    for number, rows in enumerate(training):
        held_out = np.flatnonzero(fold == number)
        points = distance(frame, labels, rows)
        for block in np.array_split(held_out, max(1, len(held_out) // BLOCK)):
            product = points[block] @ points[rows].T
            closeness = product.toarray() if isinstance(product, csr_matrix) else product
            near[block] = rows[np.argsort(-closeness, axis=1, kind="stable")[:, : near.shape[1]]]
    return near


def shared_leaves(frame: pd.DataFrame, labels: Rows, rows: Rows) -> csr_matrix:
    """One entry per tree and leaf: the product is the number of trees in which two samples are in the same leaf."""
    points = scaled_columns(frame)
    forest = RandomForestClassifier(200, min_samples_leaf=3, random_state=0).fit(points[rows], labels[rows])
    return csr_matrix(OneHotEncoder(dtype=np.float32).fit_transform(forest.apply(points)))


def network_features(frame: pd.DataFrame, labels: Rows, rows: Rows) -> Array:
    """Activations before the last layer of a network that was trained for 20 epochs, with length 1."""
    points = scaled_columns(frame)
    network = MLPClassifier((128, 64), alpha=0.1, max_iter=20, random_state=0).fit(points[rows], labels[rows])
    for weights, bias in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
        points = np.maximum(points @ weights + bias, 0)
    return np.asarray(points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12))


def target_encoded(frame: pd.DataFrame, labels: Rows, rows: Rows) -> Array:
    """Columns of words become the class frequencies of each word (one class if there are two), columns are scaled.

    Two more columns turn the product into minus the squared Euclidean distance, up to a constant per sample.
    """
    numbers, words = split_columns(frame)
    classes, columns = int(labels.max()) + 1, [numbers]
    for word in words.T:
        counts = np.zeros((word.max() + 1, classes))
        np.add.at(counts, (word[rows], labels[rows]), 1)
        share = (counts + counts.sum(axis=0) / len(rows)) / (counts.sum(axis=1, keepdims=True) + 1)
        columns.append(share[word][:, : classes if classes > 2 else 1])
    points = StandardScaler().fit_transform(np.column_stack(columns))
    squares = (points**2).sum(axis=1)
    result, training = np.column_stack([points, np.ones_like(squares)]), np.zeros(len(points), dtype=np.bool_)
    training[rows] = True
    result[training, -1] = -squares[training] / 2
    return np.asarray(result)


def scaled_columns(frame: pd.DataFrame) -> Array:
    """Standardised numbers, and one column for each word (N, D)."""
    numbers, words = split_columns(frame)
    parts = [StandardScaler().fit_transform(numbers)] if numbers.shape[1] else []
    if words.shape[1]:
        parts.append(OneHotEncoder(sparse_output=False).fit_transform(words))
    return np.concatenate(parts, axis=1)


def split_columns(frame: pd.DataFrame) -> tuple[Array, Rows]:
    """Columns of numbers (N, D), the median where one is missing, and codes (N, C) of columns of words."""
    numbers = frame.select_dtypes("number")
    words = frame.drop(columns=numbers.columns)
    codes = [pd.factorize(words[name].astype(str))[0] for name in words]
    filled = numbers.fillna(numbers.median()).fillna(0).to_numpy(np.float64)
    return filled, np.column_stack(codes).astype(np.int64) if codes else np.empty((len(frame), 0), np.int64)
