"""What the verdicts of a running review say about all labels, in sentences for the panel of the page."""

from collections.abc import Sequence

import numpy as np

from errata.core.certifying import Certificate, certify_recall
from errata.core.guarantees import Verdicts, count_wrong
from errata.core.recalibration import expect_among_next, recalibrate
from errata.wording import counted, percent

FEWEST_CHECKS = 10  # random verdicts; with fewer, nothing is stated
NEXT = 100  # samples for which errors are expected


def statements(verdicts: Verdicts, order: Sequence[int]) -> list[str]:
    """Sentences that hold however often someone looks; none if too few random samples are judged.

    order: all places in the order in which they are handed out.
    """
    if verdicts.checks < FEWEST_CHECKS:
        return []
    arrays = (verdicts.p_wrong, verdicts.rows, verdicts.wrong, verdicts.at_random)
    count = count_wrong(*arrays)
    low, high, sure = count.low_any_time, count.high_any_time, f"with {percent(count.confidence)} confidence"
    between = f"Between {low:,} and {high:,}" if low < high else f"Exactly {low:,}"
    lines = [f"{between} of {verdicts.samples:,} labels are wrong, {sure}."]
    left = min(NEXT, verdicts.samples - len(verdicts.rows))
    if left:
        expected = expect_among_next(recalibrate(*arrays), np.asarray(order), verdicts.rows, left)
        lines.append(f"Expect {counted(round(expected), 'error')} among the next {counted(left, 'sample')}.")
    return [*lines, _certificate(certify_recall(*arrays, any_time=True))]


def _certificate(certificate: Certificate) -> str:
    goal, sure = percent(certificate.recall), f"with {percent(certificate.confidence)} confidence"
    if certificate.certified:
        return f"At least {goal} of the wrong labels are found, {sure}."
    open_ = f"It is not certain yet that {goal} of the wrong labels are found"
    if not certificate.found:
        return f"{open_}: no label was judged wrong."
    if certificate.more_checks is None:
        unsure = counted(certificate.unsure, "unsure sample")
        return f"{open_}: decide some of the {unsure}: each counts as an error that is not found."
    return f"{open_}: {counted(certificate.more_checks, 'more random check')} would show it if every label is right."
