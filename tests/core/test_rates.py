from math import inf, nan

import numpy as np
import pytest
from cleanlab.count import compute_confident_joint, estimate_joint
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, norm
from sklearn.mixture import GaussianMixture

from errata.core import rates
from errata.core.noise import symmetric
from errata.core.rates import (
    CAP_ABOVE_OTHERS,
    NoiseRate,
    combine,
    from_confident_joint,
    from_mixture,
    from_sign,
    from_typical_samples,
    median_estimate,
)
from errata.errors import InputError


def two_groups(samples, rate, seed, distance=5.0):
    """Scores of correct labels around 0 and of wrong ones around `distance`, and which are wrong."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(samples) < rate
    return rng.normal(size=samples) + distance * wrong, wrong


def well_trained(samples, rate, seed, num_classes=4):
    """Probabilities of a model that predicts the true class with varying confidence, and noisy labels."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, num_classes, samples)
    logits = rng.normal(size=(samples, num_classes)) + 5.0 * np.eye(num_classes)[true]
    probabilities = np.exp(logits)
    # Another seed, so that the flips are not drawn from the same numbers as the true classes.
    labels = symmetric(true, rate, num_classes, seed=seed + 1000).labels
    return probabilities / probabilities.sum(axis=1, keepdims=True), labels


def assert_interval(estimate):
    assert 0 <= estimate.low <= estimate.rate <= estimate.high <= 1
    assert estimate.low < estimate.high, "a finite number of samples is never certain"
    assert estimate.how.endswith(".")
    assert "interval" in estimate.how


def covered(estimates, rate):
    return np.mean([estimate.low <= rate <= estimate.high for estimate in estimates])


@settings(deadline=None)
@given(st.integers(1, 200), st.data(), st.floats(0.5, 0.999))
def test_sign_is_the_share_of_positive_margins_with_wilsons_interval(samples, data, confidence):
    positive = data.draw(st.integers(0, samples))
    margins = np.where(np.arange(samples) < positive, 0.5, np.where(np.arange(samples) % 2, 0.0, -2.0))
    estimate = from_sign(margins, confidence=confidence)
    wilson = binomtest(positive, samples).proportion_ci(confidence, method="wilson")
    assert estimate.rate == positive / samples
    assert (estimate.low, estimate.high) == pytest.approx((wilson.low, wilson.high), abs=1e-9)
    assert estimate.confidence == confidence
    assert_interval(estimate)


