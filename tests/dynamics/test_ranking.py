import numpy as np
import oracle
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax

import errata
from errata.dynamics import ranking
from errata.dynamics.ranking import COMPARED, analyse, ranking_table, wrong_probabilities
from errata.dynamics.recorder import Recorder

COLUMNS = [
    "id",
    "label",
    "suggested",
    "score",
    "rank",
    "label_probability",
    "suggested_probability",
    "p_wrong",
    "agree",
    "mean_loss",
]


def streamed_run(logits, labels, methods=None):
    recorder = Recorder(labels=labels, num_classes=5, keep="stream", methods=methods, quiet=True)
    for epoch in logits:
        recorder.update_all(epoch)
        recorder.end_epoch()
    return recorder.finish()


@given(
    arrays(np.float64, st.integers(2, 50), elements=st.floats(-50, 50)),
    st.floats(0.01, 0.99),
)
def test_probabilities_sum_to_the_estimate_and_fall_with_the_score(scores, rate):
    p_wrong = wrong_probabilities(scores, rate, slope=2.0)
    assert p_wrong.sum() == pytest.approx(rate * len(scores), rel=1e-6)
    assert ((p_wrong >= 0) & (p_wrong <= 1)).all()
    assert (np.diff(p_wrong[np.argsort(scores)]) >= 0).all()


def test_default_has_a_column_of_its_own_beside_the_method_it_stands_for(curves):
    logits, labels, _ = curves(0)
    dynamics = errata.Dynamics.from_arrays(logits, labels)
    table = errata.score_many(dynamics, ["default", "Unmixed-MeanProb-LM", "Default", "mean-ce"])
    assert list(table) == ["default", "Unmixed-MeanProb-LM", "Mean-CE"]
    np.testing.assert_array_equal(table["default"], table["Unmixed-MeanProb-LM"])
    np.testing.assert_array_equal(table["default"], errata.score(dynamics))


def test_probabilities_are_a_logistic_curve_of_the_score():
    scores = np.random.default_rng(0).normal(size=200)
    p_wrong = wrong_probabilities(scores, 0.3, slope=2.0)
    slopes = np.diff(np.log(p_wrong / (1 - p_wrong))) / np.diff(scores)
    np.testing.assert_allclose(slopes, 2.0, rtol=1e-6)


def test_probabilities_where_there_is_nothing_or_everything_to_find():
    scores = np.array([3.0, -1.0, 0.0])
    assert wrong_probabilities(scores, 0.0, 2.0).tolist() == [0, 0, 0]
    assert wrong_probabilities(scores, 1.0, 2.0).tolist() == [1, 1, 1]
    np.testing.assert_allclose(wrong_probabilities(np.zeros(4), 0.25, 2.0), 0.25)


def test_the_table_of_the_default_method_has_all_columns(curves):
    logits, labels, _ = curves(0, dtype=np.float64)
    dynamics = errata.Dynamics.from_arrays(logits, labels)
    table = errata.rank(dynamics)
    assert list(table.columns) == COLUMNS
    assert table["rank"].tolist() == list(range(1, len(labels) + 1))
    assert table["p_wrong"].sum() == pytest.approx(errata.noise_rates(dynamics)["rate"][0] * len(labels))
    assert table["p_wrong"].is_monotonic_decreasing
    by_id = table.set_index("id").sort_index()
    every = np.arange(len(labels))
    unmixed = oracle.unmixed(softmax(logits, axis=2).mean(axis=0), labels)
    assert by_id["label"].tolist() == labels.tolist()
    assert by_id["suggested"].tolist() == unmixed.argmax(axis=1).tolist()
    np.testing.assert_allclose(by_id["suggested_probability"], unmixed.max(axis=1))
    np.testing.assert_allclose(by_id["label_probability"], unmixed[every, labels])
    losses = -np.log(softmax(logits, axis=2)[:, every, labels]).mean(axis=0)
    np.testing.assert_allclose(by_id["mean_loss"], losses)
    others = np.where(np.arange(5) == labels[:, None], -np.inf, np.log(unmixed)).max(axis=1)
    np.testing.assert_allclose(by_id["score"], others - np.log(unmixed)[every, labels])


def test_find_returns_the_same_table_as_rank(curves):
    dynamics = errata.Dynamics.from_arrays(*curves(0)[:2])
    pd.testing.assert_frame_equal(errata.find(dynamics).ranking, errata.rank(dynamics))


@pytest.mark.parametrize(("method", "flag"), [("Mean-CE", []), ("CL-PBNR", ["flag"]), ("CTRL-CE", ["flag"])])
def test_the_table_of_a_named_method_has_flags_if_the_method_has(curves, method, flag):
    dynamics = errata.Dynamics.from_arrays(*curves(0)[:2])
    assert list(errata.rank(dynamics, method).columns) == [*COLUMNS[:7], *flag]


