"""Verdicts and queues without a server: folding events, leases, overlap, random positions, and the panel."""

import itertools

import numpy as np
import pytest

from errata.core.certifying import certify_recall
from errata.core.guarantees import check_verdicts, count_wrong
from errata.core.random_part import random_order, random_positions
from errata.core.recalibration import expect_among_next, recalibrate
from errata.review.server.database import ReviewDatabase
from errata.review.server.event_log import Assignment
from errata.review.server.events import ADJUDICATION, BLIND, IMPORT, Event
from errata.review.server.panel import FEWEST_CHECKS, LEFT_BEHIND, agreement, judged_verdicts, panel, statements
from errata.review.server.queues import LEASE, SharedQueue
from errata.review.server.verdict_state import VerdictState

SAMPLES = 40
KEYS = itertools.count(1)


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


def test_random_positions_follow_the_permutation():
    positions = random_positions(1000, 5).tolist()
    samples = 500
    state, queue = empty_state(samples), SharedQueue(samples, 5, ["ana"])
    order = random_order(samples, 5).tolist()
    for position in range(200):
        places = order if positions[position] else range(samples)
        expected = next(place for place in places if place not in state.current)
        assert queue.extend("ana", 1, state, 0.0) == [expected]
        assert queue.drawn[expected] == positions[position]
        state.add(event("ana", expected))


