import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import silhouette_score
from threadpoolctl import threadpool_info, threadpool_limits

from errata.core import ctrl
from errata.core.ctrl import (
    CONFIGURATIONS,
    Configuration,
    operating_points,
    selection_scores,
)
from errata.errors import InputError


def smoothed(losses, labels, smooth=5):
    return ctrl.smoothed(losses, len(np.unique(labels)), smooth)


def votes(losses, labels, configurations=CONFIGURATIONS, smooth=5):
    return ctrl.votes(smoothed(losses, labels, smooth), np.asarray(labels), configurations)


def select(losses, labels, correct, *, budget=None, alpha=0.0):
    curves = smoothed(losses, labels)
    return ctrl.select(curves, ctrl.votes(curves, labels), correct, [budget], alpha)[0]


def simulate(samples, epochs, classes, seed, shares=None):
    """Cross-entropy curves of a training that learns the wrong labels late: losses (N, T), labels (N,), truth (N,)."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(classes, size=samples, p=shares)
    truth = rng.random(samples) < 0.25
    learned_at = np.where(truth, rng.gamma(6, epochs / 8, samples), rng.gamma(2, epochs / 40, samples))
    logits = 0.3 * (np.arange(epochs) - learned_at[:, None]) + rng.normal(size=(samples, epochs))
    return np.logaddexp(0, -logits), labels, truth


@threadpool_limits.wrap(limits=1)  # a second thread only slows down fits this small
def algorithm(losses, labels, windows, clusters, selected, smooth=5):
    """The paper's algorithm line by line; returns W minus its votes."""
    losses = np.array(losses, dtype=np.float64)
    samples, epochs = losses.shape
    observed, counts = np.unique(labels, return_counts=True)
    threshold = 2 * np.log(len(observed))
    losses[losses > threshold] = threshold
    rolled = np.empty_like(losses)
    for t in range(smooth, epochs):
        rolled[:, t] = losses[:, t - smooth + 1 : t + 1].mean(axis=1)
    for t in range(smooth):
        rolled[:, t] = rolled[:, smooth]
    clean = np.ones((samples, windows), dtype=int)
    for w in range(windows):
        start, end = int(w * epochs / windows), int((w + 1) * epochs / windows)
        for c, count in zip(observed, counts, strict=True):
            if count < 2:
                continue
            members = np.flatnonzero(labels == c)
            fit = KMeans(n_clusters=clusters, n_init=10, random_state=0).fit(rolled[members, start:end])
            area = fit.cluster_centers_.sum(axis=1)
            order = np.argsort(area)[::-1]
            for k in range(selected):
                clean[members[fit.labels_ == order[k]], w] = 0
    return windows - clean.sum(axis=1)


class TestConfiguration:
    def test_the_nine_candidates_of_the_paper(self):
        assert [(c.windows, c.clusters, c.selected) for c in CONFIGURATIONS] == [
            (w, k, s) for w in (1, 2, 4) for k, s in ((2, 1), (3, 1), (3, 2))
        ]

    @pytest.mark.parametrize("wrong", [(1, 2, 0), (1, 2, 2), (1, 1, 1), (2, 3, 4)])
    def test_refuses_a_selection_that_leaves_nothing_or_everything(self, wrong):
        with pytest.raises(InputError):
            Configuration(*wrong)

    @given(st.integers(1, 9), st.integers(1, 200))
    def test_windows_divide_the_epochs(self, windows, epochs):
        bounds = Configuration(windows, 2, 1).bounds(epochs)
        assert [b for pair in bounds for b in range(*pair)] == list(range(epochs))
        assert all(abs(start - i * epochs / windows) < 1 for i, (start, _) in enumerate(bounds))


