"""The answer in the user's terms: how many labels are wrong, how far to look, what is confused, what was assumed."""

import math
from typing import TYPE_CHECKING

from errata.finding.chance import learned_nothing
from errata.wording import counted

if TYPE_CHECKING:
    from errata.finding.found import Found

CONFUSIONS_NAMED = 5
FEWEST_TO_LOOK_AT = 20
WIDELY = 3  # times as many errors as estimated, or as few
WIDELY_OF_ALL = 0.5  # of the samples, between the two ends
FEWEST_APART = 10  # labels: ends as close as that are no wide disagreement, however few are estimated
FEW_SAMPLES = 1_000


def answer(found: "Found") -> list[str]:
    """Sentences to print, most important first."""
    said = [
        learned_nothing(found),
        how_many(found),
        upper_end(found),
        where_to_stop(found),
        what_is_confused(found),
        certain_conflicts(found),
        assumed(found),
    ]
    return [sentence for sentence in said if sentence]


def as_note(remark: str) -> str:
    """What was noticed of the data, as a sentence."""
    return f"Note: {remark}."


def how_many(found: "Found") -> str:
    """The estimated number of wrong labels, with its interval and how it was estimated."""
    samples, estimate = len(found.ranking), found.estimate
    low, high = math.floor(estimate.low * samples), math.ceil(estimate.high * samples)
    number = counted(found.expected, "label is", "labels are")
    wide = disagree_widely(low, high, found.expected, samples)
    between = "though the estimates disagree widely: between" if wide else "probably between"
    few = f" With {samples:,} samples such numbers are rough." if samples < FEW_SAMPLES else ""
    return (
        f"About {number} wrong of {samples:,} ({estimate.rate:.1%}), {between} {low:,} and {high:,}. "
        f"{estimate.how}{few}"
    )


def disagree_widely(low: int, high: int, expected: int, samples: int) -> bool:
    """Whether an interval of numbers of errors says little of how many there are."""
    if high - low < FEWEST_APART:
        return False
    far = high > WIDELY * max(1, expected) or WIDELY * low < expected
    return far or high - low > WIDELY_OF_ALL * samples


def upper_end(found: "Found") -> str:
    """What the estimate also counts where every sample was judged by a model that has not seen it."""
    if found.dynamics.gathering != "out-of-sample":
        return ""
    return (
        "Out-of-sample that number also counts right labels which a model that has not seen the sample gets wrong: "
        "take it for an upper end (in the benchmark it came out 7 points too high on average)."
    )


def where_to_stop(found: "Found") -> str:
    """How many errors to expect when some of the ranking is looked at, and how many are left then."""
    looked_at = suggested_budget(found.expected, len(found.ranking))
    hits, left = expectation(found, looked_at)
    if found.expected == 0:
        return f"Look at the first {looked_at:,} all the same: no estimate is sure of none."
    if round(hits) == 0:
        return f"Look at the first {looked_at:,} all the same: less than one error is expected among them."
    return (
        f"Look at the first {looked_at:,}: expect about {counted(round(hits), 'error')}; "
        f"after that about {left:.0%} of the errors remain."
    )


def expectation(found: "Found", looked_at: int) -> tuple[float, float]:
    """How many errors are expected among the first so many of the ranking, and which share of all is then left."""
    curve = found.curve["expected_errors_found"].to_numpy()
    hits, every = float(curve[min(looked_at, len(curve) - 1)]), float(curve[-1])
    return hits, 1 - hits / every if every > 0 else 0.0


def suggested_budget(expected: int, samples: int) -> int:
    """A round number of samples to look at, about as many as there are errors."""
    if expected < FEWEST_TO_LOOK_AT:
        return min(FEWEST_TO_LOOK_AT, samples)
    unit: int = 10 ** (len(str(expected)) - 1)
    return min(samples, max(FEWEST_TO_LOOK_AT, round(2 * expected / unit) * unit // 2))


def what_is_confused(found: "Found") -> str:
    """The pairs of classes that stand out among the estimated errors."""
    if not len(found.confusions):
        return ""
    rows = found.confusions.head(CONFUSIONS_NAMED).itertuples(index=False)
    pairs = [f"{row.label} → {row.suggested} ({row.count:,})" for row in rows]
    among = f"the {found.expected:,} most suspicious" if found.expected > 1 else "the most suspicious"
    return f"Most often among {among} (given → suggested): {', '.join(pairs)}."


def certain_conflicts(found: "Found") -> str:
    """Samples with the same inputs and different labels."""
    if not len(found.conflicts):
        return ""
    groups = int(found.conflicts["group"].nunique())
    return (
        f"{counted(len(found.conflicts), 'sample')} in {counted(groups, 'group')} have the same inputs as another and "
        "a different label: at least one label of each group is wrong, or the inputs do not tell the classes apart."
    )


def assumed(found: "Found") -> str:
    """What the numbers rest on."""
    return (
        "These numbers assume that the model has learned what most of a class have in common, and that wrong labels "
        "are the exception to it. Mistakes that follow a rule, the same for samples alike, look right to it."
    )
