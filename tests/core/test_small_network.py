"""The network in NumPy against scikit-learn's MLPClassifier, bit for bit."""

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier

from errata.core.small_network import SmallNetwork


@pytest.mark.parametrize(
    ("samples", "columns", "classes", "batch", "widths"),
    [
        (178, 13, 3, 16, (128, 64)),
        (178, 13, 2, 16, (128, 64)),  # two classes have one output
        (9, 1, 9, 20, (5,)),  # one batch, classes that no chosen row has
        (401, 60, 10, 33, (40, 20, 10)),  # the last batch is smaller
    ],
)
def test_predicts_the_same_bits_as_scikit_learn(samples, columns, classes, batch, widths):
    rng = np.random.default_rng(0)
    inputs, labels = rng.normal(size=(samples, columns)).astype(np.float32), rng.integers(0, classes, samples)
    rows = np.sort(rng.choice(samples, samples * 4 // 5, replace=False))
    batch = min(batch, len(rows))
    theirs = MLPClassifier(widths, alpha=0.3, learning_rate_init=0.01, batch_size=batch, random_state=0)
    network = SmallNetwork((columns, *widths), classes, 0.01, 0.3, batch)
    for _ in range(4):
        theirs.partial_fit(inputs[rows], labels[rows], classes=np.arange(classes))
        network.train_epoch(inputs, labels, rows)
        found = network.probabilities(inputs)
        np.testing.assert_array_equal(found, theirs.predict_proba(inputs))
        assert found.dtype == np.float32


def test_learns_without_changing_its_inputs():
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 3
    inputs = (np.eye(3)[labels] + rng.normal(scale=0.2, size=(120, 3))).astype(np.float32)
    before = inputs.copy()
    network = SmallNetwork((3, 16), 3, 0.01, 0.001, 16)
    for _ in range(20):
        network.train_epoch(inputs, labels, np.arange(0, 120, 2))
    assert (network.probabilities(inputs).argmax(axis=1) == labels).mean() > 0.95
    np.testing.assert_array_equal(inputs, before)
