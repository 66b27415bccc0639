"""Every measure x aggregation x window against the formulas as printed, and the equalities between methods."""

import aum as aum_package
import numpy as np
import oracle
import pytest
import torch
from scipy.stats import rankdata

from errata.core.method_registry import registered
from errata.core.methods import parse
from errata.core.replay import Epochs, replay
from errata.errors import InputError

MEASURES = registered("measure")
WINDOWS = [(0, 11), (0, 0), (11, 11), (3, 8)]


def scores(name, logits, labels, **more):
    return replay(Epochs(logits, labels, **more), [parse(name)])[0].scores


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("aggregation", "formula", "parameters"),
    [
        ("Last", oracle.last, {}),
        ("Mean", oracle.mean, {}),
        ("MeanProb", oracle.mean_prob, {}),
        ("RampProb", oracle.ramp_prob, {}),
        ("EMA", oracle.ema, {}),
        ("EMA(decay=0.5)", oracle.ema, {"decay": 0.5}),
        ("LateStopping(delta=0.3)", oracle.late_stopping, {"delta": 0.3}),
        ("LateStopping(k=3,delta=0.6)", oracle.late_stopping, {"k": 3, "delta": 0.6}),
    ],
)
def test_brute_force(curves, aggregation, formula, parameters, measure, window):
    logits, labels, _ = curves(1)
    seen = logits[window[0] : window[1] + 1]
    expected = oracle.over_samples(formula, seen, labels, oracle.MEASURES[measure], **parameters)
    np.testing.assert_allclose(scores(f"{aggregation}-{measure}", seen, labels), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("measure", MEASURES)
def test_swa_is_the_measure_of_the_averaged_models_logits(curves, measure):
    logits, labels, _ = curves(2)
    averaged = logits.mean(axis=0)
    expected = oracle.over_samples(oracle.last, averaged[None], labels, oracle.MEASURES[measure])
    result = scores(f"SWA-{measure}", logits, labels, swa_logits=averaged)
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


def test_swa_without_swa_logits_is_refused(curves):
    logits, labels, _ = curves(2)
    with pytest.raises(InputError, match="swa_logits"):
        scores("SWA-LM", logits, labels)


@pytest.mark.parametrize("name", ["MeanProb-LM", "MeanProb-CE", "RampProb-LM", "EMA-LM", "EMA-CE"])
def test_mean_probabilities_too_small_for_a_float_are_ranked(name):
    gaps = np.array([800.0, 900.0, 5000.0, 9000.0])
    logits = np.zeros((6, 4, 3))
    logits[:, :, 1] = gaps
    result = scores(name, logits, np.zeros(4, dtype=np.int64))
    np.testing.assert_allclose(result, gaps, rtol=1e-12)


def test_a_probability_may_grow_again_after_underflow():
    logits = np.zeros((3, 1, 2))
    logits[0, 0, 1] = 2000.0
    expected = oracle.mean([[0.0, 0.0], [0.0, 0.0]], 0, oracle.ce)  # two epochs of one half
    result = scores("MeanProb-CE", logits, np.zeros(1, dtype=np.int64))
    assert result[0] == pytest.approx(expected + np.log(3 / 2), rel=1e-12)


def test_late_stopping_of_a_measure_defaults_to_half_the_probability():
    logits = np.array([[[-1.0, 1.0]], [[0.1, 0.0]]])
    for measure in MEASURES:
        assert scores(f"LateStopping-{measure}", logits, np.zeros(1, dtype=np.int64)) == 2


# The equalities of the taxonomy


def ranks(name, logits, labels):
    return rankdata(np.round(scores(name, logits, labels), 10))


@pytest.mark.parametrize("aggregation", ["Last", "MeanProb", "RampProb", "EMA"])
def test_ce_and_js_rank_alike_under_one_vector(curves, aggregation):
    logits, labels, _ = curves(3, samples=200)
    ce, js = (scores(f"{aggregation}-{measure}", logits, labels) for measure in ("CE", "JS"))
    np.testing.assert_array_equal(np.argsort(ce, kind="stable"), np.argsort(js, kind="stable"))


@pytest.mark.parametrize("aggregation", ["Last", "MeanProb"])
def test_two_classes_rank_alike_under_ce_js_and_lm(curves, aggregation):
    logits, labels, _ = curves(4, samples=200, classes=2)
    ce, js, lm = (np.argsort(scores(f"{aggregation}-{m}", logits, labels)) for m in ("CE", "JS", "LM"))
    np.testing.assert_array_equal(ce, js)
    np.testing.assert_array_equal(ce, lm)


def test_mean_prob_cpd_is_the_sign_of_mean_prob_lm(curves):
    logits, labels, _ = curves(5, samples=300)
    np.testing.assert_array_equal(scores("MeanProb-CPD", logits, labels), scores("MeanProb-LM", logits, labels) > 0)


def test_mean_lm_is_minus_aum(curves, tmp_path):
    logits, labels, _ = curves(6)
    calculator = aum_package.AUMCalculator(str(tmp_path), compressed=True)
    ids = [str(i) for i in range(len(labels))]
    for epoch in torch.from_numpy(logits):
        records = calculator.update(epoch, torch.from_numpy(labels), ids)
    expected = [-records[i].aum for i in ids]
    np.testing.assert_allclose(scores("Mean-LM", logits, labels), expected, rtol=1e-5, atol=1e-6)


def test_mean_prob_ce_is_cartographys_confidence(curves):
    logits, labels, _ = curves(7)
    probabilities = torch.softmax(torch.from_numpy(logits).double(), dim=-1).numpy()
    confidence = probabilities[:, np.arange(len(labels)), labels].mean(axis=0)
    np.testing.assert_allclose(np.exp(-scores("MeanProb-CE", logits, labels)), confidence, rtol=1e-12)


def test_one_epoch_reduces_to_last(curves):
    logits, labels, _ = curves(8, epochs=1)
    for measure in MEASURES:
        for aggregation in ("Mean", "MeanProb", "EMA"):
            np.testing.assert_allclose(
                scores(f"{aggregation}-{measure}", logits, labels),
                scores(f"Last-{measure}", logits, labels),
                rtol=1e-6,
                atol=1e-6,
            )


# Missing epochs


def test_missing_epochs_are_left_out_of_the_average(curves):
    logits, labels, _ = curves(9)
    logits[2:5, 7] = np.nan
    logits[-1, 3] = np.nan
    present = np.delete(logits[:, 7:8], [2, 3, 4], axis=0)
    for name in ("Mean-CE", "MeanProb-LM", "EMA-LM", "Last-CE"):
        whole = scores(name, logits, labels, allow_missing=True)
        assert whole[7] == pytest.approx(scores(name, present, labels[7:8])[0], rel=1e-12)
    last = scores("Last-LM", logits, labels, allow_missing=True)
    assert last[3] == pytest.approx(oracle.lm(logits[-2, 3].tolist(), int(labels[3])))


def test_missing_epochs_are_refused_unless_allowed(curves):
    logits, labels, _ = curves(9)
    logits[4, 17] = np.nan
    with pytest.raises(InputError, match="sample 17 at epoch 4"):
        scores("Mean-CE", logits, labels)
    logits[:, 17] = np.nan
    with pytest.raises(InputError, match="sample 17 was not recorded"):
        scores("Mean-CE", logits, labels, allow_missing=True)


def test_ctrl_bridges_missing_epochs(curves):
    logits, labels, _ = curves(10, samples=100, epochs=20)
    holes = logits.copy()
    holes[5, 3] = np.nan
    holes[0, 9] = np.nan
    bridged = logits.copy()
    bridged[5, 3] = logits[4, 3]
    bridged[0, 9] = logits[1, 9]
    name = "CTRL(windows=2,clusters=2,selected=1)-CE"
    np.testing.assert_array_equal(scores(name, holes, labels, allow_missing=True), scores(name, bridged, labels))


@pytest.mark.parametrize(
    "bad", ["EMA(decay=1)-LM", "EMA(decay=-0.1)-LM", "LateStopping(k=0)-CPD", "CTRL(windows=2)-CE"]
)
def test_refuses_parameters(bad):
    with pytest.raises(InputError):
        parse(bad)