@pytest.mark.parametrize("every", [1, 3])
def test_another_share_of_the_queue_is_drawn_at_random(every):
    state, queue = empty_state(), SharedQueue(SAMPLES, 5, ["ana"], random_every=every)
    queue.extend("ana", 30, state, 0.0)
    drawn = list(queue.drawn.values())
    assert [sum(drawn[block : block + every]) for block in range(0, 30, every)] == [1] * (30 // every)
    if every == 1:
        assert list(queue.drawn) == random_order(SAMPLES, 5)[:30].tolist()


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
    state, queue = empty_state(), SharedQueue(SAMPLES, 1, ["ana", "ben"])
    queue.drawn = {0: False, 1: True, 2: True, 3: False}
    for given_event in (
        *(event("ana", 2, "accept", "dog"), event("ana", 0), event("ana", 1), event("ana", 3, "skip")),
        *(event("ben", 0), event("ben", 1, "accept", "dog")),
    ):
        state.add(given_event)
    shown = panel(state, queue)
    assert (shown["judged"], shown["wrong"], shown["random"], shown["randomWrong"]) == (2, 1, 1, 1)
    assert shown["reviewers"] == {"ana": 4, "ben": 2}


def test_agreement_counts_the_first_blind_verdicts_only():
    state = empty_state()
    for given_event in (
        *(event("ana", 0, kind=BLIND), event("ben", 0, kind=BLIND)),  # equal
        *(event("ana", 1, kind=BLIND), event("ben", 1, "accept", "dog", kind=BLIND), event("ana", 1, "accept", "dog")),
        *(event("ana", 2), event("ben", 2)),  # not part of the overlap: ben saw the verdict of ana
        *(event("ana", 3, kind=BLIND), event("ben", 3, kind=IMPORT)),
        *(event("ana", 4, "skip", kind=BLIND), event("ben", 4, kind=BLIND), event("ana", 4)),  # ana saw that of ben
        *(event("ana", 5, kind=BLIND), event("cleo", 5, "clear"), event("cleo", 5, kind=BLIND)),
    ):
        state.add(given_event)
    undone = event("ana", 6, kind=BLIND)
    for given_event in (
        undone,
        event("ben", 6, "accept", "dog", kind=BLIND),
        event("ana", 6, "undo", undoes=undone.key),
    ):
        state.add(given_event)
    state.add(event("ana", 6, "accept", "dog", kind=BLIND))  # after the verdict of ben was visible
    kappa = agreement(state)
    assert (kappa.name, kappa.samples, kappa.agreed) == ("Cohen", 3, 1)
    for name, label in (("ana", "dog"), ("cleo", "owl"), ("ben", "dog")):  # the third saw a disagreement, but not which
        state.add(event(name, 7, "accept", label, kind=BLIND))
    kappa = agreement(state)
    assert (kappa.name, kappa.samples, kappa.agreed) == ("Fleiss", 4, 1)


def arrays_of(state, queue):
    verdicts = judged_verdicts(state, queue, np.linspace(0.9, 0.1, queue.samples))
    return verdicts.rows.tolist(), verdicts.wrong.tolist(), verdicts.at_random.tolist()


def test_a_hidden_verdict_shows_in_no_count():
    state, queue = empty_state(), SharedQueue(SAMPLES, 1, ["ana", "ben"], overlap=1.0)
    queue.drawn, queue.handed_after = {3: True}, {3: 0}
    before = panel(state, queue)
    state.add(event("ana", 3, "accept", "dog", kind=BLIND))
    assert panel(state, queue) == {**before, "reviewers": {"ana": 1, "ben": 0}}
    accepted = arrays_of(state, queue)
    other = empty_state()
    other.add(event("ana", 3, kind=BLIND))
    assert accepted == arrays_of(other, queue) == ([3], [-1], [True])
    state.add(event("ben", 3, "accept", "dog", kind=BLIND))
    shown = panel(state, queue)
    assert (shown["judged"], shown["wrong"], shown["random"], shown["randomWrong"]) == (1, 1, 1, 1)
    assert arrays_of(state, queue) == ([3], [1], [True])


def test_a_blind_clear_withdraws_only_ones_own_verdict():
    state = empty_state()
    state.add(event("ana", 0, kind=BLIND))
    state.add(event("ben", 0, "clear", kind=BLIND))
    assert set(state.current[0]) == {"ana"}


def test_verdicts_are_in_the_order_of_handing_out_and_each_sample_counts_once():
    state, queue = empty_state(), SharedQueue(SAMPLES, 1, ["ana", "ben"])
    for place, random in {0: False, 7: True, 1: False, 2: False, 9: True}.items():
        queue.drawn[place], queue.handed_after[place] = random, 0
    for given_event in (
        *(event("ana", 9), event("ana", 2, "skip"), event("ana", 1, "accept", "dog"), event("ana", 7)),
        *(event("ben", 1, "accept", "dog"), event("ben", 7, "accept", "dog"), event("ana", 0)),
    ):
        state.add(given_event)
    assert arrays_of(state, queue) == ([0, 7, 1, 2, 9], [0, -1, 1, -1, 0], [False, True, False, False, True])
    state.add(event("cleo", 7, "keep", kind=ADJUDICATION))
    assert arrays_of(state, queue)[1] == [0, 0, 1, -1, 0]


def test_a_draw_is_not_random_if_a_sample_before_it_has_no_verdict():
    state, queue = empty_state(), SharedQueue(SAMPLES, 1, ["ana"])
    for place, random in {7: True, 0: False, 9: True}.items():
        queue.drawn[place], queue.handed_after[place] = random, 0
    state.add(event("ana", 7))
    state.add(event("ana", 9))
    assert arrays_of(state, queue) == ([7, 9], [0, 0], [True, False])
    state.add(event("ana", 0))
    assert arrays_of(state, queue) == ([7, 0, 9], [0, 0, 0], [True, False, True])


def test_a_sample_that_is_left_behind_is_unsure():
    state, queue = empty_state(300), SharedQueue(300, 1, ["ana"])
    handed = queue.extend("ana", LEFT_BEHIND, state, 0.0)
    for place in handed[1:]:
        state.add(event("ana", place))
    assert not any(arrays_of(state, queue)[2])
    queue.extend("ana", 1, state, 0.0)
    rows, wrong, at_random = arrays_of(state, queue)
    assert (rows[0], wrong[0], wrong.count(-1)) == (handed[0], -1, 1)
    assert at_random == [queue.drawn[place] for place in rows]


def test_samples_judged_outside_of_the_queue_are_not_random_and_count_from_their_first_event():
    state, queue = empty_state(), SharedQueue(SAMPLES, 1, ["ana"])
    first, second = event("ana", 30), event("ana", 31)
    state.add(first)
    queue.drawn[7], queue.handed_after[7] = True, first.number
    queue.drawn[30], queue.handed_after[30] = True, first.number  # handed out again after it was judged
    state.add(second)
    state.add(event("ana", 7))
    assert arrays_of(state, queue) == ([30, 7, 31], [0, 0, 0], [False, True, False])


def test_the_order_after_a_restart_is_that_before():
    state, queue = empty_state(200), SharedQueue(200, 4, ["ana", "ben"], overlap=0.3)
    restored, handed_out = SharedQueue(200, 4, ["ana", "ben"], overlap=0.3), []
    for number in range(60):
        name = ("ana", "ben")[number % 2]
        for place in queue.extend(name, 2, state, 0.0):
            assignment = (f"s{place}", name, queue.drawn[place], queue.handed_after[place])
            handed_out.append(Assignment(len(handed_out) + 1, *assignment))
            if number % 7 != 6:
                state.add(event(name, place))
    places = {f"s{place}": place for place in range(200)}
    assert restored.restore_all(handed_out, places, 0.0) == len(handed_out)
    assert arrays_of(state, restored) == arrays_of(state, queue)
    assert any(arrays_of(state, queue)[2])


def test_without_verdicts_there_are_empty_arrays():
    assert arrays_of(empty_state(), SharedQueue(SAMPLES, 1, ["ana"])) == ([], [], [])


def simulated_review(samples, verdicts, seed=0):
    """A queue that one perfect reviewer judged, p_wrong, and the truth."""
    rng = np.random.default_rng(seed)
    p_wrong = np.linspace(0.98, 0.02, samples) ** 3
    truth = rng.random(samples) < p_wrong
    state, queue = empty_state(samples), SharedQueue(samples, seed, ["ana"])
    for _ in range(verdicts):
        (place,) = queue.extend("ana", 1, state, 0.0)
        state.add(event("ana", place, *(("accept", "dog") if truth[place] else ("keep",))))
    return state, queue, p_wrong, truth


@pytest.mark.parametrize("judged", [200, 500, 990])
def test_the_statements_are_those_of_the_core_functions(judged):
    state, queue, p_wrong, truth = simulated_review(1_000, judged)
    rows = list(queue.drawn)
    arrays = (p_wrong, rows, truth[rows].astype(int), list(queue.drawn.values()))
    count, certificate = count_wrong(*arrays), certify_recall(*arrays, any_time=True)
    order, left = list(range(1_000)), min(100, 1_000 - judged)
    expected = expect_among_next(recalibrate(*arrays), order, rows, left)
    shown = statements(judged_verdicts(state, queue, p_wrong), order)
    interval = f"{count.low_any_time:,} and {count.high_any_time:,} labels are wrong, with 95 % confidence"
    assert shown[0].startswith(f"Between {interval} (estimate: ")
    errors = f"{round(expected)} error{'' if round(expected) == 1 else 's'}"
    assert shown[1] == f"Expect about {errors} among the next {left} samples."
    if certificate.certified:
        assert shown[2].startswith("Certified: at least ")
    else:
        assert shown[2].startswith("Not certified for 95 %: at least ")
        assert shown[3].startswith(f"{certificate.more_checks} more random check")
    assert count.low_any_time <= truth.sum() <= count.high_any_time
    assert certificate.certified == (judged == 990)


def test_with_few_random_verdicts_nothing_is_stated():
    state, queue, p_wrong, _ = simulated_review(1_000, 20)
    verdicts = judged_verdicts(state, queue, p_wrong)
    assert 0 < verdicts.checks < FEWEST_CHECKS
    (sentence,) = statements(verdicts, list(range(1_000)))
    assert sentence.endswith(f"after {FEWEST_CHECKS} random samples; {verdicts.checks} count so far.")


def test_statements_without_errors_and_with_unsure_verdicts():
    right = check_verdicts(np.full(50, 0.1), np.arange(20), np.zeros(20, dtype=int), np.ones(20, dtype=bool))
    assert statements(right, list(range(50)))[3].startswith("No label was judged wrong yet.")
    wrong = np.array([1, *[-1] * 19])
    unsure = check_verdicts(np.full(50, 0.1), np.arange(20), wrong, np.ones(20, dtype=bool))
    assert statements(unsure, list(range(50)))[3].startswith("Decide some of the 19 unsure samples (skipped, or ")
    done = check_verdicts(np.full(20, 0.1), np.arange(20), abs(wrong), np.ones(20, dtype=bool))
    assert statements(done, list(range(20))) == [
        "Exactly 20 labels are wrong, with 95 % confidence.",
        "Certified: at least 100 % of the wrong labels are found, with 95 % confidence. At most 0 are left.",
    ]


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
