"""Centres of the cells in which neighbours are searched: processor time by the number of centres, and what is found.

python benchmarks/cell_centres.py 100 1000 10000 [--columns 64]

A run has one centre per 10,000 samples. Points are normal around ten overlapping class centres, as in
benchmarks/shard_approximations.py. The time per sample is that of finding the cells of 20,000 points, on one thread.
"""

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

from errata.dynamics.cell_centres import find_centres, squared_distances
from errata.dynamics.shard_neighbours import FEWEST_SAMPLED, PROBES, SAMPLED_PER_CENTRE

POINTS, COMPARED, CLASSES, DISTANCE = 20_000, 1_000, 10, 0.3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("centres", type=int, nargs="+")
    parser.add_argument("--columns", type=int, default=64)
    given = parser.parse_args()
    for count in given.centres:
        rng = np.random.default_rng(0)
        sampled = max(FEWEST_SAMPLED, SAMPLED_PER_CENTRE * count)
        classes = DISTANCE * rng.normal(size=(CLASSES, given.columns))
        drawn = classes[rng.integers(0, CLASSES, sampled + POINTS)] + rng.normal(size=(sampled + POINTS, given.columns))
        drawn = drawn.astype(np.float32)
        with threadpool_limits(1):
            start = time.process_time()
            centres = find_centres(drawn[:sampled], count)
            middle = time.process_time()
            found = centres.nearest(drawn[sampled:], PROBES)
            end = time.process_time()
        true = np.argsort(squared_distances(drawn[sampled : sampled + COMPARED], centres.points), axis=1)[:, :PROBES]
        pairs = zip(found[:COMPARED].tolist(), true.tolist(), strict=True)
        shared = np.mean([len(set(one) & set(other)) / PROBES for one, other in pairs])
        home = (found[:COMPARED, 0] == true[:, 0]).mean()
        print(
            f"{count:>7,} centres in {len(centres.districts):>4,} districts: k-means {middle - start:7.1f} s, "
            f"{(end - middle) / POINTS * 1e6:6.1f} us per sample; the nearest centre is found for {home:.1%}, "
            f"{shared:.1%} of the nearest {PROBES}",
            flush=True,
        )


if __name__ == "__main__":
    main()
