from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from errata.bench.evaluation import stats

tables = st.integers(2, 6).flatmap(
    lambda methods: st.lists(
        st.lists(st.integers(0, 4), min_size=methods, max_size=methods), min_size=2, max_size=8
    ).map(lambda rows: pd.DataFrame(np.array(rows) / 7, columns=[f"m{place}" for place in range(methods)]))
)


# Demšar, Statistical Comparisons of Classifiers over Multiple Data Sets (JMLR 2006), table 5: q at 0.05.
NEMENYI = (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164)


@pytest.mark.parametrize(("methods", "quantile"), list(enumerate(NEMENYI, 2)))
def test_the_critical_difference_agrees_with_printed_quantiles(methods, quantile):
    expected = quantile * np.sqrt(methods * (methods + 1) / (6 * 14))
    assert stats.nemenyi_critical_difference(methods, 14) == pytest.approx(expected, rel=5e-4)


def test_a_critical_difference_shrinks_with_settings():
    assert stats.nemenyi_critical_difference(25, 4 * 17) == pytest.approx(stats.nemenyi_critical_difference(25, 17) / 2)


@given(tables)
def test_a_rank_is_one_more_than_the_methods_that_are_lower_and_half_of_those_that_tie(table):
    for setting, ranks in stats.ranks(table).iterrows():
        values = table.loc[setting]
        for method in table:
            lower, tied = (values < values[method]).sum(), (values == values[method]).sum() - 1
            assert ranks[method] == 1 + lower + tied / 2
    np.testing.assert_allclose(stats.ranks(table).mean().sum(), table.shape[1] * (table.shape[1] + 1) / 2)


def test_values_that_differ_by_rounding_only_are_ties():
    table = pd.DataFrame({"a": [0.1 + 0.2] * 2, "b": [0.3] * 2, "c": [0.5] * 2})
    assert stats.ranks(table).mean().tolist() == [1.5, 1.5, 3]


@given(tables.filter(lambda table: table.shape[1] > 2))
def test_friedman_is_the_textbook_formula_corrected_for_ties(table):
    settings, methods = table.shape
    ranks = table.rank(axis=1).to_numpy()
    spread = ((ranks.mean(axis=0) - (methods + 1) / 2) ** 2).sum()
    ties = sum(int(count) ** 3 - int(count) for row in ranks for count in np.unique(row, return_counts=True)[1])
    correction = 1 - ties / (settings * methods * (methods**2 - 1))
    p = stats.friedman(table)
    if correction == 0:
        assert p == 1
        return
    expected = 12 * settings / (methods * (methods + 1)) * spread / correction
    assert p == pytest.approx(scipy.stats.chi2.sf(expected, methods - 1), abs=1e-9)


@given(st.lists(st.integers(2, 12), min_size=1, max_size=9), st.floats(0.1, 6))
def test_cliques_are_the_groups_within_the_difference_to_which_nothing_can_be_added(halves, difference):
    ranks = pd.Series({f"m{place}": half / 2 for place, half in enumerate(halves)})

    def alike(group):
        return all(abs(ranks[one] - ranks[other]) < difference for one, other in combinations(group, 2))

    groups = [set(group) for size in range(2, len(ranks) + 1) for group in combinations(ranks.index, size)]
    groups = [group for group in groups if alike(group)]
    largest = [group for group in groups if not any(group < other for other in groups)]
    found = stats.cliques(ranks, difference)
    assert sorted(map(sorted, found)) == sorted(map(sorted, largest))
    assert [ranks[clique[0]] for clique in found] == sorted(ranks[clique[0]] for clique in found)


def test_methods_a_full_critical_difference_apart_differ():
    assert stats.cliques(pd.Series({"a": 1.0, "b": 3.0, "c": 3.5}), 2.0) == [("b", "c")]


def test_the_bootstrap_interval_is_that_of_scipy():
    values = np.random.default_rng(3).gamma(2, size=17)
    found = stats.bootstrap_interval(pd.DataFrame({"a": values, "b": 2 * values}))
    theirs = scipy.stats.bootstrap((values,), np.mean, n_resamples=10_000, method="percentile", random_state=1)
    np.testing.assert_allclose(found.loc["a", ["low", "high"]], theirs.confidence_interval, atol=0.03)
    np.testing.assert_allclose(found.loc["b"], 2 * found.loc["a"])
    assert found.loc["a", "mean"] == pytest.approx(values.mean())


