import numpy as np
import oracle
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import jensenshannon
from scipy.special import softmax

from errata.core.measures import CE, CPD, JS, LM
from errata.core.method_registry import registered
from errata.errors import InputError

MEASURES = registered("measure")
logits_and_labels = st.integers(2, 6).flatmap(
    lambda k: st.tuples(
        arrays(np.float64, st.tuples(st.integers(1, 5), st.just(k)), elements=st.floats(-30, 30, width=32)),
        st.integers(0, k - 1),
    )
)


@pytest.mark.parametrize("name", MEASURES)
@given(logits_and_labels)
def test_equals_the_formula_as_printed(name, case):
    logits, label = case
    expected = [oracle.MEASURES[name](row.tolist(), label) for row in logits]
    np.testing.assert_allclose(MEASURES[name](logits, label), expected, rtol=1e-9, atol=1e-13)


def test_js_against_scipy():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(50, 7)) * 3, rng.integers(0, 7, 50)
    expected = [jensenshannon(softmax(z), np.eye(7)[y]) ** 2 for z, y in zip(logits, labels, strict=True)]
    np.testing.assert_allclose(JS(logits, labels), expected, rtol=1e-9)


def test_ce_and_lm_are_exact_where_probabilities_underflow():
    gap = np.array([0.0, 40.0, 700.0, 1e4])
    logits = np.stack([np.zeros(4), gap], axis=1)
    np.testing.assert_allclose(CE(logits, np.zeros(4, int)), np.log1p(np.exp(-gap)) + gap, rtol=1e-12)
    confident = CE(logits, np.ones(4, int))
    np.testing.assert_allclose(confident[:3], np.log1p(np.exp(-gap[:3])), rtol=1e-12)
    assert confident[3] == 0.0 or confident[3] < 1e-300
    np.testing.assert_array_equal(LM(logits, np.zeros(4, int)), gap)


@pytest.mark.parametrize("extreme", [1e4, -1e4])
@pytest.mark.parametrize("name", MEASURES)
def test_finite_and_ordered_for_huge_logits(name, extreme):
    logits = np.array([[extreme, -extreme, 0.0], [1e4, 1e4, 1e4], [-1e4, 1e4, 1e4 - 1]])
    for label in range(3):
        assert np.isfinite(MEASURES[name](logits, np.full(3, label))).all()


def test_many_classes_far_behind_add_up():
    logits = np.full((1, 1001), -800.0)
    logits[0, 0] = 0.0
    np.testing.assert_allclose(CE(logits, [0]), 0.0, atol=1e-300)
    np.testing.assert_allclose(CE(logits, [1]), 800.0, rtol=1e-12)


@pytest.mark.parametrize("name", MEASURES)
def test_half_is_the_value_at_half_the_probability(name):
    assert MEASURES[name](np.array([[1.5, 1.5]]), [1])[0] == pytest.approx(MEASURES[name].half, abs=1e-15)


def test_a_tie_agrees_whatever_the_order_of_classes():
    tied = np.array([[2.0, 2.0, 1.0]])
    assert CPD(tied, [0]) == CPD(tied, [1]) == 0
    assert CPD(tied, [2]) == 1


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_tensors_agree_with_arrays(name, dtype):
    torch.manual_seed(0)
    logits = (torch.randn(3, 20, 5) * 4).to(dtype).requires_grad_()
    labels = torch.randint(0, 5, (20,))
    expected = MEASURES[name](logits.detach().double().numpy(), labels.numpy())
    np.testing.assert_allclose(MEASURES[name](logits, labels), expected, rtol=1e-12)


def test_leading_shapes():
    logits = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    labels = np.random.default_rng(1).integers(0, 5, (2, 3, 4))
    whole = LM(logits, labels)
    assert whole.shape == (2, 3, 4)
    assert whole[1, 2, 3] == LM(logits[1, 2, 3], labels[1, 2, 3])
    np.testing.assert_array_equal(LM(logits, labels[0, 0]), LM(logits, np.broadcast_to(labels[0, 0], (2, 3, 4))))


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        ([[0.0, np.nan]], [0], "sample 0 are not finite"),
        ([[0.0, 1.0], [np.inf, 0.0]], [0, 0], "sample 1 are not finite"),
        ([[0.0], [1.0]], [0, 0], "at least two classes"),
        ([[0.0, 1.0]], [2], "outside 0..1"),
        ([[0.0, 1.0]], [-1], "outside 0..1"),
        ([[0.0, 1.0]], [0.5], "not a class number"),
        ([["a", "b"]], [0], "must be numbers"),
    ],
)
def test_refuses(logits, labels, message):
    with pytest.raises(InputError, match=message):
        CE(np.array(logits), np.array(labels))
