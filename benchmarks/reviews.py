"""Simulated reviews: whether the intervals of `errata.core.guarantees` keep their promise, and what a review costs.

ERRATA_DATA=... python benchmarks/reviews.py [--reviews 1000] [--part 0/2] [--rankings FOLDER] [--out out/reviews.csv]

Each review goes through the queue: the most suspicious samples, and one in ten drawn at random. Reviewers are right
100, 95 or 90 % of the time, on each sample independently. A plain audit spends the same number of verdicts on random
samples alone. All reviews of a case are computed at once; the first ones are compared with `count_wrong`.
"""

import argparse
import csv
import io
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from errata.core import exact_bounds
from errata.core.betting_bounds import RandomDraws, log_wealth
from errata.core.exact_bounds import Sampled, fewest_wrong, fewest_wrong_of_two, most_wrong, most_wrong_of_two
from errata.core.exact_bounds import at_most as scipy_at_most
from errata.core.guarantees import FEWEST_IN_GROUP, PROBABLY_WRONG, Verdicts, count_wrong, random_draws
from errata.core.random_part import random_positions
from errata.review.reranking import JudgedLabels, reranked
from errata.review.server.review_session import RERANK_AFTER
from review_rankings import SEED, Ranked, cases, ranking

SKILLS = (1.0, 0.95, 0.9)
VERDICTS = (100, 300, 1000)
RISK, NORMAL = 0.025, 1.96
BATCH = 50  # suspicious samples that are judged before the reviewer decides whether to go on
COMPARED = 5  # reviews whose intervals are also computed by `count_wrong`
RERANKED_VERDICTS = 300
RERANKED = 20  # one review in so many is repeated with re-ranking
CERTIFIED, CERTIFIED_IMPERFECT = 5, 20  # and until it is certified
MOST_TERMS = 120  # of the sums in `at_most`
LOG_FACTORIALS = gammaln(np.arange(1, 200_002))
Ints = NDArray[np.int64]
Bounds = tuple[Ints, Ints]


def at_most(size: ArrayLike, checked: ArrayLike, wrong: ArrayLike, number: ArrayLike) -> NDArray[np.float64]:
    """As `exact_bounds.at_most`, from a table of log factorials: ten times as fast if few in the sample are wrong."""
    sizes, checks, most, numbers = np.broadcast_arrays(
        *(np.asarray(v, np.int64) for v in (size, checked, wrong, number))
    )
    if most.size == 0 or most.max() > MOST_TERMS:
        return scipy_at_most(size, checked, wrong, number)
    terms = np.arange(most.max() + 1)
    sizes, checks, most, numbers = (values[..., None] for values in (sizes, checks, most, numbers))
    right, left = sizes - numbers, checks - terms
    possible = (terms <= most) & (terms <= numbers) & (left >= 0) & (left <= right)
    chosen, others = np.where(possible, terms, 0), np.where(possible, left, 0)
    logs = _log_binomial(numbers, chosen) + _log_binomial(right, others) - _log_binomial(sizes, checks)
    return np.asarray((np.exp(logs) * possible).sum(axis=-1))


def _log_binomial(of: Ints, chosen: Ints) -> NDArray[np.float64]:
    return np.asarray(LOG_FACTORIALS[of] - LOG_FACTORIALS[chosen] - LOG_FACTORIALS[of - chosen])


def queue(samples: int, verdicts: int, rng: np.random.Generator) -> Ints:
    """The first rows of a review queue: `review_queue` for a random seed, cut off."""
    judged, rank = dict[int, None](), 0
    drawn = iter(rng.permutation(samples).tolist())
    for chance in random_positions(verdicts, SEED).tolist():
        if chance:
            judged[next(row for row in drawn if row not in judged)] = None
            continue
        while rank in judged:
            rank += 1
        judged[rank] = None
    return np.array(list(judged))


def judge(wrong: Ints, skill: float, rng: np.random.Generator) -> Ints:
    """Verdicts of a reviewer who is right with probability `skill`."""
    return np.where(rng.random(wrong.shape) < skill, wrong, 1 - wrong)