class TestSmoothed:
    def test_by_hand(self):
        losses = [[9.0, 1.0, 0.5, 3.0, -2.0]]
        ceiling = 2 * math.log(1)
        np.testing.assert_allclose(smoothed(losses, [7], smooth=2), [[0, 0, 0, 0, (ceiling - 2) / 2]])
        two = smoothed([[9.0, 1.0, 0.5, 3.0, -2.0], [1, 1, 1, 1, 1]], [0, 1], smooth=2)
        cut = 2 * math.log(2)
        expected = [(1 + 0.5) / 2, (1 + 0.5) / 2, (1 + 0.5) / 2, (0.5 + cut) / 2, (cut - 2) / 2]
        np.testing.assert_allclose(two, [expected, [1, 1, 1, 1, 1]])

    def test_the_clipping_value_counts_observed_classes_only(self):
        losses = np.full((3, 8), 100.0)
        np.testing.assert_allclose(smoothed(losses, [0, 50, 99]), 2 * math.log(3))

    @given(
        hnp.arrays(np.float64, st.tuples(st.integers(2, 5), st.integers(7, 20)), elements=st.floats(-5, 5)),
        st.integers(1, 6),
    )
    def test_trailing_mean(self, losses, smooth):
        labels = np.arange(len(losses))
        clipped = np.minimum(losses, 2 * np.log(len(losses)))
        expected = np.empty_like(losses)
        for t in range(losses.shape[1]):
            last = max(t, smooth)
            expected[:, t] = clipped[:, last - smooth + 1 : last + 1].mean(axis=1)
        np.testing.assert_allclose(smoothed(losses, labels, smooth), expected, atol=1e-12)

    def test_short_training_averages_over_all_epochs_but_one(self):
        labels = [0, 1, 2]
        losses = np.array([[0.1, 0.2, 0.6], [0.3, 0.3, 0.3], [1.0, 0.0, 0.5]])
        np.testing.assert_allclose(smoothed(losses, labels), np.array([[0.4] * 3, [0.3] * 3, [0.25] * 3]))
        np.testing.assert_allclose(smoothed(losses[:, :1], labels), losses[:, :1])
        np.testing.assert_allclose(smoothed(losses[:, :2], labels), losses[:, [1, 1]])


class TestVotes:
    @pytest.mark.parametrize(
        ("samples", "epochs", "classes", "seed", "shares"),
        [
            (300, 40, 2, 0, None),
            (400, 30, 3, 1, None),
            (500, 27, 4, 2, [0.7, 0.2, 0.07, 0.03]),
            (600, 41, 2, 3, [0.95, 0.05]),
            (1500, 11, 3, 4, None),
        ],
    )
    def test_equal_the_algorithm_of_the_paper(self, samples, epochs, classes, seed, shares):
        losses, labels, _ = simulate(samples, epochs, classes, seed, shares)
        expected = [algorithm(losses, labels, c.windows, c.clusters, c.selected) for c in CONFIGURATIONS]
        np.testing.assert_array_equal(votes(losses, labels), expected)

    def test_other_configurations_and_smoothing(self):
        losses, labels, _ = simulate(300, 31, 2, seed=5)
        asked = [Configuration(3, 4, 2), Configuration(1, 2, 1), Configuration(5, 3, 2)]
        expected = [algorithm(losses, labels, c.windows, c.clusters, c.selected, smooth=3) for c in asked]
        np.testing.assert_array_equal(votes(losses, labels, asked, smooth=3), expected)

    def test_signed_and_yes_or_no_measures(self):
        losses, labels, _ = simulate(300, 24, 2, seed=6)
        for measure in (2 * losses - 3, (losses > math.log(2)).astype(float)):
            expected = [algorithm(measure, labels, c.windows, c.clusters, c.selected) for c in CONFIGURATIONS]
            np.testing.assert_array_equal(votes(measure, labels), expected)

    def test_wrong_labels_get_the_votes(self):
        losses, labels, truth = simulate(1000, 60, 3, seed=7)
        counted = votes(losses, labels)
        assert all(row[truth].mean() > 5 * row[~truth].mean() for row in counted)

    @settings(max_examples=25, deadline=None)
    @given(
        hnp.arrays(
            np.float64,
            st.tuples(st.integers(1, 12), st.integers(1, 9)),
            elements=st.sampled_from([0.0, 1.0, 0.2, 1e-9, 1e-300, 50.0, -1.0]) | st.floats(-3, 3),
        ),
        st.data(),
    )
    def test_any_curves_give_votes_without_warnings(self, losses, data):
        labels = data.draw(hnp.arrays(np.int64, len(losses), elements=st.integers(0, 2)))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            counted = votes(losses, labels)
        windows = np.array([[c.windows] for c in CONFIGURATIONS])
        assert ((counted >= 0) & (counted <= windows)).all()
        for c in np.unique(labels):
            assert (counted[:3, labels == c] == 0).any(axis=1).all(), "one window never holds a whole class noisy"

    def test_the_only_sample_of_a_class_is_clean(self):
        losses, labels, _ = simulate(100, 20, 2, seed=8)
        labels[0] = 9
        losses[0] = 100
        assert (votes(losses, labels)[:, 0] == 0).all()
        assert (votes([[0.3]], [4]) == 0).all()

    def test_a_class_of_two_is_split_for_any_number_of_clusters(self):
        losses = np.array([[0.1] * 8, [1.0] * 8, [0.2] * 8])
        np.testing.assert_array_equal(votes(losses, [0, 0, 1]), [[0, c.windows, 0] for c in CONFIGURATIONS])

    def test_equal_curves_are_clean(self):
        assert (votes(np.full((40, 20), 0.7), np.arange(40) % 3) == 0).all()

    def test_two_distinct_curves_make_two_clusters(self):
        losses = np.repeat([[0.1], [1.3]], [30, 10], axis=0) * np.ones(20)
        labels = np.zeros(40, dtype=int)
        labels[[0, 35]] = 1
        counted = votes(losses, labels)
        for row, configuration in zip(counted, CONFIGURATIONS, strict=True):
            np.testing.assert_array_equal(row, np.repeat([0, configuration.windows], [30, 10]))

    def test_curves_closer_than_rounding_are_one_cluster(self):
        losses = np.array([[1.0], [1 + 1e-12], [1 + 2e-12], [0.0], [0.5]])
        with pytest.warns(ConvergenceWarning):
            assert len(set(KMeans(3, n_init=10, random_state=0).fit(losses[:4]).labels_)) == 2
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            counted = votes(losses, [0, 0, 0, 0, 1])
        np.testing.assert_array_equal(counted, [[1, 1, 1, 0, 0]] * len(CONFIGURATIONS))

    def test_fewer_epochs_than_windows(self):
        losses = np.array([[0.1, 0.1], [0.1, 0.1], [1.2, 1.2], [0.3, 0.3]])
        counted = votes(losses, [0, 0, 0, 1], [Configuration(4, 2, 1)])
        np.testing.assert_array_equal(counted, [[0, 0, 2, 0]])

    def test_input_is_not_changed_and_its_type_does_not_matter(self):
        losses, labels, _ = simulate(200, 20, 2, seed=9)
        losses = losses.astype(np.float32)
        labels = labels.astype(np.uint8)
        losses.flags.writeable = labels.flags.writeable = False
        kept = losses.copy(), labels.copy()
        counted = votes(losses, labels)
        np.testing.assert_array_equal(losses, kept[0])
        np.testing.assert_array_equal(labels, kept[1])
        np.testing.assert_array_equal(counted, votes(losses.astype(np.float64), labels.tolist()))

    def test_do_not_depend_on_the_number_of_cores_and_restore_thread_limits(self, monkeypatch):
        losses, labels, _ = simulate(700, 20, 3, seed=10)
        threads = [library["num_threads"] for library in threadpool_info()]
        counted = votes(losses, labels)
        assert [library["num_threads"] for library in threadpool_info()] == threads
        for name in ("cpu_count", "process_cpu_count"):
            monkeypatch.setattr(f"os.{name}", lambda: 1, raising=False)
        np.testing.assert_array_equal(votes(losses, labels), counted)


