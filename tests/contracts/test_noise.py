"""Properties of every registered noise model; a new one is checked without a change here."""

from dataclasses import replace

import numpy as np
import pytest

from errata.core.noise import NOISE_MODELS, inject, label_hash, transition
from errata.datasets.label_noise import RecordedNoise, TransitionNoise
from errata.datasets.registry import dataset, settings
from errata.datasets.spec import UNKNOWN, PreparedData
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
def test_injected_noise_matches_its_description(model):
    labels = np.random.default_rng(0).integers(0, 5, 4000)
    noisy = inject(labels, model(5, 0.2), seed=3)
    np.testing.assert_array_equal(noisy.truth, noisy.labels != labels)
    np.testing.assert_array_equal(noisy.realised, transition(labels, noisy.labels, 5))
    assert noisy.count == noisy.truth.sum()
    assert abs(noisy.rate - 0.2) < 5 * np.sqrt(0.2 * 0.8 / 4000)
    again = inject(labels, model(5, 0.2), seed=3)
    assert again.hash == noisy.hash
    assert inject(labels, model(5, 0.2), seed=4).hash != noisy.hash


@every_model
@pytest.mark.parametrize("rate", [-0.1, 1.1, np.nan])
def test_an_invalid_rate_is_refused(model, rate):
    with pytest.raises(InputError):
        model(3, rate)


@every_model
def test_is_described(model):
    assert model.__doc__


PUT_IN = {name: one for name, one in settings().items() if not isinstance(one.noise, TransitionNoise | RecordedNoise)}
PUT_IN |= {one.noise.kind: one for one in settings().values() if isinstance(one.noise, TransitionNoise)}
every_setting = pytest.mark.parametrize("setting", PUT_IN.values(), ids=PUT_IN)


def like(name):
    """A small table with the classes of a dataset, 100 training and 10 test samples of each."""
    classes = dataset(name).classes
    rng = np.random.default_rng(0)
    train, test = (rng.permutation(np.repeat(np.arange(len(classes)), samples)) for samples in (100, 10))
    inputs = [np.float32(rng.normal(size=(len(labels), 6))) for labels in (train, test)]
    return PreparedData(name, "table", classes, inputs[0], train, inputs[1], test, content_hash="made up")


@every_setting
def test_noise_of_a_setting_matches_its_description(setting):
    data = like(setting.dataset)
    noisy = setting.noise.label(data)
    part = noisy.data
    assert len(noisy.given) == len(noisy.truth) == len(part.train_inputs) == len(part.train_labels)
    assert len(part.test_inputs) == len(part.test_labels)
    assert noisy.truth.dtype == bool
    np.testing.assert_array_equal(noisy.truth, noisy.given != part.train_labels)
    for labels in (noisy.given, part.test_labels, part.train_labels[part.train_labels != UNKNOWN]):
        assert set(np.unique(labels)) == set(range(part.num_classes))
    assert noisy.noise["count"] == noisy.truth.sum()
    assert noisy.noise["rate"] == noisy.truth.mean()
    assert noisy.noise["nominal_rate"] == setting.noise.rate
    assert 0.05 < noisy.noise["rate"] < setting.noise.rate + 0.05
    assert noisy.noise["hash"] == label_hash(noisy.given)
    assert setting.noise.name == f"{noisy.noise['kind']}-{round(100 * setting.noise.rate)}"


@every_setting
def test_noise_of_a_setting_is_deterministic_and_does_not_change_the_data(setting):
    data = like(setting.dataset)
    for array in (data.train_inputs, data.train_labels, data.test_inputs, data.test_labels):
        array.flags.writeable = False
    noisy, again = setting.noise.label(data), setting.noise.label(data)
    assert noisy.noise == again.noise
    np.testing.assert_array_equal(noisy.data.train_inputs, again.data.train_inputs)
    assert (noisy.data.content_hash == data.content_hash) == (noisy.data is data)
    other = replace(setting.noise, seed=1).label(data)
    assert other.noise["hash"] != noisy.noise["hash"]
