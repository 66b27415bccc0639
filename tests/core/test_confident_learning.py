import math
import re
from fractions import Fraction

import numpy as np
import pytest
from cleanlab.filter import find_label_issues
from hypothesis import given
from hypothesis import strategies as st

from errata.core._confident_kernels import nth_largest
from errata.core.confident_learning import VARIANTS, calibrate, confident_joint, flags, scores
from errata.core.confident_rules import CLEANLAB, PAPER
from errata.errors import InputError

FILTERS = {
    "CC": "predicted_neq_given",
    "CYY": "confident_learning",
    "PBC": "prune_by_class",
    "PBNR": "prune_by_noise_rate",
}
in_every_variant = pytest.mark.parametrize("variant", VARIANTS)
by_both_rules = pytest.mark.parametrize("rules", [PAPER, CLEANLAB], ids=["paper", "cleanlab"])
in_both_precisions = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def predictions(seed, samples, classes, *, scale=1.0, shares=None, noise=0.25, dtype=np.float64):
    """Probabilities of a model that is mostly right, and labels, some of which are wrong."""
    rng = np.random.default_rng(seed)
    true = rng.choice(classes, samples, p=shares)
    labels = np.where(rng.random(samples) < noise, rng.choice(classes, samples, p=shares), true)
    logits = rng.normal(size=(samples, classes))
    logits[np.arange(samples), true] += rng.normal(np.log(classes) + 1, 1.5, samples)
    return softmax(scale * logits).astype(dtype), labels


# The paper's formulas, in exact arithmetic and plain Python.


def hashed(row):
    mask = 2**64 - 1
    h = (row + 0x9E3779B97F4A7C15) & mask
    h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) & mask
    h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) & mask
    return h ^ (h >> 31)


def plain_confident_classes(P, y):
    rows, classes = P.tolist(), range(P.shape[1])
    members = [[row for row, label in zip(rows, y, strict=True) if label == k] for k in classes]
    thresholds = [
        float(sum(Fraction(row[k]) for row in members[k]) / len(members[k])) if members[k] else math.inf
        for k in classes
    ]
    confident = []
    for row in rows:
        reached = [k for k in classes if row[k] >= thresholds[k]]
        confident.append(reached[0] if len(reached) == 1 else row.index(max(row)) if reached else None)
    return confident


def plain_joint(P, y):
    counts = np.zeros((P.shape[1], P.shape[1]), np.int64)
    for label, confident in zip(y, plain_confident_classes(P, y), strict=True):
        if confident is not None:
            counts[label, confident] += 1
    return counts


def plain_calibrated(counts, class_counts):
    """N·Q as fractions; a class without confident samples is on the diagonal."""
    K = len(counts)
    expected = [[Fraction(int(class_counts[i]) if i == j else 0) for j in range(K)] for i in range(K)]
    for i in range(K):
        confident = int(counts[i].sum())
        if confident:
            expected[i] = [Fraction(int(counts[i, j]), confident) * int(class_counts[i]) for j in range(K)]
    return expected


def plain_flags(P, y, variant):
    if variant == "CC":
        return [row.index(max(row)) != label for row, label in zip(P.tolist(), y, strict=True)]
    if variant == "CYY":
        confident = plain_confident_classes(P, y)
        return [c is not None and c != label for c, label in zip(confident, y, strict=True)]
    K = P.shape[1]
    expected = plain_calibrated(plain_joint(P, y), np.bincount(y, minlength=K))
    flagged = [False] * len(y)
    for i in range(K):
        members = [row for row, label in enumerate(y) if label == i]
        own = {row: float(P[row, i]) for row in members}
        if variant == "PBC":
            errors = round(sum(expected[i][j] for j in range(K) if j != i))
            chosen = sorted(members, key=lambda row: (own[row], hashed(row)))[:errors]
        else:
            chosen = []
            for j in set(range(K)) - {i}:
                worst = sorted(members, key=lambda row: (own[row] - float(P[row, j]), hashed(row)))
                chosen += worst[: round(expected[i][j])]
        for row in chosen:
            flagged[row] = True
    return flagged