class TestOperatingPoints:
    def test_by_hand(self):
        noisy_votes = np.array([0, 1, 2, 3, 4])
        masks = operating_points(noisy_votes, Configuration(4, 2, 1))
        np.testing.assert_array_equal(masks, [[0, 0, 0, 0, 1], [0, 0, 0, 1, 1], [0, 0, 1, 1, 1]])
        np.testing.assert_array_equal(operating_points(noisy_votes[:2], Configuration(1, 2, 1)), [[0, 1]])

    def test_eighteen_in_all(self):
        assert sum(len(operating_points(np.zeros(1, dtype=int), c)) for c in CONFIGURATIONS) == 18


def selection_score(curves, mask, correct, alpha):
    return selection_scores(curves, mask[None], correct, alpha)[0]


class TestSelectionScore:
    def test_by_hand(self):
        curves = np.array([[0.0, 0.2], [0.0, 0.4], [0.0, 0.6], [3.0, 1.0], [3.0, 2.0]])
        mask = np.array([False, False, False, True, True])
        correct = np.array([True, False, True, False, True])
        accuracy, ratio = 2 / 3, 1.5 / 0.4
        silhouettes = []
        for curve, noisy in zip(curves, mask, strict=True):
            own = sum(math.dist(curve, other) for other in curves[mask == noisy]) / (sum(mask == noisy) - 1)
            across = sum(math.dist(curve, other) for other in curves[mask != noisy]) / sum(mask != noisy)
            silhouettes.append((across - own) / max(across, own))
        for alpha in (0.0, 0.25, 1.0):
            expected = sum(silhouettes) / 5 * (accuracy * ratio) ** alpha
            assert selection_score(curves, mask, correct, alpha) == pytest.approx(expected)

    @settings(max_examples=60, deadline=None)
    @given(st.integers(3, 80), st.integers(1, 8), st.integers(0, 10_000))
    def test_silhouette_is_that_of_scikit_learn(self, samples, epochs, seed):
        rng = np.random.default_rng(seed)
        curves = rng.integers(0, 3, (samples, epochs)) / 3 + rng.choice([0, 1e-3]) * rng.random((samples, epochs))
        mask = rng.random(samples) < rng.random()
        mask[:2] = True, False
        assert selection_score(curves, mask, mask, 0.0) == pytest.approx(silhouette_score(curves, mask), abs=1e-6)

    def test_silhouette_of_a_subsample(self, monkeypatch):
        monkeypatch.setattr(ctrl, "SILHOUETTE_SAMPLES", 50)
        rng = np.random.default_rng(1)
        curves, mask = rng.random((400, 5)), rng.random(400) < 0.3
        expected = silhouette_score(curves, mask, sample_size=50, random_state=0)
        assert selection_score(curves, mask, mask, 0.0) == pytest.approx(expected, abs=1e-9)

    @pytest.mark.parametrize("alpha", [0.0, 1.0])
    @pytest.mark.parametrize("value", [True, False])
    def test_an_empty_side_scores_minus_infinity(self, value, alpha):
        curves, mask = np.random.default_rng(2).random((6, 3)), np.full(6, value)
        assert selection_score(curves, mask, mask, alpha) == -math.inf

    def test_a_ratio_of_zero_to_zero_scores_minus_infinity(self):
        curves = np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.0]])
        assert selection_score(curves, np.array([True, True, False]), np.ones(3, dtype=bool), 1.0) == -math.inf


