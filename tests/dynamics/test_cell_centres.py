"""Centres of cells in one and two levels, next to a comparison of every point with every centre."""

import numpy as np
import pytest

from errata.dynamics import cell_centres
from errata.dynamics.cell_centres import find_centres, squared_distances


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(0)
    clusters = 3 * rng.normal(size=(12, 6))
    return clusters[rng.integers(0, 12, 3000)] + rng.normal(size=(3000, 6))


def by_hand(centres, points, count):
    return np.argsort(squared_distances(points, centres.points), axis=1, kind="stable")[:, :count]


def test_one_level_finds_the_nearest_centres(points):
    centres = find_centres(points[:1000], 40)
    assert len(centres.points) == 40
    np.testing.assert_array_equal(centres.nearest(points, 4), by_hand(centres, points, 4))


def test_two_levels_find_nearly_all_of_the_nearest_centres_with_few_comparisons(points, monkeypatch):
    monkeypatch.setattr(cell_centres, "MOST_IN_ONE_LEVEL", 50)
    monkeypatch.setattr(cell_centres, "PROBED", 3)
    centres, compared = find_centres(points[:2000], 100), []
    assert len(centres.districts) == 10
    assert 90 <= len(centres.points) == centres.firsts[-1] <= 110
    expected = by_hand(centres, points, 4)

    def counting(one, other):
        compared.append(len(one) * len(other))
        return squared_distances(one, other)

    monkeypatch.setattr(cell_centres, "squared_distances", counting)
    found = centres.nearest(points, 4)
    assert sum(compared) < 0.6 * len(points) * len(centres.points)
    assert (found[:, 0] == expected[:, 0]).mean() > 0.97
    pairs = zip(found.tolist(), expected.tolist(), strict=True)
    assert np.mean([len(set(one) & set(other)) / 4 for one, other in pairs]) > 0.9


def test_a_single_cell_holds_everything(points):
    centres = find_centres(points[:100], 1)
    assert not centres.nearest(points, 1).any()
