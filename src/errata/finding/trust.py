"""How far to trust a ranking: what the model learned and memorised, and how far methods and estimates agree."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.core.early import loss_of_guessing
from errata.core.rates import NoiseRate
from errata.dynamics.ids import match_ids
from errata.dynamics.ranking import RunAnalysis
from errata.dynamics.store import Dynamics
from errata.wording import counted, percent

if TYPE_CHECKING:
    import pandas as pd

# A held-out log loss of at least 97 % of the entropy of the labels counts as guessing. On 1,000 or more random labels
# of 2 or 20 classes, models reached 0.99 to 1.00 of it; with 40 % wrong labels, 0.73 (digits) to 0.94 (wine). With two
# classes and 40 % wrong labels no model gets below about 0.97: breast cancer, at 0.98 to 1.00, counts as guessing. Its
# estimates were off by 6 and 22 points, although four fifths of the pairs of a wrong and a right label were in order.
GUESSING = 0.97
DEVIATIONS = 2  # standard deviations of an agreement by chance

# An interval is wide if it contains 3 times or a third of the estimate, or spans half of the samples, and at least
# 10 labels.
WIDE_FACTOR, WIDE_SHARE, WIDE_LABELS = 3, 0.5, 10
FEW_SAMPLES = 1_000


def trust_lines(
    analysis: RunAnalysis,
    ranking: "pd.DataFrame",
    rate: NoiseRate | None,
    first: int,
    held_out_loss: float | None = None,
    unit: str = "epoch",
) -> list[str]:
    """Sentences for the section "How far to trust this" of the report and of `errata rank`.

    rate: the estimated share of wrong labels; None if it is not stated. first: how many of the first samples to
    describe; none of a model that guesses. unit: `epoch` or `round`.
    """
    dynamics, samples = analysis.dynamics, len(ranking)
    guesses = guessing_reason(dynamics.labels, ranking, held_out_loss)
    first = 0 if guesses else first
    lines = [guesses, _epochs_line(analysis, unit)]
    memorised = _share_memorised(dynamics, ranking["id"].head(first).to_numpy())
    if memorised is not None:
        lines.append(
            f"At the last {unit}, the model predicts the given label of {percent(memorised)} of the first {first:,} "
            "samples. A high share means memorised wrong labels."
        )
    if first and "agree" in ranking:
        agreement = percent(ranking["agree"].head(first).mean())
        lines.append(f"On average, {agreement} of the methods compared flag each of the first {first:,} samples.")
    if rate is not None and disagree_widely(rate, samples):
        lines.append("The estimates disagree widely: trust the order of the ranking, not the number of errors.")
    if rate is not None and samples < FEW_SAMPLES:
        lines.append(f"With only {samples:,} samples, the number of errors is a rough estimate.")
    if rate is not None and dynamics.gathering == "out-of-sample":
        lines.append(
            "Out-of-sample, the number of errors is an upper bound: it also counts right labels that a model trained "
            "without the sample predicts wrongly (7 percentage points too high on average in the benchmark)."
        )
    return [line for line in lines if line]


def _epochs_line(analysis: RunAnalysis, unit: str) -> str:
    used, every = analysis.epochs_used, counted(analysis.dynamics.epochs, unit)
    if used < analysis.dynamics.epochs:
        return f"The ranking uses the first {used:,} of {every}. After these, the model memorises labels."
    return f"The ranking uses {'all ' if used > 1 else ''}{every}."


def disagree_widely(rate: NoiseRate, samples: int) -> bool:
    """True if the interval of the estimated number of errors is too wide to be useful."""
    expected = round(rate.rate * samples)
    low, high = math.floor(rate.low * samples), math.ceil(rate.high * samples)
    if high - low < WIDE_LABELS:
        return False
    far = high > WIDE_FACTOR * max(1, expected) or WIDE_FACTOR * low < expected
    return far or high - low > WIDE_SHARE * samples


def guessing_reason(labels: NDArray[np.int64], ranking: "pd.DataFrame", held_out_loss: float | None) -> str:
    """Why the model seems to have learned nothing; "" if it has learned the classes.

    Uses the log loss on held-out samples if it is known. Otherwise, the recorded predictions must look like guesses in
    two ways, their agreement with the labels and their loss. A model that memorised its labels looks as if it learned.
    """
    guessing = loss_of_guessing(np.bincount(labels))
    if held_out_loss is not None:
        if held_out_loss < GUESSING * guessing:
            return ""
        reason = f"its log loss on held-out samples is {held_out_loss:.3f}; guessing gives {guessing:.3f}"
    elif {"suggested", "mean_loss"} <= set(ranking):
        agreement, by_chance = label_agreement(ranking)
        margin = DEVIATIONS * np.sqrt(by_chance * (1 - by_chance) / len(ranking))
        if agreement > by_chance + margin or not ranking["mean_loss"].mean() >= GUESSING * guessing:
            return ""
        reason = f"it predicts {percent(agreement)} of the labels; guessing gives {percent(by_chance)}"
    else:
        return ""
    return (
        f"The model predicts the classes no better than guessing by their frequency: {reason}. Labels unrelated to the "
        "inputs look like this, and two classes with nearly half of the labels wrong."
    )


def label_agreement(ranking: "pd.DataFrame") -> tuple[float, float]:
    """The share of samples whose suggested label is the given one, and its expectation if both were independent."""
    label, suggested = ranking["label"], ranking["suggested"]
    shares = label.value_counts(normalize=True), suggested.value_counts(normalize=True)
    return float((label == suggested).mean()), float(shares[0].mul(shares[1], fill_value=0).sum())


def _share_memorised(dynamics: Dynamics, ids: NDArray[Any]) -> float | None:
    """The share of the samples `ids` whose given label the model predicts at the last epoch.

    None without samples, without single epochs, and for held-out predictions, which cannot be memorised.
    """
    if not len(ids) or dynamics.logits is None or dynamics.gathering == "out-of-sample":
        return None
    rows = match_ids(dynamics.ids, ids)
    logits = np.asarray(dynamics.logits[-1][rows])
    recorded = ~np.isnan(logits).any(axis=1)
    if not recorded.any():
        return None
    return float((logits[recorded].argmax(axis=1) == dynamics.labels[rows][recorded]).mean())
