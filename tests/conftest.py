"""Shared by all tests."""

import numpy as np
import pytest
from hypothesis import settings

# The first call of a kernel compiles it; a deadline would time the compiler.
settings.register_profile("errata", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("errata")


def learned_curves(seed, epochs=12, samples=60, classes=5, noise=0.2, dtype=np.float32):
    """Logits (E, N, K) of a made-up run that learns the true class early and wrong labels late, labels, truth."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, classes, samples)
    wrong = rng.random(samples) < noise
    labels = np.where(wrong, (true + rng.integers(1, classes, samples)) % classes, true)
    logits = rng.normal(size=(epochs, samples, classes))
    progress = np.linspace(0, 1, epochs)[:, None]
    rows = np.arange(samples)
    logits[:, rows, true] += 4 * progress
    logits[:, rows, labels] += 3 * progress**3
    return logits.astype(dtype), labels, wrong


@pytest.fixture
def curves():
    return learned_curves
