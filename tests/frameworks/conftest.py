"""Real frameworks on scikit-learn's digits; `make test-all` installs them."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import errata

os.environ["KERAS_BACKEND"] = "torch"
SAMPLES = 203  # an odd number: batches and ranks do not come out even
LIMIT_S = 200


@pytest.fixture(scope="session")
def digits():
    """Inputs (N, 64) as float32, labels (N,) of ten classes, some of them wrong, and names of the samples."""
    from sklearn.datasets import load_digits

    inputs, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    wrong = rng.random(SAMPLES) < 0.1
    given = np.where(wrong, rng.integers(0, 10, SAMPLES), labels[:SAMPLES])
    return (inputs[:SAMPLES] / 16).astype(np.float32), given, [f"scan {row:03d}" for row in range(SAMPLES)]


@pytest.fixture
def run_script(tmp_path):
    """Run a Python file in a new process, in an empty folder; returns its output."""

    def run(file, *arguments, launcher=()):
        environment = os.environ | {"PYTHONPATH": str(Path(errata.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, *launcher, str(file), *map(str, arguments)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


class Witness:
    """Stores the outputs of a model by sample, independently of errata: (E, N, K)."""

    def __init__(self, classes=10, samples=SAMPLES):
        self.shape = (samples, classes)
        self.epochs = []

    def begin_epoch(self):
        self.epochs.append(np.full(self.shape, np.nan, dtype=np.float32))

    def saw(self, rows, logits):
        for row, values in zip(rows.tolist(), logits.tolist(), strict=True):
            assert np.isnan(self.epochs[-1][row]).all()
            self.epochs[-1][row] = values

    @property
    def logits(self):
        return np.stack(self.epochs)


@pytest.fixture
def witness():
    return Witness
