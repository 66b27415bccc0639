"""Simulated reviews: whether the intervals of `errata.core.guarantees` keep their promise, and what a review costs.

ERRATA_DATA=... python benchmarks/reviews.py [--reviews 1000] [digits adult ...]

`errata.find` ranks tables with 0, 1, 5, 20 and 40 % wrong labels. Each review goes through the queue: the most
suspicious samples, and one in ten drawn at random. Reviewers are right 100, 95 or 90 % of the time, on each sample
independently. The table of a plain audit spends the same number of verdicts on random samples alone.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import errata
from errata.core.certifying import certify_recall
from errata.core.exact_bounds import fewest_wrong, most_wrong
from errata.core.guarantees import count_wrong
from errata.core.noise import symmetric
from errata.core.random_part import random_positions
from errata.datasets.locations import data_dir

RATES = (0.0, 0.01, 0.05, 0.2, 0.4)
SKILLS = (1.0, 0.95, 0.9)
VERDICTS = (100, 300, 1000)
RISK, NORMAL = 0.025, 1.96
BATCH = 50  # suspicious samples that are judged before the reviewer decides whether to go on
SEED = 0
Data = tuple[NDArray[np.float64] | pd.DataFrame, NDArray[np.int64]]


class Ranked(NamedTuple):
    """A ranking with known errors: wrong, p_wrong (N,), most suspicious first."""

    wrong: NDArray[np.int64]
    p_wrong: NDArray[np.float64]


def gaussians(separation: float, samples: int = 3000) -> Data:
    """Two classes of equal size, this many standard deviations apart in one of five columns."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 2, samples)
    inputs = rng.normal(size=(samples, 5))
    inputs[:, 0] += separation * (labels - 0.5)
    return inputs, labels


def more(name: str) -> Data:
    """A table of the folder `more`."""
    frame = pd.read_parquet(data_dir() / "more" / f"{name}.parquet")
    return frame.drop(columns="label"), pd.factorize(frame["label"], sort=True)[0].astype(np.int64)


def satellite() -> Data:
    """sat.trn."""
    rows = np.loadtxt(data_dir() / "satellite" / "sat.trn")
    return rows[:, :-1], np.unique(rows[:, -1], return_inverse=True)[1]


SETS: dict[str, Callable[[], Data]] = {
    "digits": partial(load_digits, return_X_y=True),
    "satellite": satellite,
    "adult": partial(more, "adult"),
    "german": partial(more, "german"),
    "winequality": partial(more, "winequality"),
    **{f"overlap {separation:g}": partial(gaussians, separation) for separation in (0.5, 1, 2)},
}


def ranked(name: str, rate: float) -> Ranked:
    """The ranking of a table with wrong labels."""
    inputs, clean = SETS[name]()
    noisy = symmetric(clean, rate, num_classes=int(clean.max()) + 1, seed=SEED) if rate else None
    found = errata.find(inputs, clean if noisy is None else noisy.labels, seed=SEED)
    truth = np.zeros(len(clean), dtype=np.bool_) if noisy is None else np.asarray(noisy.truth)
    rows = found.ranking["id"].to_numpy()
    return Ranked(truth[rows].astype(np.int64), found.ranking["p_wrong"].to_numpy(dtype=np.float64))


