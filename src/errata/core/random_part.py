"""The random part of a review: which samples are judged although nothing is suspicious about them, and when.

A ranking finds errors, but only samples drawn at random show how many there are. The draw depends on a seed and on the
number of samples alone, never on scores or verdicts, and gives the same order with every version of numpy.
"""

import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errata.core.checks import as_numpy, check_seed, check_whole
from errata.errors import InputError

EVERY = 10  # one of this many positions of a review queue is a random draw
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
Rows = NDArray[np.int64]


class ReviewQueue(NamedTuple):
    """The order of a review: rows (N,) of samples, and at_random (N,), True where the sample was drawn at random."""

    rows: Rows
    at_random: NDArray[np.bool_]


def random_order(samples: int, seed: int) -> Rows:
    """All rows 0..N-1 in random order (N,): the first n are a uniform draw of n samples without replacement.

    Rows are sorted by the number that the generator SplitMix64 gives them. It is a permutation of 64-bit numbers, so
    no two are equal, and a page can compute it too.
    """
    start = mix_bits(np.array([check_seed(seed)], dtype=np.uint64))
    counter = np.arange(1, check_whole("samples", samples, 0) + 1, dtype=np.uint64)
    return np.argsort(mix_bits(start + counter * GOLDEN), kind="stable").astype(np.int64)


def design_seed(labels: NDArray[Any], seed: int = 0) -> int:
    """A seed for the random part that follows from the given labels (N,) and the seed of the run.

    A corrected copy of the data has other labels, and so another random part: samples that the first review chose and
    corrected say nothing about the rest.
    """
    text = f"{check_seed(seed)} {len(labels)} ".encode() + np.ascontiguousarray(labels, dtype="<i8").tobytes()
    return int.from_bytes(hashlib.sha256(text).digest()[:6], "big")  # 48 bits: exact in JSON and JavaScript


def review_queue(ranked: ArrayLike, seed: int, every: int = EVERY) -> ReviewQueue:
    """All samples in the order of a review: by rank, with one position in `every` drawn at random.

    ranked (N,): all rows, most suspicious first. A random position holds the next row of `random_order` that is not in
    the queue yet, so it is a uniform draw from the samples not yet in the queue.
    """
    by_rank = as_numpy(ranked, "ranked")
    if not np.array_equal(np.sort(by_rank), np.arange(len(by_rank))):
        raise InputError(f"ranked must hold each of the rows 0..{len(by_rank) - 1} once")
    positions = random_positions(len(by_rank), seed, every).tolist()
    drawn, by_rank = iter(random_order(len(by_rank), seed).tolist()), iter(by_rank.tolist())
    queue: dict[int, bool] = {}
    for at_random in positions:
        source = drawn if at_random else by_rank
        queue[next(row for row in source if row not in queue)] = at_random
    return ReviewQueue(np.fromiter(queue, dtype=np.int64, count=len(queue)), np.array(positions, dtype=np.bool_))


def random_positions(length: int, seed: int, every: int = EVERY) -> NDArray[np.bool_]:
    """True (length,) at the positions of a queue that hold random draws: one of every ten, at a place that varies."""
    block = check_whole("every", every, 1)
    blocks = np.arange(1, -(-length // block) + 1, dtype=np.uint64)
    start = mix_bits(~np.array([check_seed(seed)], dtype=np.uint64))
    offsets = mix_bits(start + blocks * GOLDEN) % np.uint64(block)
    at_random = np.zeros((len(blocks), block), dtype=np.bool_)
    at_random[np.arange(len(blocks)), offsets.astype(np.int64)] = True
    return at_random.ravel()[:length]


def next_draws(samples: int, seed: int, taken: ArrayLike, count: int) -> Rows:
    """The next `count` rows of the random order that are not among the rows `taken`; fewer if there are no more."""
    order = random_order(samples, seed)
    free = np.ones(samples, dtype=np.bool_)
    free[as_numpy(taken, "taken").astype(np.int64)] = False
    return order[free[order]][:count]


def mix_bits(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The output function of SplitMix64: a permutation of the 64-bit numbers. Products wrap around."""
    mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