def test_sign_accepts_infinite_margins():
    assert from_sign([inf, -inf, 1.0, -1.0]).rate == 0.5


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.4])
def test_confident_joint_covers_the_rate_of_a_good_model(rate):
    estimates = [from_confident_joint(*well_trained(3000, rate, seed)) for seed in range(20)]
    assert covered(estimates, rate) >= 0.8
    assert np.mean([estimate.rate for estimate in estimates]) == pytest.approx(rate, abs=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_confident_joint_is_the_mass_off_cleanlabs_diagonal(seed):
    probabilities, labels = well_trained(2000, 0.2, seed)
    counts = compute_confident_joint(labels, probabilities, calibrate=False)
    joint = estimate_joint(labels, probabilities, confident_joint=counts)
    assert from_confident_joint(probabilities, labels).rate == pytest.approx(1 - np.trace(joint), abs=2e-3)


def test_confident_joint_interval_is_that_of_resampled_count_matrices():
    from errata.core.confident_learning import calibrate

    counts, class_counts = np.array([[60, 15, 0], [4, 20, 6], [0, 2, 0]]), np.array([90, 30, 9])
    # All cells, and the samples of every class that were not counted, are resampled and calibrated.
    not_counted = class_counts - counts.sum(axis=1)
    cells = np.repeat(np.arange(12), [*counts.ravel(), *not_counted])
    rng = np.random.default_rng(5)
    brute_force = []
    for _ in range(4000):
        drawn = np.bincount(rng.choice(cells, len(cells)), minlength=12)
        resampled = drawn[:9].reshape(3, 3)
        brute_force.append(1 - np.trace(calibrate(resampled, resampled.sum(axis=1) + drawn[9:])))
    replicates = rates._joint_replicates(counts, class_counts, np.random.default_rng(0))
    assert replicates.mean() == pytest.approx(np.mean(brute_force), abs=0.005)
    np.testing.assert_allclose(
        np.quantile(replicates, [0.025, 0.5, 0.975]), np.quantile(brute_force, [0.025, 0.5, 0.975]), atol=0.012
    )


def test_confident_joint_without_errors_still_has_an_interval():
    labels = np.arange(300) % 3
    estimate = from_confident_joint(0.97 * np.eye(3)[labels] + 0.01, labels)
    assert estimate.rate == pytest.approx(0)
    assert estimate.high == pytest.approx(binomtest(0, 300).proportion_ci(method="wilson").high)
    assert_interval(estimate)


@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_mixture_covers_the_rate_of_two_groups(rate):
    estimates = [from_mixture(two_groups(800, rate, seed)[0]) for seed in range(6)]
    assert covered(estimates, rate) >= 4 / 6
    assert np.mean([estimate.rate for estimate in estimates]) == pytest.approx(rate, abs=0.02)


def test_mixture_of_many_samples_is_the_fit_to_all_of_them():
    scores, wrong = two_groups(40_000, 0.1, seed=3, distance=6.0)
    estimate = from_mixture(scores)
    fit = GaussianMixture(2, tol=1e-9, max_iter=1000, random_state=0).fit(scores[:, None])
    assert estimate.rate == pytest.approx(fit.weights_[np.argmax(fit.means_)], abs=1e-4)
    # Groups this far apart can be counted, so the interval is that of a proportion.
    half_width = norm.ppf(0.975) * np.sqrt(0.1 * 0.9 / len(scores))
    assert (estimate.high - estimate.low) / 2 == pytest.approx(half_width, rel=0.25)
    assert estimate.low <= wrong.mean() <= estimate.high


def fit_of_scikit_learn(points, weights, means, variances):
    """The upper weight and the mean log-likelihood."""
    mixture = GaussianMixture(
        2,
        covariance_type="diag",
        tol=rates.MIXTURE_TOLERANCE,
        max_iter=rates.MIXTURE_ITERATIONS,
        weights_init=weights,
        means_init=means[:, None],
        precisions_init=1 / variances[:, None],
    ).fit(points[:, None])
    return mixture.weights_[1], mixture.lower_bound_


def test_mixtures_fitted_to_resamples_are_those_of_scikit_learn():
    points = np.sort(two_groups(500, 0.2, seed=5)[0])
    points = (points - points.mean()) / points.std()
    counts = np.random.default_rng(0).multinomial(len(points), np.full(len(points), 1 / len(points)), size=5)
    counts[0] = 1
    starts = rates._splits(points)
    fits = rates._fit_mixtures(points, counts.astype(float), starts)
    arguments = zip(counts, starts.weights, starts.means, starts.variances, strict=True)
    expected = [fit_of_scikit_learn(np.repeat(points, row), *start) for row, *start in arguments]
    np.testing.assert_allclose(np.c_[fits.weights[:, 1], fits.likelihoods], expected, rtol=1e-9)


def test_mixture_of_two_values_is_the_share_of_the_higher():
    estimate = from_mixture([0.0] * 80 + [1.0] * 20)
    assert estimate.rate == pytest.approx(0.2, abs=1e-6)
    assert_interval(estimate)


def test_mixture_depends_on_neither_row_order_nor_scale():
    scores, _ = two_groups(600, 0.15, seed=1)
    estimate = from_mixture(scores)
    assert from_mixture(scores[::-1]) == estimate
    assert from_mixture(scores) == estimate
    stretched = from_mixture(scores * 1e4 - 3e4)
    assert (stretched.rate, stretched.low, stretched.high) == pytest.approx(
        (estimate.rate, estimate.low, estimate.high), rel=1e-3
    )


ESTIMATES = {
    "confident joint": lambda samples, seed, **how: from_confident_joint(*well_trained(samples, 0.2, seed), **how),
    "mixture": lambda samples, seed, **how: from_mixture(two_groups(samples, 0.2, seed)[0], **how),
    "sign": lambda samples, seed, **how: from_sign(two_groups(samples, 0.2, seed)[0] - 2.5, **how),
}


@pytest.mark.parametrize("estimate", ESTIMATES.values(), ids=ESTIMATES.keys())
def test_intervals_contain_the_rate_and_narrow_with_samples_and_with_less_confidence(estimate):
    few, many, loose = estimate(400, 0), estimate(8000, 0), estimate(400, 0, confidence=0.5)
    for each in (few, many, loose):
        assert_interval(each)
    assert many.high - many.low < 0.5 * (few.high - few.low)
    assert loose.high - loose.low < 0.6 * (few.high - few.low)
    assert loose.rate == few.rate
    assert estimate(400, 0) == few, "deterministic"


@given(st.lists(st.integers(0, 40), min_size=9, max_size=9).filter(any))
def test_typical_samples_have_the_interval_of_wilson(counts):
    matrix = np.array(counts, dtype=float).reshape(3, 3)
    found = from_typical_samples(matrix)
    wrong, total = int(matrix.sum() - np.trace(matrix)), int(matrix.sum())
    wilson = binomtest(wrong, total).proportion_ci(method="wilson")
    none_wrong = binomtest(0, total).proportion_ci(method="wilson").high
    assert found.rate == wrong / total
    assert found.low == pytest.approx(max(0.0, min(wilson.low, 1 - none_wrong)), abs=1e-12)
    assert found.high == pytest.approx(max(wilson.high, none_wrong), abs=1e-12)


def test_of_typical_samples_only_the_lower_end_is_used():
    others = {"sign": NoiseRate(0.2, 0.15, 0.25, 0.95, ""), "mixture": NoiseRate(0.22, 0.18, 0.26, 0.95, "")}
    few = combine(others | {"typical samples": NoiseRate(0.1, 0.02, 0.6, 0.95, "")})
    assert (few.rate, few.low, few.high) == (0.2, 0.02, 0.26)
    many = combine(others | {"typical samples": NoiseRate(0.3, 0.28, 0.32, 0.95, "")})
    assert (many.rate, many.low, many.high) == (0.22, 0.15, 0.3)


def test_without_typical_samples_there_is_no_estimate():
    with pytest.raises(InputError, match="no typical samples"):
        from_typical_samples(np.zeros((2, 2)))


estimates = st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)).map(sorted)


