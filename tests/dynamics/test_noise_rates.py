import numpy as np
import oracle
import pytest
from scipy.special import softmax

import errata
from errata import Dynamics
from errata.core import rates
from errata.errors import InputError


def test_every_estimate_uses_mean_probabilities_after_unmixing(curves):
    logits, labels, _ = curves(3, samples=200)
    found = errata.noise_rates(Dynamics.from_arrays(logits, labels), window=(2, 9)).set_index("kind")
    probabilities = oracle.unmixed(softmax(logits[2:10].astype(float), axis=2).mean(axis=0), labels)
    every = np.arange(len(labels))
    others = probabilities.copy()
    others[every, labels] = 0
    margins = np.log(others.max(axis=1)) - np.log(probabilities[every, labels])
    expected = {
        "confident joint": rates.from_confident_joint(probabilities, labels),
        "mixture": rates.from_mixture(margins),
        "sign": rates.from_sign(margins),
    }
    for kind, estimate in expected.items():
        values = found.loc[kind, ["rate", "low", "high"]].tolist()
        assert values == pytest.approx([estimate.rate, estimate.low, estimate.high], abs=1e-4)
        assert found.loc[kind, "how"] == estimate.how
    alone = found.drop(index="together")
    together = found.loc["together"]
    assert (together["rate"], together["low"], together["high"]) == (
        alone["rate"].median(),
        alone["low"].min(),
        min(alone["high"].max(), max(alone["high"].median() + rates.CAP_ABOVE_OTHERS, 2 * alone["high"].median())),
    )
    assert "(confident joint, two groups of scores, the model's preference)" in together["how"]
    assert found["estimate"].tolist() == [
        "together",
        "confident joint",
        "mixture on Unmixed-MeanProb-LM",
        "sign of Unmixed-MeanProb-LM",
    ]


def test_held_out_predictions_are_used():
    """Two distant clouds, one per class: models that are trained without a sample predict its true class."""
    rng = np.random.default_rng(0)
    true = np.arange(300) % 2
    wrong = rng.random(300) < 0.1
    inputs = 10 * true[:, None] + rng.normal(size=(300, 2))
    labels = np.where(wrong, 1 - true, true)
    undecided, leaning = np.zeros((3, 300, 2)), np.tile(0.1 * np.eye(2)[labels], (3, 1, 1))
    for logits in (undecided, leaning):
        found = errata.noise_rates(Dynamics.from_arrays(logits, labels, inputs=inputs)).set_index("kind")
        assert found.loc["sign", "rate"] == wrong.mean()
        assert found.loc["sign", "estimate"] == "sign of Unmixed-HeldOut-EarlyProb-LM"
    found = errata.noise_rates(Dynamics.from_arrays(undecided, labels, inputs=inputs)).set_index("kind")
    assert found.loc["confident joint", "rate"] == pytest.approx(wrong.mean(), abs=0.01)
    low, high = found.loc["typical samples", ["low", "high"]]
    assert low <= wrong.mean() <= high
    alone = errata.noise_rates(Dynamics.from_arrays(leaning, labels)).set_index("kind")
    assert "typical samples" not in alone.index
    assert alone.loc["sign", "rate"] == 0


def test_overlap_does_not_count_among_typical_samples():
    """Two clouds that overlap: the Bayes classifier contradicts 16 % of the labels, 5 % of all are wrong."""
    rng = np.random.default_rng(1)
    true = np.arange(4000) % 2
    labels = np.where(rng.random(4000) < 0.05, 1 - true, true)
    inputs = 2 * true[:, None] + rng.normal(size=(4000, 1))
    centred = 2 * (inputs[:, 0] - 1)
    held_out = np.column_stack([-centred, centred]) / 2
    logits = np.stack([held_out, held_out])
    found = errata.noise_rates(Dynamics.from_arrays(logits, labels, held_out=held_out)).set_index("kind")
    assert found.loc["sign", "rate"] > 0.15
    confident = np.zeros(4000, dtype=bool)
    for side in (1, -1):
        rows = np.flatnonzero(side * centred > 0)
        confident[rows[np.argsort(-side * centred[rows])[: len(rows) // 10]]] = True
    contradicted = (labels != (centred > 0))[confident].mean()
    assert found.loc["typical samples", "rate"] == pytest.approx(contradicted, abs=0.005)
    low, high = found.loc["typical samples", ["low", "high"]]
    assert low <= 0.05 <= high


def test_running_sums_of_the_default_method_suffice(curves):
    logits, labels, _ = curves(0)
    recorder = errata.Recorder(labels=labels, keep="stream", methods=["MeanProb-LM"], quiet=True)
    for epoch in logits:
        recorder.update(range(len(labels)), epoch)
        recorder.end_epoch()
    streamed = errata.noise_rates(recorder.finish())
    stored = errata.noise_rates(Dynamics.from_arrays(logits, labels))
    columns = ["rate", "low", "high"]
    np.testing.assert_allclose(streamed[columns], stored[columns])


@pytest.mark.parametrize("confidence", [0, 1, -0.5, np.nan])
def test_confidence_is_between_0_and_1(curves, confidence):
    logits, labels, _ = curves(0)
    with pytest.raises(InputError, match="confidence is"):
        errata.noise_rates(Dynamics.from_arrays(logits, labels), confidence=confidence)