@pytest.fixture(scope="module")
def trained():
    losses, labels, truth = simulate(400, 30, 3, seed=11)
    correct = losses[:, -1] < math.log(2)
    return losses, labels, correct, truth


class TestSelect:
    @pytest.mark.parametrize("alpha", [0.0, 1.0])
    def test_operating_points_compete(self, trained, alpha):
        losses, labels, correct, _ = trained
        curves, counted = smoothed(losses, labels), votes(losses, labels)
        best, chosen = -math.inf, None
        for row, configuration in zip(counted, CONFIGURATIONS, strict=True):
            for mask in operating_points(row, configuration):
                score = selection_score(curves, mask, correct, alpha)
                if score > best:
                    best, chosen = score, (configuration, row, mask)
        selection = select(losses, labels, correct, alpha=alpha)
        assert selection.configuration == chosen[0]
        np.testing.assert_array_equal(selection.votes, chosen[1])
        np.testing.assert_array_equal(selection.mask, chosen[2])

    def test_budget_takes_the_samples_with_most_votes(self, trained):
        losses, labels, correct, truth = trained
        budget = int(truth.sum())
        selection = select(losses, labels, correct, budget=budget)
        assert selection.mask.sum() == budget
        assert selection.votes[selection.mask].min() >= selection.votes[~selection.mask].max()
        curves, best = smoothed(losses, labels), selection_score(smoothed(losses, labels), selection.mask, correct, 0.0)
        for row in votes(losses, labels):
            mask = np.isin(np.arange(len(row)), np.argsort(-row, kind="stable")[:budget])
            if np.sort(row)[-budget - 1] < np.sort(row)[-budget]:  # no tie at the budget
                assert selection_score(curves, mask, correct, 0.0) <= best

    @pytest.mark.parametrize("budget", [0, 7, 25])
    def test_several_budgets_at_once_equal_single_calls(self, trained, budget):
        losses, labels, correct = trained[:3]
        curves = smoothed(losses, labels)
        together = ctrl.select(curves, ctrl.votes(curves, labels), correct, [budget, None])
        alone = select(losses, labels, correct, budget=budget), select(losses, labels, correct)
        for ours, theirs in zip(together, alone, strict=True):
            assert ours.configuration == theirs.configuration
            np.testing.assert_array_equal(ours.votes, theirs.votes)
            np.testing.assert_array_equal(ours.mask, theirs.mask)

    def test_ties_at_the_budget_are_in_random_order(self):
        losses = np.repeat([[0.1], [1.3]], [30, 30], axis=0) * np.ones(20)
        labels, correct = np.zeros(60, dtype=int), np.ones(60, dtype=bool)
        labels[[0, 59]] = 1
        first, again = (select(losses, labels, correct, budget=10).mask for _ in range(2))
        np.testing.assert_array_equal(first, again)
        assert first[30:].sum() == 10
        assert set(np.flatnonzero(first)) != set(range(30, 40))

    def test_equal_scores_select_the_first_configuration(self):
        losses, labels = np.full((10, 8), 0.5), np.arange(10) % 2
        selection = select(losses, labels, np.ones(10, dtype=bool))
        assert selection.configuration == CONFIGURATIONS[0]
        assert not selection.mask.any()

    def test_refuses_alpha_for_a_signed_measure(self, trained):
        losses, labels, correct, _ = trained
        with pytest.raises(InputError, match="signed measure"):
            select(losses - 1, labels, correct, alpha=0.5)
        assert select(losses - 1, labels, correct, alpha=0.0).mask.any()

    @pytest.mark.parametrize("alpha", [-1.0, math.inf, math.nan])
    def test_refuses_alpha(self, trained, alpha):
        with pytest.raises(InputError, match="alpha"):
            select(*trained[:3], alpha=alpha)