@given(st.lists(estimates, min_size=1, max_size=4))
def test_the_median_estimate_is_within_the_hull_of_all_intervals(rows):
    found = median_estimate([NoiseRate(rate, low, high, 0.9, "") for low, rate, high in rows])
    rates_of = sorted(rate for _, rate, _ in rows)
    middle = len(rows) // 2
    median = rates_of[middle] if len(rows) % 2 else (rates_of[middle - 1] + rates_of[middle]) / 2
    assert found.rate == pytest.approx(median)
    assert found.low == min(low for low, _, _ in rows)
    *others, highest = sorted(high for _, _, high in rows)
    assert found.high == (
        min(highest, max(others[-1] + CAP_ABOVE_OTHERS, 2 * others[-1])) if len(others) > 1 else highest
    )
    assert found.low <= found.rate <= found.high
    assert found.confidence is None, "not a confidence interval"


def test_an_interval_far_above_the_others_is_capped():
    rows = [(0.0, 0.0, 0.006), (0.41, 0.43, 0.46), (0.0, 0.001, 0.005)]
    found = median_estimate(
        [NoiseRate(rate, low, high, 0.95, "") for low, rate, high in rows], ["joint", "groups", "sign"]
    )
    assert (found.rate, found.low, found.high) == (0.001, 0.0, pytest.approx(0.106))
    assert "(joint, groups, sign)" in found.how
    assert "(the highest, groups, ends at 46% and is capped at 11%, as the others are far lower)" in found.how


def test_the_median_estimate_refuses_no_estimates_and_different_confidences():
    with pytest.raises(InputError, match="one or more estimates, all of the same confidence"):
        median_estimate([])
    with pytest.raises(InputError, match="same confidence"):
        median_estimate([from_sign([1.0, -1.0]), from_sign([1.0, -1.0], confidence=0.5)])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: from_mixture([3.0, 3.0, 3.0]), "every sample has the score 3.0"),
        (lambda: from_mixture([0.0] * 50_000 + [1.0]), "no two groups"),
        (lambda: from_mixture([1.0, 2.0, inf]), "score of sample 2 is infinite"),
        (lambda: from_mixture([1.0, nan]), "score of sample 1 is NaN"),
        (lambda: from_mixture([]), "empty"),
        (lambda: from_sign([]), "empty"),
        (lambda: from_sign([nan]), "score of sample 0 is NaN"),
        (lambda: from_confident_joint(np.full((2, 2), 0.5), [0, 2]), "label of sample 1 is 2"),
        (lambda: from_confident_joint(np.full((2, 2), 0.5), [0]), "1 labels"),
    ],
)
def test_bad_input_is_refused(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()


def test_inputs_are_not_written_to():
    scores, (probabilities, labels) = two_groups(200, 0.2, 0)[0], well_trained(200, 0.2, 0)
    for array in (scores, probabilities, labels):
        array.flags.writeable = False
    from_mixture(scores)
    from_sign(scores)
    from_confident_joint(probabilities, labels)
