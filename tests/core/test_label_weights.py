import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.mixture import GaussianMixture

from errata.core.label_weights import combine_passes, label_weights, soft_targets


def test_weights_between_the_means_are_those_of_scikit_learns_mixture():
    rng = np.random.default_rng(0)
    margins = np.concatenate([rng.normal(-4, 1.5, 1500), rng.normal(3, 1, 400)])
    peer = GaussianMixture(2, tol=1e-9, max_iter=3000, random_state=0).fit(margins[:, None])
    lower, upper = np.argsort(peer.means_[:, 0])
    inside = (margins > peer.means_[lower]) & (margins < peer.means_[upper])
    expected = peer.predict_proba(margins[:, None])[:, lower]
    np.testing.assert_allclose(label_weights(margins)[inside], expected[inside], atol=1e-3)


def test_a_larger_margin_never_has_a_larger_weight():
    rng = np.random.default_rng(1)
    margins = np.sort(np.concatenate([rng.normal(0, 0.1, 500), rng.normal(1, 3, 300)]))
    assert (np.diff(label_weights(margins)) <= 1e-12).all()


@pytest.mark.parametrize("margins", [np.zeros(5), np.array([2.0])])
def test_equal_margins_trust_every_label(margins):
    assert label_weights(margins).tolist() == [1.0] * len(margins)


def test_targets_are_worked_out_by_hand():
    targets = soft_targets(np.array([0, 2]), np.array([0.5, 0.0]), np.array([[0.2, 0.8, 0.0], [0.5, 0.25, 0.25]]))
    squares = 0.2**2 + 0.8**2
    np.testing.assert_allclose(targets[0], [0.5 + 0.5 * 0.2**2 / squares, 0.5 * 0.8**2 / squares, 0])
    np.testing.assert_allclose(targets[1], np.array([4, 1, 1]) / 6)


def test_passes_are_combined_by_the_geometric_mean():
    rng = np.random.default_rng(2)
    first, second = rng.normal(0, 3, (2, 20, 4))
    p, q = (np.exp(one) / np.exp(one).sum(axis=1, keepdims=True) for one in (first, second))
    mean = np.sqrt(p * q)
    np.testing.assert_allclose(
        np.exp(log_softmax(combine_passes(first, second), axis=1)), mean / mean.sum(axis=1, keepdims=True)
    )
