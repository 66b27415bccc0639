"""The table: every sample, most suspicious first, with what is needed to judge how far to trust that."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Floats
from errata.core.folds import Verdict
from errata.core.methods import Composed, Method, parse, with_gathering
from errata.core.rates import NoiseRate
from errata.dynamics.default import ask_run, find_method
from errata.dynamics.ids import portable_ids
from errata.dynamics.scoring import noise_rates
from errata.dynamics.store import Dynamics

if TYPE_CHECKING:
    import pandas as pd

LOSS = "Mean-CE"
ASKED = ("MeanProb-LM", "Mean-LM", LOSS, "Last-LM", "CL-PBNR")
"""Methods that judge by different rules: two averages of the margin, the loss, the last epoch, confident learning."""

CONFIDENCE = 0.95
OF_ONE_EPOCH = 1.0
A_DEVIATION = 4.0
"""How fast the log-odds of a wrong label rise: with the score, or with its standard deviation.

Scores of one epoch are logarithms of odds between two classes, so 1 is what they are worth. Averaged over epochs, the
early ones of which are undecided, they come out timid, on few samples most of all: 4 a standard deviation fitted known
errors better than any fixed slope (benchmarks/calibration.py).
"""


def methods_asked(dynamics: Dynamics) -> list[Method]:
    """The default method of these dynamics first, then the others that are asked whether they agree."""
    gathering = dynamics.gathering or "in-sample"
    default = find_method(dynamics, None)
    others = [with_gathering(parse(name), gathering) for name in ASKED]
    return [default, *(method for method in others if method != default)]


def ranked(dynamics: Dynamics, estimate: NoiseRate) -> "pd.DataFrame":
    """All samples: id, label, suggested, score, rank, p_wrong, agree and mean_loss; most suspicious first.

    Equal scores are put in an order that depends on the ids alone.
    """
    import pandas as pd

    default, *others = methods_asked(dynamics)
    assert isinstance(default, Composed)
    told, *answers = ask_run(dynamics, [default, *others], None)
    believed = default.believed(told, dynamics.labels, dynamics.space)
    scores = default.judged(believed, dynamics.labels)
    verdicts = {default.name: Verdict(scores, None)} | {
        method.name: method.verdict(rows, dynamics.labels, None, dynamics.space)
        for method, rows in zip(others, answers, strict=True)
    }
    count = round(estimate.rate * dynamics.samples)
    tie_break = pd.util.hash_array(portable_ids(dynamics.ids))
    votes = [
        _first(count, verdict.scores, tie_break) if verdict.flags is None else verdict.flags
        for verdict in verdicts.values()
    ]
    names = pd.Index([dynamics.class_name(number) for number in range(dynamics.num_classes)], tupleize_cols=False)
    table = pd.DataFrame(
        {
            "id": dynamics.ids,
            "label": names.take(dynamics.labels),
            "suggested": names.take(believed.argmax(axis=1)),
            "score": scores,
            "p_wrong": probabilities(scores, estimate.rate, _steepness(scores, dynamics.epochs)),
            "agree": np.mean(votes, axis=0),
            "mean_loss": verdicts[with_gathering(parse(LOSS), default.gathering).name].scores,
        }
    )
    table = table.iloc[np.lexsort((tie_break, -scores))].reset_index(drop=True)
    table.insert(4, "rank", np.arange(1, len(table) + 1))
    return table


def estimated_rate(dynamics: Dynamics) -> NoiseRate:
    """The share of wrong labels, from estimates that err for different reasons."""
    row = noise_rates(dynamics, confidence=CONFIDENCE).iloc[0]
    return NoiseRate(float(row["rate"]), float(row["low"]), float(row["high"]), None, str(row["how"]))


def probabilities(scores: Floats, rate: float, steepness: float) -> Floats:
    """The probability (N,) that each label is wrong, from scores (N,): never higher for a lower score.

    A logistic curve at such a place that the probabilities sum to rate × N.
    """
    from scipy.optimize import brentq
    from scipy.special import expit

    total = rate * len(scores)
    if total <= 0 or total >= len(scores):
        return np.full(len(scores), min(max(rate, 0.0), 1.0))
    steep = steepness * scores

    def excess(place: float) -> float:
        return float(expit(steep - place).sum() - total)

    room = 40.0 + np.log(len(scores))  # this far beyond every score the curve is flat at 0 or 1
    place = brentq(excess, steep.min() - room, steep.max() + room, xtol=1e-12)
    return np.asarray(expit(steep - place))


def expected_curve(p_wrong: Floats) -> "pd.DataFrame":
    """How many errors to expect among the first 0, 1, ... N samples of the ranking."""
    import pandas as pd

    found = np.concatenate([[0.0], np.cumsum(np.asarray(p_wrong, dtype=np.float64))])
    return pd.DataFrame({"inspected": np.arange(len(found)), "expected_errors_found": found})


def confusions(ranking: "pd.DataFrame", count: int) -> "pd.DataFrame":
    """Given and suggested label of the first `count` of the ranking, and how often; the most frequent pair first."""
    first = ranking.head(count)
    differ = first[first["label"] != first["suggested"]]
    pairs = differ.groupby(["label", "suggested"], sort=False).size().reset_index(name="count")
    return pairs.sort_values("count", ascending=False, kind="stable", ignore_index=True)


def _steepness(scores: Floats, epochs: int) -> float:
    spread = float(scores.std())
    return OF_ONE_EPOCH if epochs == 1 or spread == 0 else A_DEVIATION / spread


def _first(count: int, scores: Floats, tie_break: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which samples are among the `count` with the highest scores."""
    chosen = np.zeros(len(scores), dtype=np.bool_)
    chosen[np.lexsort((tie_break, -scores))[:count]] = True
    return chosen