def any_time(data: Ranked, rows: Ints, verdicts: Ints, at_random: NDArray[np.bool_]) -> Bounds:
    """The intervals (R,) for any number of looks. rows, verdicts (R, n). at_random (n,)."""
    p_judged = data.p_wrong[rows]
    columns = (
        verdicts,
        p_judged,
        np.cumsum(verdicts, axis=1) - verdicts,
        np.broadcast_to(len(data.p_wrong) - np.arange(rows.shape[1]), rows.shape),
        np.maximum(data.p_wrong.sum() - np.cumsum(p_judged, axis=1) + p_judged, 0),
    )
    drawn = [np.asarray(column, dtype=np.float64)[:, None, at_random] for column in columns]
    draws = RandomDraws((float(data.p_wrong.min()), float(data.p_wrong.max())), *drawn)
    fewest, most = verdicts.sum(axis=1), len(data.p_wrong) - (1 - verdicts).sum(axis=1)
    ends = []
    for upper in (False, True):
        low, high = fewest, most
        while (low < high).any():
            middle = (low + high + upper) // 2
            excluded = log_wealth(draws, middle[:, None, None], upper=upper).max(axis=1) >= -np.log(RISK)
            if upper:
                low, high = np.where(excluded, low, middle), np.maximum(low, np.where(excluded, middle - 1, high))
            else:
                low, high = np.minimum(high, np.where(excluded, middle + 1, low)), np.where(excluded, high, middle)
        ends.append(low)
    return ends[0], ends[1]


def one_look(data: Ranked, rows: Ints, verdicts: Ints, at_random: NDArray[np.bool_]) -> Bounds:
    """The intervals (R,) for one look."""
    samples, chosen = len(data.p_wrong), rows[:, ~at_random]
    ranks = np.empty(samples, dtype=np.int64)
    ranks[np.argsort(-data.p_wrong, kind="stable")] = np.arange(samples)
    first = int(np.argmax(at_random))
    lows, highs = [], []
    suspicious_below = np.append(np.cumsum((data.p_wrong > PROBABLY_WRONG)[np.argsort(ranks)][::-1])[::-1], 0)
    for row, wrong, later in zip(rows, verdicts, chosen[:, first:], strict=True):
        limit = ranks[later].max() if later.size else -1
        before = row[:first][ranks[row[:first]] > limit]
        fair = ranks[row] > limit
        fair[:first] = False
        suspicious = data.p_wrong[row] > PROBABLY_WRONG
        sizes = [int(suspicious_below[limit + 1] - (data.p_wrong[before] > PROBABLY_WRONG).sum())]
        sizes.append(samples - int(limit) - 1 - len(before) - sizes[0])
        groups = [
            Sampled(size, int(inside.sum()), int(wrong[inside].sum()))
            for size, inside in zip(sizes, (fair & suspicious, fair & ~suspicious), strict=True)
        ]
        known = int(wrong[~fair].sum())
        unjudged = samples - sum(sizes) - int((~fair).sum())
        if min(group.checked for group in groups) >= FEWEST_IN_GROUP:
            lows.append(known + fewest_wrong_of_two(*groups, RISK))
            highs.append(known + unjudged + most_wrong_of_two(*groups, RISK))
        else:
            both = [sum(values) for values in zip(*groups, strict=True)]
            lows.append((known, *both))
            highs.append((known + unjudged, *both))
    return _with_exact(lows, fewest_wrong), _with_exact(highs, most_wrong)


def _with_exact(ends: list[int | tuple[int, ...]], bound: object) -> Ints:
    """Numbers as they are; for tuples the first entry plus the bound of the others, all in one call."""
    single = [place for place, end in enumerate(ends) if isinstance(end, tuple)]
    values = np.array([0 if isinstance(end, tuple) else end for end in ends], dtype=np.int64)
    if single:
        known, size, checked, wrong = np.array([ends[place] for place in single]).T
        distinct, which = np.unique(np.stack([size, checked, wrong]), axis=1, return_inverse=True)
        values[single] = known + bound(*distinct, RISK)[which.ravel()]  # type: ignore[operator]
    return values


def coverage(data: Ranked, verdicts: int, skill: float, reviews: int) -> dict[str, tuple[float, float]]:
    """Coverage and mean width of the intervals and of those of a random audit, and true errors found per verdict."""
    samples, total, rng = len(data.wrong), int(data.wrong.sum()), np.random.default_rng([SEED, verdicts])
    at_random = random_positions(verdicts, SEED)
    rows = np.array([queue(samples, verdicts, rng) for _ in range(reviews)])
    judged = judge(data.wrong[rows], skill, rng)
    bounds = {"one look": one_look(data, rows, judged, at_random), "any time": any_time(data, rows, judged, at_random)}
    for review in range(min(COMPARED, reviews)):
        count = count_wrong(data.p_wrong, rows[review], judged[review], at_random)
        ends = [int(end[review]) for pair in bounds.values() for end in pair]
        assert ends == [count.low, count.high, count.low_any_time, count.high_any_time], (ends, count)
    audit = judge(data.wrong[np.array([rng.permutation(samples)[:verdicts] for _ in range(reviews)])], skill, rng)
    found = audit.sum(axis=1)
    kinds, which = np.unique(found, return_inverse=True)
    bounds["audit"] = tuple(bound(samples, verdicts, kinds, RISK)[which] for bound in (fewest_wrong, most_wrong))
    share = found / verdicts
    half = NORMAL * np.sqrt(share * (1 - share) / verdicts)
    result = {name: _covered(*ends, total) for name, ends in bounds.items()}
    result["normal audit"] = _covered((share - half) * samples, (share + half) * samples, total)
    result["found"] = float((data.wrong[rows] * judged).sum(axis=1).mean() / verdicts), 0.0
    return result


