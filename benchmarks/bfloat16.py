"""`errata.find` on the pixels of CIFAR-10 on a CPU: products in bfloat16 compared with float32, processor time and FNR.

ERRATA_DATA=... OMP_NUM_THREADS=1 python benchmarks/bfloat16.py [--samples 1000] [--seeds 3]
"""

import argparse
import time

import numpy as np

import errata
from errata.datasets.loading import load_setting
from errata.training import executors

DRAWN_FROM = 5_000  # first pictures of the training set


def main() -> None:
    """Print a line for each seed and type."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1_000)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    data = load_setting("cifar10-symmetric-20").data
    for seed in range(options.seeds):
        rows = np.random.default_rng(seed).permutation(DRAWN_FROM)[: options.samples]
        pixels = data.train_inputs[rows].transpose(0, 2, 3, 1)
        noisy = errata.noise.symmetric(data.train_labels[rows], 0.2, seed=seed)
        for name, in_bfloat16 in (("float32", False), ("bfloat16", True)):
            executors.cpu_has_bfloat16 = lambda answer=in_bfloat16: answer
            started = time.process_time()
            found = errata.find(pixels, noisy.labels, seed=seed, device="cpu", backbone="none")
            seconds = time.process_time() - started
            first = found.ranking["id"].to_numpy()[: noisy.truth.sum()].astype(np.int64)
            missed = 1 - noisy.truth[first].mean()
            print(f"seed {seed}, {name}: FNR {missed:.1%}, {seconds:.0f} s, {found.summary['model']}", flush=True)


if __name__ == "__main__":
    main()
