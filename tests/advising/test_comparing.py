import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from errata import Dynamics, InputError, score, score_many
from errata.advising.comparing import compare, first, methods_compared
from errata.advising.memorising import memorising
from errata.core.methods import parse


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.data())
def test_a_sample_is_among_the_first_as_often_as_in_all_orders_of_equal_scores(values, data):
    count = data.draw(st.integers(1, len(values)))
    scores = np.array(values, dtype=float)
    orders = [order for order in itertools.permutations(range(len(values))) if sorted_down(scores, order)]
    expected = [sum(row in order[:count] for order in orders) / len(orders) for row in range(len(values))]
    np.testing.assert_allclose(first(scores, count), expected)


def sorted_down(scores, order):
    return all(scores[a] >= scores[b] for a, b in itertools.pairwise(order))


def test_agreement_and_stability_are_those_of_sets(curves):
    logits, labels, _ = curves(0, epochs=9, samples=80)
    dynamics = Dynamics.from_arrays(logits, labels, gathering="in-sample")
    table = compare(dynamics, methods_compared(dynamics, None), 15).set_index("method")
    others = [name for name in score_many(dynamics).columns if not name.startswith("CTRL")]
    asked = ["Unmixed-MeanProb-LM", *others]
    assert sorted(table.index) == sorted(asked)
    assert table.index[0] == "Unmixed-MeanProb-LM"
    assert table["agreement"].iloc[1:].is_monotonic_decreasing

    def top(name, window=None):
        return set(np.argsort(-score(dynamics, name, window=window))[:15].tolist())

    # Membership of tied methods is a matter of chance: those without ties are checked against plain sets.
    votes = sum(first(score(dynamics, name), 15) for name in asked)
    majority = set(np.flatnonzero(votes > len(asked) / 2).tolist())
    for name in ("Unmixed-MeanProb-LM", "MeanProb-LM", "Mean-CE", "Last-LM", "Mean-LM"):
        assert table["agreement"][name] == pytest.approx(len(top(name) & majority) / 15)
        assert table["stability"][name] == pytest.approx(len(top(name, (0, 3)) & top(name, (4, 8))) / 15)


def test_who_is_asked_does_not_depend_on_who_is_shown(curves):
    logits, labels, _ = curves(1)
    dynamics = Dynamics.from_arrays(logits, labels)
    every = compare(dynamics, methods_compared(dynamics, None), 12).set_index("method")
    shown = methods_compared(dynamics, ["Mean-CE", "Unmixed-MeanProb-LM"])
    assert [method.name for method in shown] == ["Unmixed-MeanProb-LM", "Mean-CE"]
    few = compare(dynamics, shown, 12).set_index("method")
    pd.testing.assert_frame_equal(few, every.loc[["Unmixed-MeanProb-LM", "Mean-CE"]])


def test_ctrl_is_compared_when_it_is_named(curves):
    logits, labels, _ = curves(2)
    dynamics = Dynamics.from_arrays(logits, labels)
    table = compare(dynamics, methods_compared(dynamics, ["CTRL-LM"]), 12)
    assert table["method"].tolist() == ["Unmixed-MeanProb-LM", "CTRL-LM"]
    assert table.notna().all(axis=None)


def test_a_weight_average_and_a_single_epoch_have_no_halves(curves):
    logits, labels, _ = curves(3)
    averaged = Dynamics.from_arrays(logits, labels, swa_logits=logits[-1])
    table = compare(averaged, methods_compared(averaged, None), 12).set_index("method")
    assert table.index[table["stability"].isna()].tolist() == table.index[table.index.str.startswith("SWA")].tolist()
    one = Dynamics.from_arrays(logits[-1], labels)
    assert compare(one, methods_compared(one, None), 12)["stability"].isna().all()


def test_a_run_in_which_samples_miss_a_half_is_not_cut_in_two(curves):
    logits, labels, _ = curves(4)
    logits[:6, 7] = np.nan
    dynamics = Dynamics.from_arrays(logits, labels, partial="allow")
    assert compare(dynamics, methods_compared(dynamics, None), 12)["stability"].isna().all()
    logits, labels, _ = curves(4)
    logits[:5, 7] = np.nan
    dynamics = Dynamics.from_arrays(logits, labels, partial="allow")
    assert compare(dynamics, methods_compared(dynamics, ["Mean-LM"]), 12)["stability"].notna().all()


def test_a_method_that_does_not_suit_the_dynamics_is_refused(curves):
    logits, labels, _ = curves(5)
    dynamics = Dynamics.from_arrays(logits, labels, gathering="in-sample")
    with pytest.raises(InputError, match="out-of-sample"):
        methods_compared(dynamics, [parse("Last-LM (OOS)")])


def test_signs_of_memorising_are_counted_epoch_by_epoch():
    labels = np.array([0, 1, 2, 0])
    predicted = np.array([[0, 0, 2, 0], [0, 0, 0, 1], [0, 1, 2, 1], [0, 1, 1, 0], [0, 1, 2, 0], [0, 1, 1, 0]])
    dynamics = Dynamics.from_arrays(np.eye(3)[predicted] * 9.0 - 3, labels)
    signs = memorising(dynamics, np.array([0.0, 0.0, 0.5, 1.0]))
    assert (signs.learned, signs.learned_best, signs.best_epoch) == (0.75, 1.0, 4)
    # Of the suspects, which count 1.5, the run ends with the fourth, which counts 1. From epoch 2 on it knows half of
    # that, the third, or more; what it predicted at epoch 0 it had forgotten at epoch 1.
    assert signs.suspects_learned == pytest.approx(1 / 1.5)
    assert signs.suspects_epoch == 2
    assert signs.much


def test_a_sample_that_misses_an_epoch_is_taken_as_it_was_before():
    labels = np.array([0, 1])
    logits = np.array([[[4, 0], [0, 4]], [[0, 4], [np.nan, np.nan]]], dtype=float)
    signs = memorising(Dynamics.from_arrays(logits, labels, partial="allow"), np.ones(2))
    assert (signs.learned, signs.learned_best) == (0.5, 1.0)


def test_what_was_held_out_or_summed_up_has_no_signs(curves):
    from errata import Recorder

    logits, labels, _ = curves(6)
    assert memorising(Dynamics.from_arrays(logits, labels, gathering="out-of-sample"), np.ones(60)) is None
    recorder = Recorder(labels=labels, num_classes=5, keep="stream")
    for epoch in logits:
        recorder.update(np.arange(60), epoch)
        recorder.end_epoch()
    dynamics = recorder.finish()
    assert memorising(dynamics, np.ones(60)) is None
    assert compare(dynamics, methods_compared(dynamics, None), 12)["stability"].isna().all()