@st.composite
def small_problems(draw):
    """Few rows, few classes and coarse probabilities: ties, absent classes and one-sample classes are common."""
    K = draw(st.integers(2, 4))
    weights = st.lists(st.integers(0, 5), min_size=K, max_size=K).filter(any)
    rows = draw(st.lists(weights, min_size=1, max_size=14))
    labels = draw(st.lists(st.integers(0, K - 1), min_size=len(rows), max_size=len(rows)))
    counts = np.array(rows, draw(st.sampled_from([np.float32, np.float64])))
    return counts / counts.sum(axis=1, keepdims=True), np.array(labels)


@in_every_variant
@given(small_problems())
def test_flags_follow_the_papers_formulas(variant, problem):
    P, y = problem
    assert flags(P, y, variant).tolist() == plain_flags(P, y, variant)


@in_every_variant
@in_both_precisions
def test_flags_follow_the_papers_formulas_on_a_model_that_is_mostly_right(variant, dtype):
    P, y = predictions(0, 600, 5, dtype=dtype)
    flagged = flags(P, y, variant)
    assert 0.05 < flagged.mean() < 0.5
    assert flagged.tolist() == plain_flags(P, y, variant)


@given(small_problems())
def test_the_confident_joint_counts_labels_by_confident_class(problem):
    P, y = problem
    counts = confident_joint(P, y)
    assert counts.dtype == np.int64
    np.testing.assert_array_equal(counts, plain_joint(P, y))


def test_an_example_by_hand():
    P = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.3, 0.7], [0.25, 0.75], [0.95, 0.05]])
    y = [0, 0, 0, 1, 1, 1]
    # t = (1.7 / 3, 1.5 / 3); confident: 0, 0, 1, 1, 1, 0
    assert confident_joint(P, y).tolist() == [[2, 1], [1, 2]]
    np.testing.assert_allclose(calibrate(np.array([[2, 1], [1, 2]]), np.array([3, 3])), np.array([[2, 1], [1, 2]]) / 6)
    for variant in VARIANTS:
        assert flags(P, y, variant).tolist() == [False, False, True, False, False, True]


def test_of_several_confident_classes_the_arg_max_of_the_row_is_used():
    # t = (0.85, 0.3, 0.3): the last row reaches classes 1 and 2 only, yet its arg max is class 0.
    P = np.array([[0.85, 0.1, 0.05], [0.4, 0.3, 0.3], [0.1, 0.3, 0.6], [0.6, 0.1, 0.3], [0.4, 0.3, 0.3]])
    y = np.array([0, 1, 1, 2, 2])
    assert confident_joint(P, y)[:, 0].tolist() == [1, 1, 1]


def test_equal_samples_reach_their_threshold():
    P = np.tile([0.1, 0.9], (3, 1))  # (0.1 + 0.1 + 0.1) / 3 > 0.1 in floating point
    assert confident_joint(P, [0, 0, 0]).tolist() == [[3, 0], [0, 0]]


@given(
    st.integers(1, 5).flatmap(
        lambda K: st.tuples(
            st.lists(st.lists(st.integers(0, 50), min_size=K, max_size=K), min_size=K, max_size=K),
            st.lists(st.integers(0, 1000), min_size=K, max_size=K).filter(any),
        )
    )
)
def test_calibrated_rows_sum_to_the_class_sizes(problem):
    counts, class_counts = np.array(problem[0]), np.array(problem[1])
    Q = calibrate(counts, class_counts)
    N = int(class_counts.sum())
    expected = [[float(count / N) for count in row] for row in plain_calibrated(counts, class_counts)]
    np.testing.assert_allclose(Q, expected, rtol=1e-14)
    np.testing.assert_allclose(Q.sum(), 1)
    np.testing.assert_allclose(Q.sum(axis=1), class_counts / N)


