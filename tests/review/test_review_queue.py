"""Verdicts and queues without a server: folding events, leases, overlap, random positions, and the panel."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from errata.review.server.database import ReviewDatabase
from errata.review.server.events import ADJUDICATION, Event
from errata.review.server.panel import agreement, judged_arrays, panel
from errata.review.server.queues import LEASE, RANDOM_EVERY, SharedQueue, is_random_position, random_order
from errata.review.server.verdict_state import VerdictState

SAMPLES = 40
KEYS = itertools.count()


def empty_state(samples=SAMPLES):
    return VerdictState({f"s{place}": place for place in range(samples)}, ["cat"] * samples)


def event(reviewer, place, verdict="keep", new_label="", **more):
    number = next(KEYS)
    values = {"key": f"key-{number}", "time": "", "sample": f"s{place}", "label": "cat", "rank": place + 1}
    return Event(
        **{**values, "reviewer": reviewer, "suggestion": "dog", "verdict": verdict, "new_label": new_label}
        | {"number": number}
        | more
    )


def test_later_verdicts_replace_earlier_ones_and_undo_brings_them_back():
    state = empty_state()
    first, second = event("ana", 0, "accept", "dog"), event("ana", 0, "relabel", "owl")
    state.add(first)
    state.add(second)
    assert state.outcome(0).chosen == "owl"
    state.add(event("ana", 0, "undo", undoes=second.key))
    assert state.outcome(0).chosen == "dog"
    state.add(event("ana", 0, "clear"))
    assert state.outcome(0).status == "open"
    assert state.own_events("ana")[0] == (0, first)


def test_a_clear_withdraws_ones_own_verdict_or_else_all():
    state = empty_state()
    state.add(event("ana", 0))
    state.add(event("ben", 0, "accept", "dog"))
    state.add(event("ana", 0, "clear"))
    assert set(state.current[0]) == {"ben"}
    state.add(event("cleo", 0, "clear"))
    assert 0 not in state.current


def test_outcomes_are_a_majority_an_adjudication_or_open():
    state = empty_state()
    state.add(event("ana", 0))
    state.add(event("ben", 0, "accept", "dog"))
    assert state.outcome(0).status == "disagreement"
    state.add(event("cleo", 0, "relabel", "dog"))
    assert (state.outcome(0).status, state.outcome(0).chosen) == ("decided", "dog")
    state.add(event("ana", 0, "keep", kind=ADJUDICATION))
    assert state.outcome(0).chosen == "cat"
    state.add(event("ana", 1, "skip"))
    assert state.outcome(1).status == "skipped"
    state.add(event("ben", 1))
    assert state.outcome(1).chosen == "cat"


def test_events_about_other_labels_have_no_effect():
    state = empty_state()
    assert state.add(event("ana", 0, label="dog")) is None
    assert state.add(event("ana", 99)) is None
    assert (state.stale, state.current) == (2, {})


def test_reviewers_get_different_samples_until_a_lease_ends():
    state, queue = empty_state(), SharedQueue(SAMPLES, 1, ["ana", "ben"])
    ana = queue.extend("ana", 10, state, 0.0)
    ben = queue.extend("ben", 10, state, 1.0)
    assert len({*ana, *ben}) == 20
    state.add(event("ana", ana[0]))
    assert queue.open_places("ana", state, 2.0) == ana[1:]
    queue.renew("ben", LEASE - 1)
    late = queue.extend("ben", 30, state, LEASE + 1)
    assert set(ana[1:]) <= set(late)
    assert ana[0] not in late
    assert not set(late) & set(ben)


def test_one_position_in_ten_is_random_and_follows_the_permutation():
    positions = [is_random_position(position, 5) for position in range(1000)]
    assert all(sum(positions[start : start + RANDOM_EVERY]) == 1 for start in range(0, 1000, RANDOM_EVERY))
    assert len({positions[start : start + RANDOM_EVERY].index(True) for start in range(0, 1000, RANDOM_EVERY)}) > 5
    samples = 500
    state, queue = empty_state(samples), SharedQueue(samples, 5, ["ana"])
    order = random_order(samples, 5).tolist()
    for position in range(200):
        places = order if positions[position] else range(samples)
        expected = next(place for place in places if place not in state.current)
        assert queue.extend("ana", 1, state, 0.0) == [expected]
        assert queue.drawn[expected] == positions[position]
        state.add(event("ana", expected))


@given(st.integers(0, 2**32), st.integers(1, 300))
def test_the_random_order_is_a_permutation_that_depends_on_the_seed_only(seed, samples):
    order = random_order(samples, seed)
    assert sorted(order.tolist()) == list(range(samples))
    assert order.tolist() == random_order(samples, seed).tolist()


def test_the_overlap_is_judged_by_two_blindly():
    state, queue = empty_state(), SharedQueue(SAMPLES, 1, ["ana", "ben"], overlap=1.0)
    ana, ben = queue.extend("ana", 10, state, 0.0), queue.extend("ben", 10, state, 0.0)
    shared = set(ana) & set(ben)
    assert len(shared) == 5
    place = min(shared)
    state.add(event("ana", place))
    assert queue.is_blind(place, "ben", state)
    assert not queue.is_blind(place, "ana", state)
    state.add(event("ben", place, "accept", "dog"))
    assert not queue.is_blind(place, "ben", state)
    assert queue.needs_adjudication(place, state)


def test_a_share_of_the_samples_overlaps():
    queue = SharedQueue(10_000, 1, ["ana", "ben"], overlap=0.1)
    twice = sum(queue.verdicts_needed(place, empty_state(1)) == 2 for place in range(10_000))
    assert 900 < twice < 1_100
    assert SharedQueue(50, 1, ["ana"], overlap=1.0).verdicts_needed(0, empty_state()) == 1


def test_a_disagreement_goes_to_a_third_reviewer_who_does_not_see_it():
    state, queue = empty_state(), SharedQueue(SAMPLES, 1, ["ana", "ben", "cleo"], overlap=1.0)
    state.add(event("ana", 3))
    state.add(event("ben", 3, "accept", "dog"))
    assert not queue.needs_adjudication(3, state)
    assert queue.is_blind(3, "cleo", state)
    assert 3 in queue.extend("cleo", 10, state, 0.0)
    state.add(event("cleo", 3, "relabel", "owl"))
    assert queue.needs_adjudication(3, state)
    state.add(event("cleo", 3, "keep"))
    assert state.outcome(3).chosen == "cat"


def test_the_panel_counts_decided_samples_and_random_draws():
    state, queue = empty_state(), SharedQueue(SAMPLES, 1, ["ana", "ben"], overlap=1.0)
    queue.drawn = {0: False, 1: True, 2: True, 3: False}
    for given_event in (
        *(event("ana", 2, "accept", "dog"), event("ana", 0), event("ana", 1), event("ana", 3, "skip")),
        *(event("ben", 0), event("ben", 1, "accept", "dog")),
    ):
        state.add(given_event)
    arrays = judged_arrays(state, queue)
    assert arrays.rows.tolist() == [2, 0]
    assert arrays.wrong.tolist() == [True, False]
    assert arrays.drawn_at_random.tolist() == [True, False]
    shown = panel(state, queue)
    assert (shown["judged"], shown["wrong"], shown["random"], shown["randomWrong"]) == (2, 1, 1, 1)
    assert (shown["reviewers"], shown["disagreements"]) == ({"ana": 4, "ben": 2}, 1)
    assert (agreement(state).name, agreement(state).samples, agreement(state).agreed) == ("Cohen", 2, 1)


def test_empty_arrays_have_types():
    arrays = judged_arrays(empty_state(), SharedQueue(SAMPLES, 1, ["ana"]))
    assert (arrays.rows.dtype, arrays.wrong.dtype, len(arrays.drawn_at_random)) == (np.int64, np.bool_, 0)


def test_sqlite_synchronises_every_commit(tmp_path):
    database = ReviewDatabase(tmp_path / "review.sqlite")
    with database.begin() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
    database.close()
    assert (tmp_path / "review.sqlite").stat().st_mode & 0o077 == 0


def test_other_databases_are_left_alone(tmp_path):
    import sqlite3

    from errata.errors import StoreError

    with sqlite3.connect(tmp_path / "other.sqlite") as connection:
        connection.execute("CREATE TABLE mine (x)")
    with pytest.raises(StoreError, match="holds other tables"):
        ReviewDatabase(tmp_path / "other.sqlite")