def test_the_bootstrap_is_seeded_and_draws_whole_settings():
    table = pd.DataFrame({"a": [0.0, 1.0, 5.0], "b": [5.0, 1.0, 0.0]})
    again = stats.bootstrap_interval(table)
    pd.testing.assert_frame_equal(stats.bootstrap_interval(table), again)
    # a + b is the same on settings 0 and 2, so the interval shows that both columns use the same draw.
    both = stats.bootstrap_interval(table.assign(total=table["a"] + table["b"]))
    assert both.loc["total", "low"] >= 2
    assert both.loc["total", "high"] <= 5
    every = sorted(np.mean(draw) for draw in product(table["a"], repeat=3))
    assert again.loc["a", "low"] in every
    assert again.loc["a", "high"] in every


def cells_of(settings, **methods):
    """Cells from the number of seeds per setting and a list of values per method."""
    index = [(name, seed) for name, seeds in settings.items() for seed in range(seeds)]
    return pd.DataFrame(methods, index=pd.MultiIndex.from_tuples(index, names=["setting", "seed"]))


def every_mean(differences):
    """The mean of every equally likely draw of settings and seeds, from a list of values per setting."""
    of_setting = [[np.mean(draw) for draw in product(seeds, repeat=len(seeds))] for seeds in differences]
    # Repeat the draws of settings with fewer seeds, so that all draws have equal weight.
    most = np.lcm.reduce([len(means) for means in of_setting])
    of_setting = [np.repeat(means, most // len(means)) for means in of_setting]
    drawn = product(of_setting, repeat=len(of_setting))
    return np.concatenate([np.add.outer(*means).ravel() / 2 for means in drawn])


@pytest.mark.parametrize(
    ("first", "second"), [([0.3, 0.1], [-0.05, 0.4]), ([0.3, -0.2], [-0.1]), ([0.7, 0.1, 0.2], [-0.3, 0.2])]
)
def test_the_paired_bootstrap_draws_settings_and_seeds_of_these(first, second, monkeypatch):
    monkeypatch.setattr(stats, "DRAWS", 40_000)
    monkeypatch.setattr(stats, "LEVEL", 0.81)
    reference = np.linspace(0.2, 0.9, len(first) + len(second))
    settings = {"s": len(first), "t": len(second)}
    cells = cells_of(settings, old=reference, new=reference + np.array(first + second), same=reference)
    found = stats.paired_bootstrap(cells, "old")
    exact = every_mean([first, second])
    expected = np.quantile(exact, [0.095, 0.905], method="inverted_cdf")
    np.testing.assert_allclose(found.loc["new", ["low", "high"]], expected, atol=1e-6)
    assert found.loc["new", "difference"] == pytest.approx((np.mean(first) + np.mean(second)) / 2)
    assert found.loc["same"].tolist() == [0, 0, 0]


def test_what_both_methods_share_is_no_uncertainty_of_their_difference():
    values = np.random.default_rng(0).random(12)
    cells = cells_of({"s": 5, "t": 7}, old=values, new=values + 0.25)
    found = stats.paired_bootstrap(cells, "old").loc["new"]
    np.testing.assert_allclose(found[["difference", "low", "high"]], 0.25)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=9))
def test_wilcoxon_p_is_that_of_all_sign_flips(rows):
    table = pd.DataFrame(np.array(rows) / 31, columns=["new", "old"])
    found = stats.wilcoxon_p(table, "old")
    assert list(found.index) == ["new"]
    apart = [one - other for one, other in rows if one != other]
    if not apart:
        assert found["new"] == 1
        return
    ranks = scipy.stats.rankdata(np.abs(apart))
    flips = np.array(list(product((-1, 1), repeat=len(apart)))) @ ranks
    assert found["new"] == pytest.approx(np.mean(np.abs(flips) >= abs(np.sign(apart) @ ranks) - 1e-9))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_holm_is_the_closed_test_of_bonferroni(p_values):
    """An adjusted p-value is the largest Bonferroni p-value of the sets of tests that it is in."""
    tests = range(len(p_values))
    closed = [
        max(
            min(1, len(group) * min(p_values[test] for test in group))
            for size in range(1, len(p_values) + 1)
            for group in combinations(tests, size)
            if one in group
        )
        for one in tests
    ]
    np.testing.assert_allclose(stats.holm(p_values), closed)
