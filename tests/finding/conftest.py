"""A small table with known errors."""

import numpy as np
import pytest

from errata.core.noise import symmetric


def blobs(samples=180, classes=3, seed=0):
    """Gaussian clusters (N, 4), one per class, and their labels."""
    rng = np.random.default_rng(seed)
    labels = np.arange(samples) % classes
    centres = 4 * np.eye(classes, 4)
    return (centres[labels] + rng.normal(size=(samples, 4))).astype(np.float32), labels


@pytest.fixture(scope="session")
def clouds():
    """Inputs, and noisy labels of which about a tenth are wrong."""
    inputs, labels = blobs()
    return inputs, symmetric(labels, 0.1, num_classes=3, seed=1)