def _covered(low: NDArray[np.generic], high: NDArray[np.generic], total: int) -> tuple[float, float]:
    return float(((low <= total) & (total <= high)).mean()), float((high - low).mean())


def with_reranking(data: Ranked, skill: float, reviews: int) -> tuple[float, float]:
    """True errors found per verdict, and the coverage for any number of looks, if the rest is ranked again."""
    rng, verdicts = np.random.default_rng([SEED, 7]), RERANKED_VERDICTS
    at_random = random_positions(verdicts, SEED)
    all_rows, all_judged = [], []
    for _ in range(reviews):
        drawn, free = rng.permutation(len(data.wrong)), np.ones(len(data.wrong), dtype=np.bool_)
        rows, judged, p_wrong, place = [], [], data.p_wrong, 0
        for block in np.split(at_random, range(RERANK_AFTER, verdicts, RERANK_AFTER)):
            best = np.where(free, p_wrong, -1.0)
            top = np.argpartition(-best, len(block))[: len(block) - int(block.sum())]
            chosen = np.empty(len(block), dtype=np.int64)
            chosen[~block] = top[np.argsort(-best[top], kind="stable")]
            free[chosen[~block]] = False
            for position in np.flatnonzero(block):
                while not free[drawn[place]]:
                    place += 1
                chosen[position], free[drawn[place]] = drawn[place], False
            verdict = judge(data.wrong[chosen], skill, rng)
            rows.append(chosen)
            judged.append(verdict)
            known = JudgedLabels(np.concatenate(rows), np.concatenate(list(all_classes(rows, judged, data))))
            p_wrong = reranked(data.p_wrong, data.labels, known, data.near)
        all_rows.append(np.concatenate(rows))
        all_judged.append(np.concatenate(judged))
    rows_of, judged_of = np.array(all_rows), np.array(all_judged)
    low, high = any_time(data, rows_of, judged_of, at_random)
    return float((data.wrong[rows_of] * judged_of).mean()), _covered(low, high, int(data.wrong.sum()))[0]


def all_classes(rows: list[Ints], judged: list[Ints], data: Ranked) -> Iterator[Ints]:
    """The class of each sample according to its reviewer, who gives a right label the next class by mistake."""
    for chosen, verdict in zip(rows, judged, strict=True):
        given, true = data.labels[chosen], data.truth[chosen]
        yield np.where(verdict == 0, given, np.where(true != given, true, given + 1))


def certification(data: Ranked, skill: float, rng: np.random.Generator) -> tuple[int, int, bool]:
    """One review until it is certified at any time: suspicious verdicts, random checks, and whether rightly so.

    Batches of suspicious samples until one has at most one error; then random checks until certified.
    """
    samples, chosen = len(data.wrong), 0
    said = judge(data.wrong, skill, rng)
    while chosen < samples and (chosen == 0 or said[chosen - BATCH : chosen].sum() > 1):
        chosen = min(samples, chosen + BATCH)
    rows = np.concatenate([np.arange(chosen), chosen + rng.permutation(samples - chosen)])
    at_random = np.arange(samples) >= chosen
    draws = random_draws(Verdicts(data.p_wrong, rows, said[rows], at_random))
    found = np.cumsum(said[rows])[chosen - 1 :]  # after 0, 1, ... random checks
    allowed = (found * 0.05 / 0.95 + 1e-9).astype(np.int64)
    low, high = 0, samples - chosen  # it is certified after `high` checks, and monotone in their number
    while low < high:
        middle = (low + high) // 2
        first = RandomDraws(draws.p_range, *(column[:middle] for column in draws[1:]))
        total = int(found[middle] + allowed[middle] + 1)
        certain = middle > 0 and log_wealth(first, total, upper=True).max() >= -np.log(2 * RISK)
        certain |= samples - chosen - middle <= allowed[middle]
        low, high = (low, middle) if certain else (middle + 1, high)
    judged = rows[: chosen + low]
    right = (data.wrong[judged] * said[judged]).sum() >= 0.95 * data.wrong.sum()
    return chosen, low, bool(right)


