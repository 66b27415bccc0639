"""Whether the model has learned anything at all: what knows no classes cannot tell which labels are wrong."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from errata.finding.found import Found

# Of the log loss of guessing by how frequent the classes are. On 1,000 coin flips and more, and on 20 random classes,
# models came to 0.99 to 1.00 of it, with 40 % of the labels wrong to 0.73 (digits) to 0.94 (wine). With two classes no
# model can come below about 0.97 then: breast cancer, at 0.98 to 1.00, is taken for guessing (its numbers were off by 6
# and 22 points of 40, though four fifths of the pairs of a wrong and a right label were in order).
NO_BETTER = 0.97
HELD_OUT_LOSS = "held_out_loss"  # in the summary, where the choice of the model has measured it
DEVIATIONS = 2  # of an agreement by chance


def learned_nothing(found: "Found") -> str:
    """A sentence if the model tells the classes apart no better than guessing, else nothing.

    By the log loss of samples held out where that is known. Else by the recorded predictions, where both their
    agreement with the labels and their loss must be those of guessing: labels that a model has memorised look learned.
    """
    guessing = frequencies_loss(found)
    held_out = found.summary.get(HELD_OUT_LOSS)
    if held_out is not None:
        if held_out < NO_BETTER * guessing:
            return ""
        how = f"its log loss on samples held out is {held_out:.3f}, that of guessing {guessing:.3f}"
    else:
        agreement, by_chance = agreements(found)
        beyond = DEVIATIONS * np.sqrt(by_chance * (1 - by_chance) / len(found.ranking))
        if agreement > by_chance + beyond or not found.ranking["mean_loss"].mean() >= NO_BETTER * guessing:
            return ""
        how = f"it gives {agreement:.0%} of the samples their label, and guessing {by_chance:.0%}"
    return (
        "The model tells the classes apart no better than guessing by how frequent they are, so these numbers mean "
        f"nothing here: {how}. Labels that have nothing to do with the inputs look like this, and two classes of which "
        "nearly half are wrong."
    )


def frequencies_loss(found: "Found") -> float:
    """The log loss of guessing by how frequent the given labels are: their entropy."""
    counts = np.bincount(found.dynamics.labels)
    shares = counts[counts > 0] / counts.sum()
    return -float((shares * np.log(shares)).sum())


def agreements(found: "Found") -> tuple[float, float]:
    """The share of samples whose label is the suggested one, and what that would be if neither knew of the other."""
    label, suggested = found.ranking["label"], found.ranking["suggested"]
    shares = label.value_counts(normalize=True), suggested.value_counts(normalize=True)
    return float((label == suggested).mean()), float(shares[0].mul(shares[1], fill_value=0).sum())
