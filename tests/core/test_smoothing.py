import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, logsumexp

from errata.core.smoothing import smooth
from errata.errors import InputError


def made_up(samples=60, classes=5, k=7, spread=3.0, seed=0):
    rng = np.random.default_rng(seed)
    logs = log_softmax(spread * rng.normal(size=(samples, classes)), axis=1)
    return logs, rng.integers(0, samples, (samples, k)).astype(np.int32)


def plainly(logs, index, own):
    return own * logs + (1 - own) * (logsumexp(logs[index], axis=1) - np.log(index.shape[1]))


@given(
    own=st.floats(0, 1),
    spread=st.sampled_from([0.1, 3.0, 100.0, 1e4]),
    k=st.integers(1, 9),
    classes=st.integers(2, 6),
    seed=st.integers(0, 99),
)
def test_as_log_sum_exp(own, spread, k, classes, seed):
    logs, index = made_up(40, classes, k, spread, seed)
    np.testing.assert_allclose(smooth(logs, index, own), plainly(logs, index, own), rtol=1e-12, atol=1e-14)


def test_a_case_by_hand():
    logs = np.log([[0.9, 0.1], [0.5, 0.5], [0.3, 0.7]])
    blended = smooth(logs, [[1, 2], [0, 2], [0, 0]], 0.25)
    np.testing.assert_allclose(np.exp(blended[0]), [0.9**0.25 * 0.4**0.75, 0.1**0.25 * 0.6**0.75])
    np.testing.assert_allclose(np.exp(blended[2]), [0.3**0.25 * 0.9**0.75, 0.7**0.25 * 0.1**0.75])


def test_many_samples_in_several_blocks():
    logs, index = made_up(30_000, 12, 4)
    np.testing.assert_allclose(smooth(logs, index, 0.5), plainly(logs, index, 0.5), rtol=1e-12)


def test_own_only_is_what_was_given():
    logs, index = made_up()
    logs[3] = np.log([1, 1e-300, 1e-300, 1e-300, 1e-300])
    blended = smooth(logs, index, 1)
    np.testing.assert_array_equal(blended, logs)
    assert not np.shares_memory(blended, logs)


@pytest.mark.filterwarnings("error")
def test_no_probability_at_all():
    with np.errstate(divide="ignore"):
        logs = np.log([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    index = np.array([[1, 2], [0, 3], [1, 3], [0, 0]])
    neighbours_only = smooth(logs, index, 0)
    np.testing.assert_allclose(np.exp(neighbours_only), [[0.5, 0.5, 0], [1, 0, 0], [0.75, 0.25, 0], [1, 0, 0]])
    assert not np.isnan(neighbours_only).any()
    np.testing.assert_array_equal(smooth(logs, index, 1), logs)
    blended = smooth(logs, index, 0.5)
    np.testing.assert_array_equal(np.isneginf(blended), np.isneginf(logs) | np.isneginf(neighbours_only))
    assert not np.isnan(blended).any()


def test_probabilities_too_small_for_a_float():
    logs = np.array([[0.0, -2000.0], [0.0, -2001.0], [0.0, -3000.0]])
    blended = smooth(logs, [[1, 2], [0, 2], [0, 1]], 0)
    np.testing.assert_allclose(
        blended[:, 1], [-2001 - np.log(2), -2000 - np.log(2), -2000 + np.log((1 + np.exp(-1)) / 2)]
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_types_and_read_only_arrays(dtype):
    logs, index = made_up()
    logs = logs.astype(dtype)
    logs.flags.writeable = index.flags.writeable = False
    blended = smooth(logs, index.astype(np.int64), 0.5)
    assert blended.dtype == np.float64
    np.testing.assert_allclose(blended, plainly(logs.astype(np.float64), index, 0.5), rtol=1e-12)


def test_memory_does_not_hold_the_neighbours_rows():
    logs, index = made_up(3000, 40, 100)
    smooth(logs[:200], index[:200] % 200, 0.5)
    tracemalloc.start()
    smooth(logs, index, 0.5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * logs.nbytes


GOOD = np.log([[0.5, 0.5], [0.2, 0.8]])


@pytest.mark.parametrize(
    ("logs", "index", "own", "message"),
    [
        (GOOD, [[1], [0]], 1.5, "own must be between 0 .* and 1 .*, not 1.5"),
        (GOOD, [[1], [0]], np.nan, "own must be between"),
        (GOOD[0], [[1], [0]], 0.5, r"log-probabilities must have shape \(samples, classes\), not \(2,\)"),
        (np.zeros((2, 2), dtype=int), [[1], [0]], 0.5, "log-probabilities must be floating-point numbers, not int64"),
        (
            np.array([[0], [3]]) + GOOD,
            [[1], [0]],
            0.5,
            "the probabilities of sample 1 sum to 20.0855, not 1; pass log-prob",
        ),
        (np.array([[np.nan], [0]]) + GOOD, [[1], [0]], 1, "the probabilities of sample 0 sum to nan, not 1"),
        (GOOD, [[1], [2]], 0.5, r"sample 1 has a neighbour outside rows 0\.\.1"),
        (GOOD, [[-1], [0]], 0.5, r"sample 0 has a neighbour outside rows 0\.\.1"),
        (GOOD, [[1.0], [0.0]], 0.5, "neighbours must be row numbers, not float64"),
        (GOOD, [[1]], 0.5, r"neighbours must have shape \(2, k\), one row for each sample, not \(1, 1\)"),
        (GOOD, np.empty((2, 0), dtype=int), 0.5, r"neighbours must have shape \(2, k\).*not \(2, 0\)"),
    ],
)
def test_bad_input(logs, index, own, message):
    with pytest.raises(InputError, match=message):
        smooth(logs, index, own)