def plain_rule(data: Ranked, rng: np.random.Generator) -> int:
    """Verdicts until 95 % are certified without a ranking: random samples, exact bound, at every 1 % of the samples."""
    samples = len(data.wrong)
    found = np.cumsum(data.wrong[rng.permutation(samples)])
    counts = np.unique(np.linspace(1, samples, 101).astype(np.int64))
    left = most_wrong(samples, counts, found[counts - 1], 2 * RISK) - found[counts - 1]
    return int(counts[np.argmax(found[counts - 1] >= 0.95 * (found[counts - 1] + left))])


def measured(name: str, rate: float | None, data: Ranked, reviews: int) -> dict[str, str]:
    """One row of the table of results. Numbers in column names are the share of right verdicts, or verdicts."""
    row = {"case": name, "rate": "" if rate is None else f"{rate:g}", "reviews": str(reviews)}
    row |= {"samples": str(len(data.wrong)), "wrong": str(data.wrong.sum()), "expected": f"{data.p_wrong.sum():.0f}"}
    counts = [min(count, len(data.wrong)) for count in VERDICTS]
    skilled = {f"{100 * skill:g}": coverage(data, counts[1], skill, reviews) for skill in SKILLS}
    for skill, one in skilled.items():
        row |= {f"{kind} covers {skill}": f"{100 * one[kind][0]:.1f}" for kind in ("one look", "any time")}
    row["normal audit covers"] = f"{100 * skilled['100']['normal audit'][0]:.1f}"
    for named, count in zip(VERDICTS, counts, strict=True):
        one = skilled["100"] if count == counts[1] else coverage(data, count, 1.0, reviews)
        row |= {f"{kind} width {named}": f"{one[kind][1]:.0f}" for kind in ("one look", "any time", "audit")}
    again = {skill: with_reranking(data, float(skill) / 100, max(1, reviews // RERANKED)) for skill in skilled}
    for skill, (found, _) in again.items():
        row |= {f"found {skill}": f"{skilled[skill]['found'][0]:.3f}", f"found reranked {skill}": f"{found:.3f}"}
    row["reranked covers"] = f"{100 * again['100'][1]:.0f}"
    rng = np.random.default_rng(SEED)
    for skill in skilled:
        some = max(1, reviews // (CERTIFIED if skill == "100" else CERTIFIED_IMPERFECT)) if data.wrong.any() else 0
        runs = [certification(data, float(skill) / 100, rng) for _ in range(some)]
        means = [f"{mean:.3f}" for mean in np.mean(runs, axis=0)] if runs else [""] * 3
        row |= dict(zip((f"chosen {skill}", f"checks {skill}", f"rightly {skill}"), means, strict=True))
    row["plain rule"] = f"{np.mean([plain_rule(data, rng) for _ in range(20)]):.0f}" if data.wrong.any() else ""
    return row


def stored(path: Path) -> set[tuple[str, str]]:
    """The cases in a file of results."""
    if not path.is_file():
        return set()
    with path.open(encoding="utf-8") as file:
        return {(row["case"], row["rate"]) for row in csv.DictReader(file)}


def store(path: Path, row: dict[str, str]) -> None:
    """Append a row to a file of results, in one write, so that several processes may share the file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(row), lineterminator="\n")
    if not path.is_file():
        writer.writeheader()
    writer.writerow(row)
    with path.open("ab", buffering=0) as file:
        file.write(text.getvalue().encode())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    exact_bounds.at_most = at_most
    parser = argparse.ArgumentParser()
    parser.add_argument("--reviews", type=int, default=1000)
    parser.add_argument("--part", default="0/1", help="0/2 and 1/2 are two halves, for two processes")
    parser.add_argument("--rankings", type=Path, default=Path("out/rankings"))
    parser.add_argument("--out", type=Path, default=Path("out/reviews.csv"), help="cases in this file are skipped")
    chosen = parser.parse_args()
    part, parts = map(int, chosen.part.split("/"))
    for name, rate in cases(chosen.rankings)[part::parts]:
        if (name, "" if rate is None else f"{rate:g}") in stored(chosen.out):
            continue
        began = time.perf_counter()
        store(chosen.out, measured(name, rate, ranking(name, rate, chosen.rankings), chosen.reviews))
        print(f"{name} {'' if rate is None else rate}: {time.perf_counter() - began:.0f} s", flush=True)
