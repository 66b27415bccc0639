"""The contract of every registered method at its default parameters; a new one is checked without being named here."""

from functools import cache

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from errata.core.method_registry import registered
from errata.core.methods import all_methods, parse
from errata.core.pooling import held_out_pool
from errata.core.replay import Epochs, replay
from errata.core.sample_context import SampleContext
from errata.core.windows import window_scores
from errata.dynamics.store import Dynamics

METHODS = [method for method in all_methods() if method.gathering == "in-sample"]
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)


def averaged(logits):
    return logits.mean(axis=0)


def random_spaces(labels, classes):
    """Random features, so that neighbours are known, and predictions of held-out labels from random inputs."""
    return _shared_spaces(labels.tobytes(), classes)


@cache
def _shared_spaces(labels, classes):
    """Held-out predictions are made once for all methods, because they train models."""
    given = np.frombuffer(labels, dtype=np.int64)
    features, inputs = np.random.default_rng(7).normal(size=(2, len(given), 2))
    held_out = held_out_pool(given, classes, SampleContext(inputs=inputs))
    if held_out is None:  # too few samples, or a single class
        held_out = np.full((len(given), classes), -np.log(classes))
    return SampleContext(features=features, held_out=held_out)


def run(method, logits, labels):
    spaces = random_spaces(labels, logits.shape[2])
    return replay(Epochs(logits, labels, swa_logits=averaged(logits), context=spaces), [method])[0]


@every_method
def test_scores_are_finite_and_the_input_is_unchanged(curves, method):
    logits, labels, _ = curves(0)
    before, labels_before = logits.copy(), labels.copy()
    logits.flags.writeable = False
    verdict = run(method, logits, labels)
    assert verdict.scores.shape == labels.shape
    assert verdict.scores.dtype == np.float64
    assert np.isfinite(verdict.scores).all()
    if verdict.flags is not None:
        assert verdict.flags.shape == labels.shape
        assert verdict.flags.dtype == np.bool_
    np.testing.assert_array_equal(logits, before)
    np.testing.assert_array_equal(labels, labels_before)


@every_method
def test_planted_errors_come_first(method):
    """A model that never learns the planted labels. Ties count half, so flags alone can reach 0.75."""
    rng = np.random.default_rng(1)
    true = np.arange(300) % 5
    planted = np.arange(300) % 7 == 0
    labels = np.where(planted, (true + 1) % 5, true)
    logits = 0.3 * rng.normal(size=(20, 300, 5))
    logits[:, np.arange(300), true] += 6 * np.linspace(0.3, 1, 20)[:, None]
    assert roc_auc_score(planted, run(method, logits, labels).scores) > 0.7


@every_method
def test_the_same_twice(curves, method):
    logits, labels, _ = curves(2)
    first, second = run(method, logits, labels), run(method, logits, labels)
    np.testing.assert_array_equal(first.scores, second.scores)


@pytest.fixture(scope="module")
def together(curves):
    """The results of all methods, computed in one call, and the run."""
    logits, labels, _ = curves(3)
    epochs = Epochs(logits, labels, swa_logits=averaged(logits), context=random_spaces(labels, logits.shape[2]))
    return dict(zip(METHODS, replay(epochs, METHODS), strict=True)), logits, labels


@every_method
def test_computed_together_or_alone(together, method):
    results, logits, labels = together
    np.testing.assert_array_equal(results[method].scores, run(method, logits, labels).scores)


@every_method
def test_a_window_is_the_sliced_run(curves, method):
    logits, labels, _ = curves(4)
    if method.reduction.aggregation.reads == "no epoch":
        assert Dynamics.from_arrays(logits, labels, swa_logits=averaged(logits)).window((2, 7)).swa_logits is None
        return
    spaces = random_spaces(labels, logits.shape[2])
    whole = window_scores(Epochs(logits, labels, context=spaces), method, [(2, 7)])[0]
    np.testing.assert_allclose(whole, run(method, logits[2:8], labels).scores, rtol=1e-12, atol=1e-14)


@every_method
def test_flagged_samples_come_first(curves, method):
    logits, labels, _ = curves(5, samples=200)
    verdict = run(method, logits, labels)
    if verdict.flags is None or not verdict.flags.any() or verdict.flags.all():
        return
    assert verdict.scores[verdict.flags].min() >= verdict.scores[~verdict.flags].max()


@every_method
@pytest.mark.parametrize("shape", [(1, 30, 3), (5, 1, 3), (5, 2, 2), (3, 6, 50)])
def test_small_shapes_work(method, shape):
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=shape), rng.integers(0, shape[2], shape[1])
    assert np.isfinite(run(method, logits, labels).scores).all()


@every_method
@pytest.mark.parametrize("labels", [[0] * 16, [0] * 15 + [3], [1, 2] * 8])
def test_absent_classes_single_class_and_a_class_with_one_sample(method, labels):
    logits = np.random.default_rng(0).normal(size=(6, 16, 4))
    assert np.isfinite(run(method, logits, np.array(labels)).scores).all()


@every_method
def test_constant_and_saturated_logits(method):
    labels = np.arange(12) % 3
    assert np.isfinite(run(method, np.zeros((6, 12, 3)), labels).scores).all()
    saturated = np.zeros((6, 12, 3), dtype=np.float32)
    saturated[:, :, 0] = 1e4
    assert np.isfinite(run(method, saturated, labels).scores).all()


@every_method
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_any_float_type_and_layout(curves, method, dtype):
    logits, labels, _ = curves(6)
    logits = logits.astype(np.float16).astype(dtype)
    expected = run(method, logits.astype(np.float64), labels).scores
    if method.reduction.aggregation.reads == "no epoch":
        expected = run(method, logits, labels).scores
    strided = np.asfortranarray(logits)
    spaces = random_spaces(labels, logits.shape[2])
    result = replay(Epochs(strided, labels, swa_logits=averaged(logits), context=spaces), [method])[0].scores
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@every_method
def test_its_name_parses_back(method):
    assert parse(method.name) == method


@pytest.mark.parametrize("kind", ["aggregation", "step", "detector"])
def test_every_part_is_described_and_its_parameters_have_defaults(kind):
    for name, part in registered(kind).items():
        assert part.registered_name == name
        assert part.__doc__
        assert kind == "detector" or part().name == name
