import numpy as np
import pytest

SAMPLES = 300


def drawn(classes):
    """Inputs of separable classes, and labels, some of them wrong."""
    rng = np.random.default_rng(classes)
    labels = rng.integers(0, classes, SAMPLES)
    inputs = rng.normal(size=(SAMPLES, 6))
    inputs[np.arange(SAMPLES), labels] += 2.0
    wrong = rng.random(SAMPLES) < 0.1
    return inputs, np.where(wrong, (labels + 1) % classes, labels)


@pytest.fixture(scope="session")
def two():
    """Two classes."""
    return drawn(2)


@pytest.fixture(scope="session")
def four():
    """Four classes."""
    return drawn(4)
