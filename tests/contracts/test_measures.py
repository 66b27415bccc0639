"""The contract of every registered measure; a new one is checked without being named here."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from errata.core.method_registry import registered

every_measure = pytest.mark.parametrize("measure", registered("measure").values(), ids=list(registered("measure")))
# Multiples of 1/8 so that shifting and permuting is exact.
rows = arrays(np.float64, (4, 5), elements=st.integers(-80, 80).map(lambda v: v / 8))
labels = arrays(np.int64, 4, elements=st.integers(0, 4))


@every_measure
@given(rows, labels)
def test_shape_type_and_input_unchanged(measure, logits, given_labels):
    before, labels_before = logits.copy(), given_labels.copy()
    logits.flags.writeable = False
    result = measure(logits, given_labels)
    assert result.shape == (4,)
    assert result.dtype == np.float64
    assert np.isfinite(result).all()
    np.testing.assert_array_equal(logits, before)
    np.testing.assert_array_equal(given_labels, labels_before)


@every_measure
@given(rows, labels, st.integers(-100, 100))
def test_a_constant_added_to_a_row_changes_nothing(measure, logits, given_labels, constant):
    np.testing.assert_allclose(measure(logits + constant, given_labels), measure(logits, given_labels), rtol=1e-12)


@every_measure
@given(rows, labels, st.permutations(range(5)), st.permutations(range(4)))
def test_names_of_classes_and_order_of_samples_do_not_matter(measure, logits, given_labels, classes, samples):
    whole = measure(logits, given_labels)
    renamed = np.argsort(classes)[given_labels]
    np.testing.assert_allclose(measure(logits[:, classes], renamed), whole, rtol=1e-12, atol=1e-15)
    samples = list(samples)
    np.testing.assert_array_equal(measure(logits[samples], given_labels[samples]), whole[samples])


@every_measure
@given(rows, labels, st.floats(0.125, 5))
def test_grows_when_the_given_label_loses_probability(measure, logits, given_labels, loss):
    weaker = logits.copy()
    weaker[np.arange(4), given_labels] -= loss
    assert (measure(weaker, given_labels) >= measure(logits, given_labels)).all()


@every_measure
@given(rows, labels)
def test_half_precision_is_read_exactly(measure, logits, given_labels):
    half = logits.astype(np.float16)
    np.testing.assert_array_equal(measure(half, given_labels), measure(half.astype(np.float64), given_labels))


@every_measure
def test_is_described(measure):
    assert measure.formula.__doc__
    assert measure.statistic in ("log_odds", "margin")
