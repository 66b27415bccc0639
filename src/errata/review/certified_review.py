"""What the verdicts of a review say about all labels, in numbers and in sentences."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from errata.core.certifying import RECALL, Certificate, certify_recall
from errata.core.guarantees import CONFIDENCE, Verdicts, WrongCount, count_wrong
from errata.core.recalibration import expect_among_next, recalibrate
from errata.wording import counted, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from errata.core.checks import Floats

NEXT = 100  # samples for which errors are expected


@dataclass(frozen=True, eq=False)
class CertifiedReview:
    """The result of `errata.certify`.

    certificate: whether enough of the wrong labels are found. count: how many labels are wrong. p_wrong (N,): in the
    order of the ranking, corrected by the verdicts. expected_next: errors among the next 100 samples of the ranking.
    pending: samples that were drawn at random and have no verdict yet. from_server: the verdicts are those of
    `errata review`, which draws the random samples itself. left_out: a sentence about verdicts on changed data, or
    nothing.
    """

    certificate: Certificate
    count: WrongCount
    p_wrong: "Floats"
    expected_next: float
    pending: int = 0
    from_server: bool = False
    left_out: str = ""

    def __str__(self) -> str:
        return "\n".join(sentences(self))


def certified_review(
    review: Verdicts,
    recall: float = RECALL,
    confidence: float = CONFIDENCE,
    *,
    fixed: bool = False,
    pending: int = 0,
    from_server: bool = False,
    left_out: str = "",
    order: "Sequence[int] | None" = None,
) -> CertifiedReview:
    """Compute the count and the certificate. order: all rows in the order of the review, if not that of the ranking."""
    arrays = (review.p_wrong, review.rows, review.wrong, review.at_random)
    corrected = recalibrate(*arrays)
    ranked = np.arange(review.samples) if order is None else np.asarray(order)
    return CertifiedReview(
        certificate=certify_recall(*arrays, recall=recall, confidence=confidence, any_time=not fixed),
        count=count_wrong(*arrays, confidence=confidence),
        p_wrong=corrected,
        expected_next=expect_among_next(corrected, ranked, review.rows, NEXT),
        pending=pending,
        from_server=from_server,
        left_out=left_out,
    )


def sentences(review: CertifiedReview) -> list[str]:
    """What `errata certify` prints; a server's page shows all but the first."""
    certificate, count, samples = review.certificate, review.count, review.certificate.samples
    right = certificate.reviewed - certificate.found - certificate.unsure
    sure = f"with {percent(count.confidence)} confidence"
    low, high = (count.low_any_time, count.high_any_time) if certificate.any_time else (count.low, count.high)
    lines = [
        f"{certificate.reviewed:,} of {samples:,} samples have a verdict, {certificate.checks:,} of them drawn at "
        f"random: {certificate.found:,} wrong, {right:,} right, {certificate.unsure:,} unsure."
    ]
    if review.pending:
        have = "has" if review.pending == 1 else "have"
        lines.append(f"{counted(review.pending, 'sample')} of the random part {have} no verdict yet.")
    if review.left_out:
        lines.append(review.left_out)
    if count.checks:
        # The estimate of `count` takes samples to be chosen by their first rank, but the server ranks again.
        estimate = float(np.clip(review.p_wrong.sum(), low, high)) if review.from_server else count.expected
        between = f"Between {low:,} and {high:,} labels are wrong, {sure} (estimate: {round(estimate):,})."
        lines.append(between if low < high else f"Exactly {low:,} labels are wrong, {sure}.")
        left = min(NEXT, samples - certificate.reviewed)
        if left:
            errors, next_ = counted(round(review.expected_next), "error"), counted(left, "sample")
            lines.append(f"Expect about {errors} among the next {next_}.")
    else:
        lines.append("How many labels are wrong is not known before some random samples are judged.")
    return [*lines, *_verdict(certificate, review.from_server)]


def _verdict(certificate: Certificate, from_server: bool) -> list[str]:
    goal, sure = percent(certificate.recall), f"with {percent(certificate.confidence)} confidence"
    at_least = f"at least {percent(certificate.recall_at_least)} of the wrong labels are found, {sure}"
    if certificate.certified:
        return [f"Certified: {at_least}. At most {certificate.left:,} are left."]
    lines = [f"Not certified for {goal}: {at_least}. At most {certificate.left:,} are left."]
    if not certificate.found:
        lines.append("No label was judged wrong yet. Review the most suspicious samples first.")
    elif certificate.more_checks is None:
        unsure = (
            "the unsure sample" if certificate.unsure == 1 else f"some of the {certificate.unsure:,} unsure samples"
        )
        lines.append(f"Decide {unsure} (skipped, or reviewers disagree): each counts as an error not found.")
    else:
        checks = counted(certificate.more_checks, "more random check")
        how = (
            "errata review --random-every 1 hands out only these"
            if from_server
            else f"--draw {certificate.more_checks}"
        )
        lines.append(f"{checks} would certify it if every label is right ({how}).")
    return lines
