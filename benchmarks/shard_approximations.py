"""CTRL and kNN in shards, which approximate, next to the whole run: errors missed, recall of neighbours, seconds.

python benchmarks/shard_approximations.py [SAMPLES] [COLUMNS] [DISTANCE]

A tenth of the labels are wrong. Logits follow the true class. Features are normal around the centre of their class;
with a smaller distance between the centres, classes overlap and true neighbours are spread over more cells.
"""

import itertools
import sys
import tempfile
import time

import numpy as np
from scipy.stats import spearmanr

from errata.core import metrics
from errata.core.methods import parse
from errata.dynamics.scoring import method_results
from errata.dynamics.sharded import score_shards
from errata.dynamics.shards import write_shard
from errata.dynamics.store import Dynamics

SHARDS, CLASSES, EPOCHS = 10, 10, 5


def main(samples: int = 100_000, columns: int = 32, distance: float = 1.0) -> None:
    rng = np.random.default_rng(0)
    true = rng.integers(0, CLASSES, samples)
    wrong = rng.random(samples) < 0.1
    labels = np.where(wrong, (true + rng.integers(1, CLASSES, samples)) % CLASSES, true)
    centres = distance * rng.normal(size=(CLASSES, columns))
    features = (centres[true] + rng.normal(size=(samples, columns))).astype(np.float32)
    learned = np.linspace(1, 4, EPOCHS)[:, None, None] * np.eye(CLASSES)[true]
    logits = (learned + rng.normal(size=learned.shape)).astype(np.float32)
    ends = (np.arange(SHARDS + 1) * samples // SHARDS).tolist()
    whole = Dynamics.from_arrays(logits, labels, features=features)
    with tempfile.TemporaryDirectory() as folder:
        for number, (first, end) in enumerate(itertools.pairwise(ends)):
            part = Dynamics.from_arrays(
                logits[:, first:end], labels[first:end], ids=np.arange(first, end), features=features[first:end]
            )
            write_shard(folder, f"{number}", part, run_id="r")
        for method in ("CTRL-CE", "Unmixed-kNN-RampProb-LM"):
            start, said = time.process_time(), []
            run = Dynamics.open(folder)
            parts = [results[method] for _, results in score_shards(run, [parse(method)], say=said.append)]
            middle = time.process_time()
            expected = method_results(whole, [method])[method]
            end = time.process_time()
            scores = np.concatenate([part.scores for part in parts])
            missed = [metrics.fnr(found, wrong) for found in (scores, expected.scores)]
            print(
                f"{method}: in shards {missed[0]:.2%} of the errors missed, {middle - start:.0f} s of processor time; "
            )
            print(f"  the whole run {missed[1]:.2%}, {end - middle:.0f} s")
            print(f"  rank correlation {spearmanr(scores, expected.scores).statistic:.4f}")
            if expected.flags is not None:
                flags = np.concatenate([part.flags for part in parts])
                print(f"  equal flags {(flags == expected.flags).mean():.2%}")
            print("  ", *said, flush=True)


if __name__ == "__main__":
    given = [convert(text) for convert, text in zip((int, int, float), sys.argv[1:], strict=False)]
    main(*given)