def queue(samples: int, verdicts: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The first rows of a review queue, and which are drawn at random: `review_queue` for a random seed, cut off."""
    at_random, judged, rank = random_positions(verdicts), dict[int, None](), 0
    drawn = iter(rng.permutation(samples).tolist())
    for chance in at_random.tolist():
        if chance:
            judged[next(row for row in drawn if row not in judged)] = None
            continue
        while rank in judged:
            rank += 1
        judged[rank] = None
    return np.array(list(judged)), at_random


def judge(wrong: NDArray[np.int64], skill: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Verdicts of a reviewer who is right with probability `skill`."""
    return np.where(rng.random(len(wrong)) < skill, wrong, 1 - wrong)


def coverage(data: Ranked, verdicts: int, skill: float, reviews: int) -> dict[str, float]:
    """Coverage and mean width of the intervals, and of those of a plain random audit."""
    samples, total, rng = len(data.wrong), int(data.wrong.sum()), np.random.default_rng([SEED, verdicts])
    intervals = []
    for _ in range(reviews):
        rows, at_random = queue(samples, verdicts, rng)
        count = count_wrong(data.p_wrong, rows, judge(data.wrong[rows], skill, rng), at_random)
        audit = judge(data.wrong[rng.permutation(samples)[:verdicts]], skill, rng)
        share = audit.mean()
        half = NORMAL * np.sqrt(share * (1 - share) / verdicts)
        exact = (int(bound(samples, verdicts, int(audit.sum()), RISK)) for bound in (fewest_wrong, most_wrong))
        normal = ((share - half) * samples, (share + half) * samples)
        intervals.append([count.low, count.high, count.low_any_time, count.high_any_time, *exact, *normal])
    low, high = np.array(intervals).T.reshape(4, 2, reviews).transpose(1, 0, 2)
    covered, width = ((low <= total) & (total <= high)).mean(axis=1), (high - low).mean(axis=1)
    names = ("one look", "any time", "audit", "normal audit")
    return {
        f"{name} {kind}": float(values[i])
        for kind, values in (("covers", covered), ("width", width))
        for i, name in enumerate(names)
    }


def certification(data: Ranked, any_time: bool, rng: np.random.Generator) -> tuple[int, int, bool, bool]:
    """One review with a perfect reviewer: verdicts on suspicious samples, random checks, certified, and rightly so.

    Batches of suspicious samples until one has at most one error; then as many random checks as the certificate asks
    for, again and again (any_time), or once (a number of checks fixed before).
    """
    samples, chosen = len(data.wrong), 0
    while chosen < samples and (chosen == 0 or data.wrong[chosen - BATCH : chosen].sum() > 1):
        chosen = min(samples, chosen + BATCH)
    order, checks = np.concatenate([np.arange(chosen), chosen + rng.permutation(samples - chosen)]), 0
    while True:
        rows = order[: chosen + checks]
        at_random = np.arange(len(rows)) >= chosen
        certificate = certify_recall(data.p_wrong, rows, data.wrong[rows], at_random, any_time=any_time)
        if certificate.certified or not certificate.more_checks or (checks and not any_time):
            right = data.wrong[rows].sum() >= certificate.recall * data.wrong.sum()
            return chosen, checks, certificate.certified, bool(right)
        checks += certificate.more_checks


def plain_rule(data: Ranked, rng: np.random.Generator) -> int:
    """Verdicts until 95 % are certified without a ranking: random samples, exact bound, at every 1 % of the samples."""
    samples = len(data.wrong)
    found = np.cumsum(data.wrong[rng.permutation(samples)])
    counts = np.unique(np.linspace(1, samples, 101).astype(np.int64))
    left = most_wrong(samples, counts, found[counts - 1], 2 * RISK) - found[counts - 1]
    return int(counts[np.argmax(found[counts - 1] >= 0.95 * (found[counts - 1] + left))])


def rows_of(name: str, reviews: int) -> Iterator[tuple[str, str]]:
    """The rows of the three tables: which table, and its cells."""
    for rate in RATES:
        data = ranked(name, rate)
        title = f"{name} | {len(data.wrong):,} | {data.wrong.sum():,} | {data.p_wrong.sum():,.0f}"
        skilled = [coverage(data, 300, skill, reviews if skill == 1 else max(1, reviews // 5)) for skill in SKILLS]
        cells = [f"{100 * one[f'{kind} covers']:.1f}" for one in skilled for kind in ("one look", "any time")]
        yield "coverage", f"| {title} | {' | '.join(cells)} | {100 * skilled[0]['normal audit covers']:.1f} |"
        few = [skilled[0] if count == 300 else coverage(data, count, 1.0, max(1, reviews // 10)) for count in VERDICTS]
        cells = [f"{one[f'{kind} width']:,.0f}" for one in few for kind in ("one look", "any time", "audit")]
        yield "width", f"| {title} | {' | '.join(cells)} |"
        if data.wrong.any():
            rng = np.random.default_rng(SEED)
            results = {
                kind: np.array([certification(data, kind, rng) for _ in range(max(1, reviews // 20))])
                for kind in (True, False)
            }
            plain = np.mean([plain_rule(data, rng) for _ in range(20)])
            cells = [
                f"{chosen.mean():,.0f} + {checks.mean():,.0f} | {100 * certified.mean():.0f} "
                f"| {100 * (certified * (1 - right)).mean():.1f}"
                for chosen, checks, certified, right in (result.T for result in results.values())
            ]
            yield "certify", f"| {title} | {' | '.join(cells)} | {plain:,.0f} |"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--reviews", type=int, default=1000)
    parser.add_argument("names", nargs="*", default=list(SETS))
    chosen = parser.parse_args()
    for name in chosen.names:
        for table, row in rows_of(name, chosen.reviews):
            print(f"{table}: {row}", flush=True)