def test_a_class_without_confident_samples_is_calibrated_as_clean():
    Q = calibrate(np.array([[0, 0], [1, 3]]), np.array([6, 4]))
    np.testing.assert_allclose(Q, [[0.6, 0], [0.1, 0.3]])


# The same flags as cleanlab.


def cleanlab_flags(P, y, variant):
    return find_label_issues(np.asarray(y), P, filter_by=FILTERS[variant], n_jobs=1)


def coarse(P):
    rounded = np.round(P * 8) + 1e-9
    return rounded / rounded.sum(axis=1, keepdims=True)


def with_tiny_classes():
    P, y = predictions(3, 400, 8)
    keep = (y < 4) | (np.arange(400) % 40 == 0)
    return P[keep], y[keep]


PROBLEMS = {
    "plain": lambda: predictions(0, 3000, 10),
    "few right": lambda: predictions(1, 2000, 6, noise=0.8),
    "imbalanced": lambda: predictions(2, 4000, 5, shares=[0.9, 0.06, 0.03, 0.005, 0.005]),
    "tiny classes": with_tiny_classes,
    "absent classes": lambda: (predictions(4, 800, 9)[0], predictions(4, 800, 9)[1] // 2),
    "saturated": lambda: predictions(5, 3000, 10, scale=60),
    "tied": lambda: (coarse(predictions(6, 3000, 4)[0]), predictions(6, 3000, 4)[1]),
    "all the same": lambda: (np.full((50, 5), 0.2), np.arange(50) % 3),
    "two classes": lambda: predictions(7, 1000, 2),
    "large classes": lambda: predictions(8, 30000, 3),
    "many classes": lambda: predictions(9, 5000, 1000),
}


@pytest.mark.filterwarnings("ignore:May not flag all label issues")
@in_every_variant
@in_both_precisions
@pytest.mark.parametrize("name", PROBLEMS)
def test_flags_are_exactly_those_of_cleanlab(name, dtype, variant):
    P, y = PROBLEMS[name]()
    P = P.astype(dtype)
    np.testing.assert_array_equal(flags(P, y, variant, CLEANLAB), cleanlab_flags(P, y, variant))


@pytest.mark.filterwarnings("ignore:May not flag all label issues")
@in_every_variant
@given(small_problems().filter(lambda problem: len(set(problem[1])) > 1))
def test_flags_are_exactly_those_of_cleanlab_on_small_problems(variant, problem):
    P, y = problem
    np.testing.assert_array_equal(flags(P, y, variant, CLEANLAB), cleanlab_flags(P, y, variant))


@pytest.mark.filterwarnings("ignore:May not flag all label issues")
@pytest.mark.parametrize("variant", ["CYY", "PBC", "PBNR"])  # cleanlab's CC refuses a single class
def test_a_single_class_is_flagged_as_by_cleanlab(variant):
    P, _ = predictions(0, 300, 4)
    y = np.zeros(300, np.int64)
    np.testing.assert_array_equal(flags(P, y, variant, CLEANLAB), cleanlab_flags(P, y, variant))


def test_cleanlab_does_not_flag_a_label_within_its_slack_of_the_arg_max():
    P = np.array([[0.5 - 4e-7, 0.5 + 4e-7], [0.4, 0.6]])
    assert flags(P, [0, 0], "CC").tolist() == [True, True]
    assert flags(P, [0, 0], "CC", CLEANLAB).tolist() == [False, True]


# Invariances.


@in_every_variant
@by_both_rules
@given(seed=st.integers(0, 10**6))
def test_flags_do_not_depend_on_the_order_of_rows(variant, rules, seed):
    P, y = predictions(seed, 120, 4)
    order = np.random.default_rng(seed).permutation(120)
    moved = flags(P[order], y[order], variant, rules)
    np.testing.assert_array_equal(moved, flags(P, y, variant, rules)[order])


@in_every_variant
def test_flags_do_not_depend_on_the_numbering_of_classes(variant):
    P, y = predictions(0, 500, 6)
    renumbered = np.array([3, 0, 5, 1, 4, 2])
    np.testing.assert_array_equal(flags(P[:, np.argsort(renumbered)], renumbered[y], variant), flags(P, y, variant))


@given(small_problems())
def test_prune_by_class_flags_the_estimated_number_in_every_class(problem):
    P, y = problem
    sizes = np.bincount(y, minlength=P.shape[1])
    kept = len(y) * calibrate(confident_joint(P, y), sizes).diagonal()
    spent = np.bincount(y[flags(P, y, "PBC")], minlength=P.shape[1])
    assert np.all(np.abs(spent - (sizes - kept)) <= 0.5 + 1e-9)


@pytest.mark.parametrize("variant", ["PBC", "PBNR"])
def test_flags_of_equal_samples_do_not_depend_on_the_order_of_rows(variant):
    # In class 0, 300 samples are confident in 0, 100 in 1, and 1000 equal ones in neither: 1400 · 100 / 400 errors.
    P = np.repeat([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [0.3, 0.7]], [300, 100, 1000, 500], axis=0)
    y = np.repeat([0, 1], [1400, 500])
    flagged = flags(P, y, variant)
    assert [int(part.sum()) for part in np.split(flagged, [300, 400, 1400])] == [0, 100, 250, 0]
    assert abs(np.flatnonzero(flagged[400:1400]).mean() - 500) < 60


@pytest.mark.parametrize("size", [1, 2, 7, 1500, 2048, 9000])
@pytest.mark.parametrize("shape", ["random", "ascending", "descending", "equal", "coarse", "high where sampled"])
def test_nth_largest_equals_a_sort(size, shape):
    values = np.random.default_rng(size).random(size)
    match shape:
        case "ascending":
            values.sort()
        case "descending":
            values = -np.sort(-values)
        case "equal":
            values[:] = 0.5
        case "coarse":
            values = np.round(values, 1)
        case "high where sampled":
            values[:: max(1, size // 1024)] += 1
    for n in {1, (size + 1) // 2, size, min(size, 3), max(1, size // 20), max(1, size - 1)}:
        assert nth_largest(values, n) == np.sort(values)[::-1][n - 1]


@in_every_variant
@by_both_rules
def test_one_sample_is_accepted(variant, rules):
    assert flags(np.array([[0.3, 0.7]]), [1], variant, rules).tolist() == [False]


@in_every_variant
@by_both_rules
def test_input_of_any_memory_layout_is_read_and_not_changed(variant, rules, tmp_path):
    P, y = predictions(0, 400, 5)
    expected = flags(P, y, variant, rules)
    np.save(tmp_path / "probabilities.npy", P)
    mapped = np.load(tmp_path / "probabilities.npy", mmap_mode="r")
    wide = np.repeat(P, 2, axis=1)
    for given_probabilities in (P, mapped, np.asfortranarray(P), wide[:, ::2]):
        for given_labels in (y, y.astype(np.uint8), y.tolist(), np.repeat(y, 2)[::2]):
            np.testing.assert_array_equal(flags(given_probabilities, given_labels, variant, rules), expected)
    again, labels_again = predictions(0, 400, 5)
    np.testing.assert_array_equal(P, again)
    np.testing.assert_array_equal(y, labels_again)
    assert P.flags.writeable


def test_more_classes_than_int16_holds():
    P = np.zeros((3, 40_000))
    P[[0, 1, 2], [39_999, 39_998, 39_998]] = 1
    assert flags(P, [39_999, 39_998, 39_999], "CYY").tolist() == [False, False, True]


def test_flagged_samples_are_scored_by_self_confidence_and_the_others_are_below():
    P = np.array([[1.0, 0.0], [0.25, 0.75], [0.0, 1.0], [0.5, 0.5], [0.9, 0.1]])
    result = scores(np.array([True, True, True, False, False]), P, np.zeros(5, np.int64))
    np.testing.assert_allclose(result[[0, 1]], [0, math.log(4)])
    assert math.copysign(1, result[0]) == 1
    assert 700 < result[2] < np.inf
    assert result[3:].tolist() == [-1, -1]


@in_both_precisions
def test_scores_rank_the_flagged_from_least_to_most_self_confident(dtype):
    P, y = predictions(0, 500, 5, dtype=dtype)
    flagged = flags(P, y, "PBNR")
    result = scores(flagged, P, y)
    own = P[np.arange(500), y]
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result >= 0, flagged)
    ranked = np.argsort(-result, kind="stable")[: flagged.sum()]
    assert np.all(np.diff(own[ranked]) >= 0)


# Invalid input.

GOOD = np.array([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]])


def changed(row, column, value):
    P = GOOD.copy()
    P[row, column] = value
    return P


@pytest.mark.parametrize("call", [confident_joint, *(lambda P, y, v=v: flags(P, y, v) for v in VARIANTS)])
@pytest.mark.parametrize(
    ("P", "y", "message"),
    [
        (changed(1, 0, np.nan), [0, 1, 0], "probability of sample 1 for class 0 is nan, not within 0..1"),
        (changed(2, 1, np.inf), [0, 1, 1], "probability of sample 2 for class 1 is inf, not within 0..1"),
        (changed(1, 1, -3.5), [0, 1, 0], "sample 1 for class 1 is -3.5, not within 0..1: these are probably logits"),
        (changed(2, 0, 1.01), [0, 1, 0], "sample 2 for class 0 is 1.01, not within 0..1: these are probably logits"),
        (changed(2, 1, 0.5), [0, 1, 0], "probabilities of sample 2 sum to 1.5, not to 1"),
        (GOOD, [0, 1, 2], "label of sample 2 is 2, outside 0..1"),
        (GOOD, [0, -1, 1], "label of sample 1 is -1, outside 0..1"),
        (GOOD, [0, 1], "there are 2 labels for 3 rows of probabilities"),
        (GOOD[:, :1], [0, 0, 0], "K of 2 or more, not (3, 1)"),
        (GOOD[:0], [], "N of 1 or more"),
        (GOOD[0], [0, 1], "must have shape (N, K)"),
        (GOOD.astype(np.float16), [0, 1, 0], "must be float32 or float64, not float16"),
    ],
)
def test_invalid_input_is_refused_with_its_position(call, P, y, message):
    with pytest.raises(InputError, match=re.escape(message)):
        call(P, np.array(y, np.int64))


@pytest.mark.filterwarnings("error")
@by_both_rules
def test_the_first_bad_row_is_named_in_either_mode_without_warnings(rules):
    P, y = predictions(0, 300_000, 5)
    P[[299_000, 250_000], 2] = [np.inf, -np.inf]
    P[270_000, 1] = np.nan
    with pytest.raises(InputError, match="sample 250000 for class 2 is -inf"):
        flags(P, y, "PBNR", rules)


def test_rounding_errors_outside_zero_to_one_are_accepted():
    P = np.array([[1 + 2e-7, -2e-7], [0.3, 0.7]])
    assert not flags(P, [0, 1], "CC").any()
    assert scores(np.array([True, False]), P, np.array([0, 1])).tolist() == [0, -1]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_order_of_rows_does_not_matter_for_tied_values(variant):
    rng = np.random.default_rng(5)
    logits = rng.integers(-3, 4, size=(600, 4)).astype(
        float
    )  # few distinct values, so that cuts are between equal ones
    logits[:, 3] += np.arange(600) * 1e-9  # but no two samples are equal
    exponentials = np.exp(logits)
    probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
    labels, order = rng.integers(0, 4, 600), rng.permutation(600)
    np.testing.assert_array_equal(
        flags(probabilities[order], labels[order], variant), flags(probabilities, labels, variant)[order]
    )
