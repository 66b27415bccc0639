import numpy as np
import oracle
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax

import errata
from errata.core.rates import NoiseRate
from errata.dynamics.recorder import Recorder
from errata.finding.ranking import (
    ASKED,
    confusions,
    estimated_rate,
    expected_curve,
    methods_asked,
    probabilities,
    ranked,
)


def rate_of(rate):
    return NoiseRate(rate, 0.0, 1.0, 0.95, "made up")


@given(
    arrays(np.float64, st.integers(2, 50), elements=st.floats(-50, 50)),
    st.floats(0.01, 0.99),
)
def test_probabilities_sum_to_the_estimate_and_fall_with_the_score(scores, rate):
    found = probabilities(scores, rate, steepness=2.0)
    assert found.sum() == pytest.approx(rate * len(scores), rel=1e-6)
    assert ((found >= 0) & (found <= 1)).all()
    assert (np.diff(found[np.argsort(scores)]) >= 0).all()


def test_probabilities_are_a_logistic_curve_of_the_score():
    scores = np.random.default_rng(0).normal(size=200)
    found = probabilities(scores, 0.3, steepness=2.0)
    slopes = np.diff(np.log(found / (1 - found))) / np.diff(scores)
    np.testing.assert_allclose(slopes, 2.0, rtol=1e-6)


def test_probabilities_where_there_is_nothing_or_everything_to_find():
    scores = np.array([3.0, -1.0, 0.0])
    assert probabilities(scores, 0.0, 2.0).tolist() == [0, 0, 0]
    assert probabilities(scores, 1.0, 2.0).tolist() == [1, 1, 1]
    np.testing.assert_allclose(probabilities(np.zeros(4), 0.25, 2.0), 0.25)


def test_the_table_says_of_every_sample_what_it_promises(curves):
    logits, labels, _ = curves(0, dtype=np.float64)
    dynamics = errata.Dynamics.from_arrays(logits, labels)
    table = ranked(dynamics, rate_of(0.2))
    assert list(table.columns) == ["id", "label", "suggested", "score", "rank", "p_wrong", "agree", "mean_loss"]
    assert table["rank"].tolist() == list(range(1, len(labels) + 1))
    assert table["p_wrong"].sum() == pytest.approx(0.2 * len(labels))
    assert table["p_wrong"].is_monotonic_decreasing
    by_id = table.set_index("id").sort_index()
    every = np.arange(len(labels))
    believed = oracle.unmixed(softmax(logits, axis=2).mean(axis=0), labels)
    assert by_id["label"].tolist() == labels.tolist()
    assert by_id["suggested"].tolist() == believed.argmax(axis=1).tolist()
    losses = -np.log(softmax(logits, axis=2)[:, every, labels]).mean(axis=0)
    np.testing.assert_allclose(by_id["mean_loss"], losses)
    others = np.where(np.arange(5) == labels[:, None], -np.inf, np.log(believed)).max(axis=1)
    np.testing.assert_allclose(by_id["score"], others - np.log(believed)[every, labels])


@pytest.mark.parametrize("epochs", [1, None])
def test_the_odds_of_a_wrong_label_rise_by_four_a_deviation_of_the_score_or_with_a_single_epochs_own_odds(
    curves, epochs
):
    logits, labels, _ = curves(2, dtype=np.float64)
    table = ranked(errata.Dynamics.from_arrays(logits[:epochs], labels), rate_of(0.3))
    expected = 1.0 if epochs == 1 else 4 / np.std(table["score"])
    odds = np.log(table["p_wrong"] / (1 - table["p_wrong"]))
    assert np.polyfit(table["score"], odds, 1)[0] == pytest.approx(expected)


def test_agreement_is_the_share_of_methods_that_put_a_sample_among_the_errors(curves):
    logits, labels, _ = curves(1)
    dynamics = errata.Dynamics.from_arrays(logits, labels)
    table = ranked(dynamics, rate_of(0.25)).set_index("id").sort_index()
    count = round(0.25 * len(labels))
    votes = []
    for name in ("Unmixed-MeanProb-LM", *ASKED[:-1]):
        scores = errata.score(dynamics, name)
        votes.append(np.isin(np.arange(len(labels)), np.argsort(-scores)[:count]))
    votes.append(errata.flags(dynamics, "CL-PBNR (IS)"))
    np.testing.assert_allclose(table["agree"], np.mean(votes, axis=0))


def test_where_neighbours_are_known_the_default_is_asked_besides_and_suggests(curves):
    logits, labels, _ = curves(2)
    points = np.random.default_rng(0).normal(size=(len(labels), 3)) + 5 * np.eye(5, 3)[labels]
    dynamics = errata.Dynamics.from_arrays(logits, labels, inputs=points)
    methods = methods_asked(dynamics)
    assert [method.name for method in methods] == ["Unmixed-kNN-EarlyProb-LM", *ASKED[:-1], "CL-PBNR (IS)"]
    table = ranked(dynamics, rate_of(0.2)).set_index("id").sort_index()
    np.testing.assert_array_equal(table["score"], errata.score(dynamics))
    prefers_another = table["suggested"] != table["label"]
    np.testing.assert_array_equal(prefers_another, table["score"] > 0)


def test_the_order_of_the_rows_changes_nothing(curves):
    logits, labels, _ = curves(3)
    logits[:, 5:20], labels[5:20] = logits[:, 5:6], labels[5]  # equal samples, so equal scores
    order = np.random.default_rng(0).permutation(len(labels))
    ids = np.array([f"s{row}" for row in range(len(labels))])
    one = ranked(errata.Dynamics.from_arrays(logits, labels, ids=ids), rate_of(0.2))
    other = ranked(errata.Dynamics.from_arrays(logits[:, order], labels[order], ids=ids[order]), rate_of(0.2))
    pd.testing.assert_frame_equal(one, other)


def test_running_sums_are_ranked_as_all_epochs_are(curves):
    logits, labels, _ = curves(4)
    recorder = Recorder(labels=labels, num_classes=5, keep="stream", quiet=True)
    for epoch in logits:
        recorder.update_all(epoch)
        recorder.end_epoch()
    streamed, kept = recorder.finish(), errata.Dynamics.from_arrays(logits, labels)
    assert estimated_rate(streamed) == estimated_rate(kept)
    pd.testing.assert_frame_equal(ranked(streamed, rate_of(0.2)), ranked(kept, rate_of(0.2)))


def test_the_estimate_is_what_all_estimates_say_together(curves):
    dynamics = errata.Dynamics.from_arrays(*curves(5)[:2])
    first = errata.noise_rates(dynamics).iloc[0]
    estimate = estimated_rate(dynamics)
    assert (estimate.rate, estimate.low, estimate.high, estimate.how) == tuple(first[["rate", "low", "high", "how"]])


@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(0, 1)))
def test_the_curve_adds_the_probabilities_up(p_wrong):
    curve = expected_curve(p_wrong)
    assert curve["inspected"].tolist() == list(range(len(p_wrong) + 1))
    for inspected, errors in curve.itertuples(index=False):
        assert errors == pytest.approx(sum(p_wrong[: int(inspected)]))


def test_confusions_are_counted_among_the_first_of_the_ranking():
    ranking = pd.DataFrame({"label": list("aabaab"), "suggested": list("bbbbba")})
    table = confusions(ranking, 4)
    assert table.to_dict("records") == [{"label": "a", "suggested": "b", "count": 3}]
    assert confusions(ranking, 0).empty
    assert list(confusions(ranking, 6)["count"]) == [4, 1]
