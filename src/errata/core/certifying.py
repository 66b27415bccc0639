"""When to stop a review, and which part of a ranking to correct without one: exact statements from random checks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.core.betting_bounds import RandomDraws, log_wealth
from errata.core.checks import Floats, as_numpy
from errata.core.exact_bounds import at_most, checks_needed, most_wrong
from errata.core.guarantees import (
    CONFIDENCE,
    UNSURE,
    WRONG,
    Verdicts,
    check_share,
    check_verdicts,
    highest_at_any_time,
    known_part,
    random_draws,
)
from errata.errors import InputError

RECALL = 0.95
FIRST_BATCH = 256  # future checks that are tried at first
STARTS = (0, 2, 5)  # wrong changes with which every prefix of a sequence of tests could pass


@dataclass(frozen=True)
class Certificate:
    """Whether the review has found enough of the wrong labels.

    certified: at least `recall` of all wrong labels are found, with `confidence`. found: labels judged wrong.
    left: the most labels not yet found that may be wrong, with that confidence.
    recall_at_least: found / (found + left).
    reviewed, checks, unsure: verdicts in total, on random samples, and without an answer.
    more_checks: how many more random checks suffice if all of them find right labels; 0 if certified; None if not even
    a check of every sample would, because too many verdicts are unsure.
    any_time: the statement holds however often it is computed. Otherwise, it holds once, after a number of random
    checks that was fixed before.
    """

    certified: bool
    recall: float
    confidence: float
    found: int
    left: int
    recall_at_least: float
    samples: int
    reviewed: int
    checks: int
    unsure: int
    more_checks: int | None
    any_time: bool


def certify_recall(
    p_wrong: ArrayLike,
    rows: ArrayLike,
    wrong: ArrayLike,
    at_random: ArrayLike,
    *,
    recall: float = RECALL,
    confidence: float = CONFIDENCE,
    any_time: bool = True,
) -> Certificate:
    """Check whether `recall` of the wrong labels are found. p_wrong, rows, wrong, at_random: as in `Verdicts`.

    With any_time=False, the bound is exact: hypergeometric, from the random checks among the samples that were not
    reviewed for another reason. An unsure verdict counts as a wrong label that is not found.
    """
    verdicts, risk = check_verdicts(p_wrong, rows, wrong, at_random), 1 - check_share("confidence", confidence)
    found, unsure = verdicts.found, int((verdicts.wrong == UNSURE).sum())
    allowed = int(found * (1 - check_share("recall", recall)) / recall + 1e-9)
    worst = verdicts.decided(WRONG)
    known = known_part(worst)
    exact = known.wrong + known.unjudged + int(most_wrong(*known.fair, risk))
    most = highest_at_any_time(worst, risk) if any_time else exact
    certified = most - found <= allowed
    more: int | None = 0
    if not certified:
        needed = _needed_any_time if any_time else _needed_at_one_look
        more = needed(worst, found + allowed, risk) if unsure <= allowed else None
    return Certificate(
        certified,
        recall,
        confidence,
        found=found,
        left=most - found,
        recall_at_least=found / most if most else 1.0,
        samples=verdicts.samples,
        reviewed=len(verdicts.rows),
        checks=verdicts.checks,
        unsure=unsure,
        more_checks=more,
        any_time=any_time,
    )


def _needed_at_one_look(verdicts: Verdicts, most: int, risk: float) -> int:
    """How many more random checks, all right, show that at most `most` labels are wrong."""
    known = known_part(verdicts)
    return checks_needed(*known.fair, most - known.wrong - known.unjudged - known.fair.wrong, risk)


def _needed_any_time(verdicts: Verdicts, most: int, risk: float) -> int:
    """The same for a bound that holds at any time. The checks to come are taken to have the mean p_wrong."""
    draws, judged = random_draws(verdicts), len(verdicts.rows)
    left = verdicts.samples - judged
    unjudged = np.ones(verdicts.samples, dtype=np.bool_)
    unjudged[verdicts.rows] = False
    mean = float(verdicts.p_wrong[unjudged].mean()) if left else 0.0
    size = min(left, FIRST_BATCH)
    while size:
        ahead = np.arange(size)
        future = (
            np.zeros(size),
            np.full(size, mean),
            np.full(size, verdicts.found),
            left - ahead,
            mean * (left - ahead),
        )
        both = [np.concatenate(pair).astype(np.float64) for pair in zip(draws[1:], future, strict=True)]
        wealth = log_wealth(RandomDraws(draws.p_range, *both), most + 1, upper=True)[len(draws.wrong) :]
        enough = np.flatnonzero(wealth >= -np.log(risk))
        if len(enough):
            return int(enough[0]) + 1
        if size == left:
            break
        size = min(left, 4 * size)
    return left


@dataclass(frozen=True)
class SafePrefix:
    """The first `length` samples of a ranking, whose suggested labels may be accepted unseen.

    changed: how many samples without a verdict get another label by that. checks, wrong_changes: random verdicts among
    the first `length` on a suggested label, and how many of these found the suggestion wrong.
    limit: at most this share of the `changed` suggestions is wrong, with `confidence`.
    """

    length: int
    changed: int
    checks: int
    wrong_changes: int
    limit: float
    confidence: float


def safe_prefix(
    changes: ArrayLike,
    known: ArrayLike,
    checked: ArrayLike,
    wrong_change: ArrayLike,
    *,
    limit: float = 0.05,
    confidence: float = CONFIDENCE,
) -> SafePrefix:
    """The longest prefix of a ranking in which at most `limit` of the changes without a verdict are wrong.

    All arrays are in the order of the ranking. changes (N,): True if the suggested label differs from the given one.
    known (N,): True for samples with a verdict that were not drawn at random. checked (N,): True for random draws with
    a verdict. wrong_change (N,): True if the suggestion was judged wrong, or the reviewer was unsure; read for
    `checked` samples only. A random draw must be uniform among all samples that had no verdict, or among the first K
    of these.

    Prefixes that end at a check are tested in turn with the exact hypergeometric probability, until one fails. There
    are three such sequences, each at a third of the risk: the prefixes that could pass with 0, 2 and 5 wrong changes.
    """
    kept, seen, drawn, bad = (
        as_numpy(values, "the ranking").astype(np.bool_) for values in (changes, known, checked, wrong_change)
    )
    if not kept.shape == seen.shape == drawn.shape == bad.shape or kept.ndim != 1:
        raise InputError("changes, known, checked and wrong_change must have one value per sample")
    risk, population = 1 - check_share("confidence", confidence), kept & ~seen
    check_share("limit", limit)
    ends = np.flatnonzero(population & drawn)
    sizes, checks, wrong = np.cumsum(population)[ends], np.arange(1, len(ends) + 1), np.cumsum(bad[ends])
    # The smallest number of wrong changes that would break the limit among the changes without a verdict.
    breaking = np.floor(limit * (sizes - checks) + 1e-9).astype(np.int64) + 1
    best = -1
    for start in STARTS:
        could_pass = _passes(sizes, checks, np.minimum(start, checks), breaking, risk / len(STARTS))
        tested = np.flatnonzero(could_pass & (limit * (sizes - checks) >= 1))  # known before any verdict
        passed = _passes(sizes[tested], checks[tested], wrong[tested], breaking[tested], risk / len(STARTS))
        count = len(passed) if passed.all() else int(np.argmin(passed))
        best = max(best, int(tested[count - 1]) if count else -1)
    if best < 0:
        return SafePrefix(0, 0, 0, 0, limit, confidence)
    return SafePrefix(
        length=int(ends[best]) + 1,
        changed=int(sizes[best] - checks[best]),
        checks=int(checks[best]),
        wrong_changes=int(wrong[best]),
        limit=limit,
        confidence=confidence,
    )


def checks_for_prefix(size: int, limit: float = 0.05, confidence: float = CONFIDENCE) -> int:
    """How many random checks among `size` changes suffice to accept the others, if every suggestion is right."""
    checks = np.arange(1, size + 1)
    breaking = np.floor(limit * (size - checks) + 1e-9).astype(np.int64) + 1
    enough = _passes(size, checks, 0, breaking, (1 - confidence) / len(STARTS)) & (limit * (size - checks) >= 1)
    return int(checks[np.argmax(enough)]) if enough.any() else size


def _passes(
    sizes: ArrayLike, checks: ArrayLike, wrong: ArrayLike, breaking: ArrayLike, risk: float
) -> NDArray[np.bool_]:
    """True where this few wrong changes among the checks would be improbable, if `breaking` changes were wrong."""
    probabilities: Floats = at_most(sizes, checks, wrong, np.minimum(breaking, sizes))
    return np.asarray(probabilities <= risk)