def test_the_logits_are_read_once_after_the_method_is_chosen(curves, monkeypatch):
    passes, read = [], errata.Dynamics.sample_arrays

    def counted_read(dynamics, statistics, *rest):
        passes.append([statistic.name for statistic in statistics])
        return read(dynamics, statistics, *rest)

    monkeypatch.setattr(errata.Dynamics, "sample_arrays", counted_read)
    errata.find(errata.Dynamics.from_arrays(*curves(0)[:2]))
    to_choose, to_rank = passes
    assert to_choose == ["LastQuarter-LM"]
    assert {"Unmixed-MeanProb-LM", *ranking.COMPARED[:4]} <= set(to_rank)


@pytest.mark.parametrize("epochs", [1, None])
def test_the_log_odds_of_a_wrong_label_rise_by_four_per_deviation_or_for_one_epoch_with_the_score(curves, epochs):
    logits, labels, _ = curves(2, dtype=np.float64)
    table = errata.rank(errata.Dynamics.from_arrays(logits[:epochs], labels))
    expected = 1.0 if epochs == 1 else 4 / np.std(table["score"])
    odds = np.log(table["p_wrong"] / (1 - table["p_wrong"]))
    assert np.polyfit(table["score"], odds, 1)[0] == pytest.approx(expected)


def test_agreement_is_the_share_of_methods_that_put_a_sample_among_the_errors(curves):
    logits, labels, _ = curves(1)
    dynamics = errata.Dynamics.from_arrays(logits, labels)
    table = errata.rank(dynamics).set_index("id").sort_index()
    count = round(errata.noise_rates(dynamics)["rate"][0] * len(labels))
    votes = []
    for name in ("Unmixed-MeanProb-LM", *COMPARED[:-1]):
        scores = errata.score(dynamics, name)
        votes.append(np.isin(np.arange(len(labels)), np.argsort(-scores)[:count]))
    votes.append(errata.flags(dynamics, "CL-PBNR (IS)"))
    np.testing.assert_allclose(table["agree"], np.mean(votes, axis=0))


def test_with_inputs_the_default_method_uses_held_out_predictions(curves):
    logits, labels, _ = curves(2)
    points = np.random.default_rng(0).normal(size=(len(labels), 3)) + 5 * np.eye(5, 3)[labels]
    dynamics = errata.Dynamics.from_arrays(logits, labels, inputs=points)
    analysis = analyse(dynamics, compare=True)
    assert analysis.method.name == "Unmixed-HeldOut-EarlyProb-LM"
    assert list(analysis.compared) == [*COMPARED[:-1], "CL-PBNR (IS)"]
    table = ranking_table(analysis).set_index("id").sort_index()
    np.testing.assert_array_equal(table["score"], errata.score(dynamics))
    np.testing.assert_array_equal(table["suggested"] != table["label"], table["score"] > 0)


def test_the_order_of_the_rows_changes_nothing(curves):
    logits, labels, _ = curves(3)
    logits[:, 5:20], labels[5:20] = logits[:, 5:6], labels[5]  # equal samples, so equal scores
    order = np.random.default_rng(0).permutation(len(labels))
    ids = np.array([f"s{row}" for row in range(len(labels))])
    one = errata.rank(errata.Dynamics.from_arrays(logits, labels, ids=ids))
    other = errata.rank(errata.Dynamics.from_arrays(logits[:, order], labels[order], ids=ids[order]))
    pd.testing.assert_frame_equal(one, other)


def test_running_sums_are_ranked_like_stored_epochs(curves):
    logits, labels, _ = curves(4)
    pd.testing.assert_frame_equal(
        errata.rank(streamed_run(logits, labels)), errata.rank(errata.Dynamics.from_arrays(logits, labels))
    )


def test_running_sums_without_the_compared_methods_are_ranked_without_their_columns(curves):
    logits, labels, _ = curves(4)
    streamed = streamed_run(logits, labels, ["Unmixed-MeanProb-LM"])
    expected = errata.rank(errata.Dynamics.from_arrays(logits, labels))
    pd.testing.assert_frame_equal(errata.rank(streamed), expected.drop(columns=["agree", "mean_loss"]))
    with pytest.raises(errata.InputError, match="Mean-LM"):
        errata.find(streamed)
    assert list(errata.rank(streamed_run(logits, labels, ["Mean-CE"]), "Mean-CE")) == ["id", "label", "score", "rank"]


def test_the_rate_is_the_median_of_the_estimates(curves):
    dynamics = errata.Dynamics.from_arrays(*curves(5)[:2])
    first = errata.noise_rates(dynamics).iloc[0]
    rate = analyse(dynamics).rate
    assert (rate.rate, rate.low, rate.high, rate.how) == tuple(first[["rate", "low", "high", "how"]])
