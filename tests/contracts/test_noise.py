"""What every registered noise model keeps to; a new one is checked without being named here."""

import numpy as np
import pytest

from errata.core.noise import NOISE_MODELS, inject, transition
from errata.errors import InputError

every_model = pytest.mark.parametrize("model", NOISE_MODELS.values(), ids=NOISE_MODELS)


@every_model
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_is_a_transition_matrix_that_flips_at_the_rate(model, rate, classes):
    matrix = model(classes, rate)
    assert matrix.shape == (classes, classes)
    assert (matrix >= 0).all()
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    np.testing.assert_allclose(1 - np.diag(matrix), rate, atol=1e-12)


@every_model
@pytest.mark.parametrize("draw", ["independent", "exact"])
def test_injected_noise_is_what_it_says(model, draw):
    labels = np.random.default_rng(0).integers(0, 5, 4000)
    noisy = inject(labels, model(5, 0.2), draw=draw, seed=3)
    np.testing.assert_array_equal(noisy.truth, noisy.labels != labels)
    np.testing.assert_array_equal(noisy.realised, transition(labels, noisy.labels, 5))
    assert noisy.count == noisy.truth.sum()
    assert abs(noisy.rate - 0.2) < (0.001 if draw == "exact" else 5 * np.sqrt(0.2 * 0.8 / 4000))
    again = inject(labels, model(5, 0.2), draw=draw, seed=3)
    assert again.hash == noisy.hash
    assert inject(labels, model(5, 0.2), draw=draw, seed=4).hash != noisy.hash


@every_model
@pytest.mark.parametrize("rate", [-0.1, 1.1, np.nan])
def test_a_rate_that_is_none_is_refused(model, rate):
    with pytest.raises(InputError):
        model(3, rate)


@every_model
def test_is_described(model):
    assert model.__doc__
