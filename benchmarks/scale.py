"""Scoring shards: time per sample and peak memory against the number of samples, next to cleanlab's batched mode.

python benchmarks/scale.py 100000 1000000 10000000 [--method NAME] [--ray] [--cleanlab] [--repeats 3]

Each measurement runs in a process of its own. Runs take turns, and the fastest of the repeats is printed. Shards have
100,000 samples, 10 classes and 5 epochs. Writing them is not measured. Each process first scores one other shard, which
is not measured, so that imports and compilation do not count. --ray: also one and two workers of one core each.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SHARD, CLASSES, EPOCHS = 100_000, 10, 5


def make(folder: Path, samples: int) -> None:
    from errata.dynamics.shards import write_shard
    from errata.dynamics.store import Dynamics

    for number in range(samples // SHARD):
        rng = np.random.default_rng(number)
        labels = rng.integers(0, CLASSES, SHARD)
        logits = rng.normal(size=(EPOCHS, SHARD, CLASSES)).astype(np.float32)
        logits[:, np.arange(SHARD), labels] += 2
        ids = np.arange(SHARD) + number * SHARD
        write_shard(str(folder), f"{number:05d}", Dynamics.from_arrays(logits, labels, ids=ids), run_id="scale")


def score(folder: Path, method: str, ray: list[str]) -> None:
    from errata.cli.app import app

    out = str(folder / "scores.parquet")
    app(["score", str(folder), "--method", method, "--out", out, *ray], standalone_mode=False)


def start_ray(workers: int) -> list[str]:
    """The option of a new local cluster with that many workers of one core each."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": workers})
    return ["--ray", cluster.address]


def cleanlab(folder: Path) -> None:
    """Run cleanlab's batched mode on the probabilities of the last epoch, read from the same shards."""
    from cleanlab.experimental.label_issues_batched import LabelInspector
    from scipy.special import softmax

    from errata.dynamics.places import Place
    from errata.dynamics.shards import list_shards, read_shard

    inspector = LabelInspector(num_class=CLASSES, n_jobs=1, verbose=False)
    for step in (inspector.update_confident_thresholds, inspector.score_label_quality):
        for shard in list_shards(Place(str(folder))):
            run = read_shard(shard)
            step(run.labels, softmax(run.logits[-1].astype(np.float64), axis=1))
    inspector.get_label_issues()


def measure(folder: Path, what: str) -> tuple[float, float]:
    """Seconds and peak memory in GB of one run in a process of its own."""
    command = [sys.executable, __file__, "--folder", str(folder), "--work", what]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, peak = json.loads(done.stdout.splitlines()[-1])
    return seconds, peak


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("samples", type=int, nargs="*")
    parser.add_argument("--method", action="append")
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--cleanlab", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--work")
    given = parser.parse_args()
    if given.work:
        with tempfile.TemporaryDirectory() as first:  # imports and compiled kernels
            make(Path(first), SHARD)
            workers, method = given.work.split(" ", 1) if given.work[0] in "12" else ("", given.work)
            ray = start_ray(int(workers)) if workers else []
            for folder in (Path(first), given.folder):
                start = time.perf_counter()
                cleanlab(folder) if method == "cleanlab" else score(folder, method, ray)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
        print(json.dumps([time.perf_counter() - start, peak]))
        return
    for samples in given.samples:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder), samples)
            works = given.method or ["Unmixed-MeanProb-LM"]
            works += [f"{workers} {works[0]}" for workers in (1, 2) if given.ray] + ["cleanlab"] * given.cleanlab
            runs = {work: [] for work in works}
            for _ in range(given.repeats):
                for work in works:
                    runs[work].append(measure(Path(folder), work))
            for work, results in runs.items():
                seconds, peak = min(results)[0], max(peak for _, peak in results)
                each = seconds / samples * 1e6
                print(
                    f"{samples:>11,} {work:<22} {seconds:8.1f} s {each:6.2f} us per sample {peak:5.2f} GB", flush=True
                )


if __name__ == "__main__":
    main()
