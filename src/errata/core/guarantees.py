"""How many labels are wrong, from verdicts: an estimate, an interval for one look, and one for any number of looks.

Samples that were reviewed because they are suspicious are known, but say nothing about the others. The random part of
a review does. Its verdicts correct the model's p_wrong (a difference estimator, also called prediction-powered), and
bound the number of wrong labels. No interval assumes that p_wrong is right, or that there are many verdicts.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.core.betting_bounds import RandomDraws, highest_total, lowest_total
from errata.core.checks import Floats, as_numpy
from errata.core.exact_bounds import (
    Sampled,
    fewest_wrong,
    fewest_wrong_of_two,
    most_wrong,
    most_wrong_of_two,
)
from errata.errors import InputError

CONFIDENCE = 0.95
RIGHT, WRONG, UNSURE = 0, 1, -1
PROBABLY_WRONG = 0.5  # p_wrong of the samples that make up one of two groups
PRIOR_CHECKS = 20  # random checks at which the factor of p_wrong is half-way to the one that they suggest
FEWEST_IN_GROUP = 10  # random checks in each group; with fewer, all samples are one group


@dataclass(frozen=True, eq=False)
class Verdicts:
    """The n verdicts of a review of N samples, in the order in which they were given.

    p_wrong (N,): the model's probability that a label is wrong. rows (n,): the samples, each at most once.
    wrong (n,): RIGHT (0), WRONG (1) or UNSURE (-1). at_random (n,): True if the sample was drawn at random from all
    samples that had no verdict yet. Other samples are taken to be chosen by their rank, see `fair_part`.
    """

    p_wrong: Floats
    rows: NDArray[np.int64]
    wrong: NDArray[np.int64]
    at_random: NDArray[np.bool_]

    @property
    def samples(self) -> int:
        """N."""
        return len(self.p_wrong)

    @property
    def checks(self) -> int:
        """The number of random draws."""
        return int(self.at_random.sum())

    @property
    def found(self) -> int:
        """How many labels were judged wrong."""
        return int((self.wrong == WRONG).sum())

    @property
    def facts(self) -> tuple[int, int]:
        """The fewest and the most wrong labels that the verdicts leave possible."""
        return self.found, self.samples - int((self.wrong == RIGHT).sum())

    def decided(self, unsure: int) -> "Verdicts":
        """The same verdicts with UNSURE replaced by RIGHT or WRONG."""
        return Verdicts(self.p_wrong, self.rows, np.where(self.wrong == UNSURE, unsure, self.wrong), self.at_random)


@dataclass(frozen=True)
class WrongCount:
    """The number of wrong labels among N samples.

    expected: the estimate. low, high: an interval for one look, after a number of random checks that was fixed before.
    low_any_time, high_any_time: an interval for any number of looks. fewest, most: what the verdicts leave possible.
    checks: the number of random verdicts, on which the intervals rest. Without one, the intervals are fewest to most.
    """

    expected: float
    low: int
    high: int
    low_any_time: int
    high_any_time: int
    fewest: int
    most: int
    checks: int
    confidence: float


def check_verdicts(p_wrong: ArrayLike, rows: ArrayLike, wrong: ArrayLike, at_random: ArrayLike) -> Verdicts:
    """Verdicts of arrays, checked."""
    probabilities, places = np.asarray(as_numpy(p_wrong, "p_wrong"), dtype=np.float64), as_numpy(rows, "rows")
    outcomes, drawn = as_numpy(wrong, "wrong"), as_numpy(at_random, "at_random")
    if probabilities.ndim != 1 or not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise InputError("p_wrong must hold one probability per sample, from 0 to 1")
    if not places.ndim == outcomes.ndim == drawn.ndim == 1 or not len(places) == len(outcomes) == len(drawn):
        shapes = f"{places.shape}, {outcomes.shape} and {drawn.shape}"
        raise InputError(f"rows, wrong and at_random must have one value per verdict, not the shapes {shapes}")
    if len(places) and (places.dtype.kind not in "iu" or places.min() < 0 or places.max() >= len(probabilities)):
        raise InputError(f"rows must be numbers of samples, from 0 to {len(probabilities) - 1}")
    if len(np.unique(places)) != len(places):
        raise InputError("a sample has two verdicts; pass only the verdict that counts")
    if not np.isin(outcomes, (RIGHT, WRONG, UNSURE)).all():
        raise InputError("wrong must be 0 (right), 1 (wrong) or -1 (unsure) for each verdict")
    return Verdicts(probabilities, places.astype(np.int64), outcomes.astype(np.int64), drawn.astype(np.bool_))


def count_wrong(
    p_wrong: ArrayLike, rows: ArrayLike, wrong: ArrayLike, at_random: ArrayLike, *, confidence: float = CONFIDENCE
) -> WrongCount:
    """The number of wrong labels among all samples. The arguments are those of `Verdicts`.

    An unsure verdict counts as right in the lower and as wrong in the upper end of an interval.
    """
    verdicts, risk = check_verdicts(p_wrong, rows, wrong, at_random), (1 - check_share("confidence", confidence)) / 2
    fewest, most = verdicts.facts
    low, high, first, last = fewest, most, fewest, most
    if verdicts.checks:
        if_right, if_wrong = verdicts.decided(RIGHT), verdicts.decided(WRONG)
        low, high = lowest_at_one_look(if_right, risk), highest_at_one_look(if_wrong, risk)
        first, last = lowest_at_any_time(if_right, risk), highest_at_any_time(if_wrong, risk)
    expected = float(np.clip(expected_wrong(verdicts), low, high))
    return WrongCount(expected, low, high, first, last, fewest, most, verdicts.checks, confidence)


def expected_wrong(verdicts: Verdicts) -> float:
    """The difference estimate: errors found, plus p_wrong of all others, corrected by the random part.

    p_wrong is multiplied by a factor from 0 to 1: the one that makes the variance smallest (Angelopoulos, Duchi and
    Zrnic, 2023), and nearer to 1 with few checks, which say little about that. An unsure verdict counts as its p_wrong.
    """
    p_wrong, population = verdicts.p_wrong, fair_part(verdicts)
    outcomes = np.where(verdicts.wrong == UNSURE, p_wrong[verdicts.rows], verdicts.wrong)
    fair = population[verdicts.rows]
    others = ~population
    others[verdicts.rows] = False
    known, checked, drawn = float(outcomes[~fair].sum()), outcomes[fair], verdicts.rows[fair]
    known += float(p_wrong[others].sum())
    if not len(checked):
        return known + float(p_wrong[population].sum())
    trust = len(checked) / (len(checked) + PRIOR_CHECKS)
    factor = 1 - trust + trust * assistance_factor(checked, p_wrong[drawn], int(population.sum()))
    predicted = factor * p_wrong
    return known + float(predicted[population].sum() + population.sum() * (checked - predicted[drawn]).mean())


def fair_part(verdicts: Verdicts) -> NDArray[np.bool_]:
    """True (N,) for the samples that the random draws represent without bias. These have no other verdict.

    Samples that were judged before the first random draw are left out. So are all samples that rank at least as high as
    a sample that was chosen by its rank later: these were judged whether they were drawn or not. The rank is that of
    p_wrong, and then of the row.
    """
    fair = np.ones(verdicts.samples, dtype=np.bool_)
    chosen = verdicts.rows[~verdicts.at_random]
    if not verdicts.checks:
        fair[chosen] = False
        return fair
    before = int(np.argmax(verdicts.at_random))
    fair[verdicts.rows[:before]] = False
    if len(chosen) > before:
        ranks = np.empty(verdicts.samples, dtype=np.int64)
        ranks[np.argsort(-verdicts.p_wrong, kind="stable")] = np.arange(verdicts.samples)
        fair &= ranks > ranks[chosen[before:]].max()
    return fair


def assistance_factor(checked: Floats, predicted: Floats, size: int) -> float:
    """The factor of p_wrong with the smallest variance. checked, predicted (n,): verdicts and p_wrong of a sample.

    size: of the set that the sample is from.
    """
    if len(checked) < 2 or predicted.var() < 1e-12:
        return 0.0
    covariance = float(np.cov(checked, predicted)[0, 1])
    return float(np.clip(covariance / (predicted.var(ddof=1) * (1 + len(checked) / size)), 0, 1))


def highest_at_one_look(verdicts: Verdicts, risk: float) -> int:
    """The largest plausible number of wrong labels, if the number of random checks was fixed before. None is UNSURE."""
    known = known_part(verdicts)
    groups = _groups(verdicts)
    if len(groups) == 2:
        return known.wrong + known.unjudged + most_wrong_of_two(groups[0], groups[1], risk)
    return known.wrong + known.unjudged + int(most_wrong(*groups[0], risk))


def lowest_at_one_look(verdicts: Verdicts, risk: float) -> int:
    """The smallest plausible number of wrong labels, if the number of random checks was fixed before."""
    groups = _groups(verdicts)
    if len(groups) == 2:
        return known_part(verdicts).wrong + fewest_wrong_of_two(groups[0], groups[1], risk)
    return known_part(verdicts).wrong + int(fewest_wrong(*groups[0], risk))


class KnownPart(NamedTuple):
    """The samples outside the fair part: how many are wrong, and how many nobody has judged.

    fair: the samples of the fair part, and its random checks.
    """

    wrong: int
    unjudged: int
    fair: Sampled


def known_part(verdicts: Verdicts) -> KnownPart:
    """What is known apart from the random checks of the fair part. No verdict is UNSURE."""
    population = fair_part(verdicts)
    inside = population[verdicts.rows]
    checks = Sampled(int(population.sum()), int(inside.sum()), int(verdicts.wrong[inside].sum()))
    unjudged = verdicts.samples - checks.size - int((~inside).sum())
    return KnownPart(int(verdicts.wrong[~inside].sum()), unjudged, checks)


def highest_at_any_time(verdicts: Verdicts, risk: float) -> int:
    """The largest plausible number of wrong labels, however often someone looked."""
    return highest_total(random_draws(verdicts), *verdicts.facts, risk)


def lowest_at_any_time(verdicts: Verdicts, risk: float) -> int:
    """The smallest plausible number of wrong labels, however often someone looked."""
    return lowest_total(random_draws(verdicts), *verdicts.facts, risk)


def random_draws(verdicts: Verdicts) -> RandomDraws:
    """The random draws, and what was known before each. No verdict is UNSURE."""
    p_judged = verdicts.p_wrong[verdicts.rows]
    known_wrong = np.cumsum(verdicts.wrong) - verdicts.wrong
    unknown = verdicts.samples - np.arange(len(verdicts.rows))
    p_unknown = verdicts.p_wrong.sum() - np.cumsum(p_judged) + p_judged
    columns = (verdicts.wrong, p_judged, known_wrong, unknown, np.maximum(p_unknown, 0))
    drawn = [np.asarray(column, dtype=np.float64)[verdicts.at_random] for column in columns]
    return RandomDraws((float(verdicts.p_wrong.min()), float(verdicts.p_wrong.max())), *drawn)


def check_share(name: str, share: float) -> float:
    """A number between 0 and 1."""
    if not 0 < share < 1:
        raise InputError(f"{name} is {share}, not between 0 and 1")
    return share


def _groups(verdicts: Verdicts) -> list[Sampled]:
    """The fair part and its random checks: one set, or two by their p_wrong if both have random checks enough.

    This depends on p_wrong and the draw, not on verdicts of the random part.
    """
    population, suspicious = fair_part(verdicts), verdicts.p_wrong > PROBABLY_WRONG
    groups = []
    for group in (population & suspicious, population & ~suspicious):
        inside = group[verdicts.rows]
        groups.append(Sampled(int(group.sum()), int(inside.sum()), int(verdicts.wrong[inside].sum())))
    if min(group.checked for group in groups) >= FEWEST_IN_GROUP:
        return groups
    return [known_part(verdicts).fair]
