"""The n-th largest value of each group over parts of a run is that of all values together, whatever the parts."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from errata.core import factored_selection
from errata.core.factored_method import merge
from errata.core.factored_selection import GroupValues, RankSelection
from errata.core.random_part import mix_bits

SAMPLES, GROUPS = 120, 3
TINY = np.array([0.0, -0.0, 5e-324, -5e-324, 1e-300, 1.0, -1.0, 1 + 1e-7])


@st.composite
def values_in_groups(draw):
    """Values (N,) near and far from each other, many of them equal, and their groups (N,)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread = draw(st.sampled_from([1.0, 1e-4, 1e-18, 0.0]))
    values = np.clip(draw(st.sampled_from([0.0, -0.5, 0.999])) + spread * rng.normal(size=SAMPLES), -1, 1)
    if draw(st.booleans()):
        values = rng.choice(TINY, SAMPLES)
    if draw(st.booleans()):
        values = rng.choice(values, SAMPLES)
    return values, rng.integers(0, GROUPS, SAMPLES), np.sort(rng.integers(0, draw(st.integers(1, 5)), SAMPLES))


def select(values, groups, part_of, ranks, with_ties):
    """The selection of these ranks (G,), what reaches it (N,), and the largest number of keys collected at once."""
    rows = np.arange(SAMPLES)
    hashes = mix_bits(np.abs(values).view(np.uint64) % 3), mix_bits(rows.astype(np.uint64))
    parts = [
        GroupValues(groups[own], values[own], values[own], rows[own], (lambda: hashes) if with_ties else None)
        for own in (part_of == part for part in np.unique(part_of))
    ]
    selection, collected, rounds = RankSelection.start(GROUPS, 4 if with_ties else 2), 0, 0
    while not rounds or not selection.done:
        total = functools.reduce(lambda *states: merge(states), [selection.state([part]) for part in parts])
        collected = max(collected, sum(len(group) for group, _ in total.get("collected", ())))
        selection = (selection if rounds else replace(selection, ranks=ranks)).narrowed(total)
        rounds += 1
        assert rounds < 200
    return np.concatenate([selection.reached(part) for part in parts]), hashes, collected


@settings(max_examples=60, deadline=None)
@given(values_in_groups(), st.sampled_from([0, 5, 1 << 18]), st.sampled_from([2, 16]), st.booleans())
def test_the_selection_is_that_of_a_sort(values_and_groups, most_collected, bins, with_ties):
    values, groups, part_of = values_and_groups
    sizes = np.bincount(groups, minlength=GROUPS)
    ranks = np.minimum(sizes, [0, 7, sizes[2]])
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(factored_selection, "MOST_COLLECTED", most_collected)
        limits.setattr(factored_selection, "_bins", lambda groups: bins)
        reached, (content, by_row), collected = select(values, groups, part_of, ranks, with_ties)
    assert collected <= most_collected
    for group, rank in enumerate(ranks.tolist()):
        rows = np.flatnonzero(groups == group)
        if with_ties:
            expected = rows[np.lexsort((by_row[rows], content[rows], -values[rows]))[:rank]]
        else:
            expected = rows[values[rows] >= np.sort(values[rows])[len(rows) - rank]] if rank else rows[:0]
        assert sorted(rows[reached[rows]].tolist()) == sorted(expected.tolist())
