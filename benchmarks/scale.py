"""Scoring shards: time per sample and peak memory against the number of samples, next to cleanlab's batched mode.

python benchmarks/scale.py 100000 1000000 10000000 [--method NAME] [--ray] [--cleanlab] [--repeats 3] [--keep FOLDER]

Each measurement runs in a process of its own. Runs take turns, and the fastest of the repeats is printed. Shards have
100,000 samples, 10 classes and 5 epochs. Writing them is not measured. Each process first scores one other shard, which
is not measured, so that imports and compilation do not count; then it scores the run, again and again until 1,000,000
samples are scored. Processor time is that of the process with all its threads; others on the machine lengthen the wall
time, and hardly change the processor time. --ray: one and two workers of one core each, with the time that they waited
for a processor while it was busy with something else.
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
FEWEST_SCORED = 1_000_000


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


def score(folder: Path, method: str, ray: str | None) -> None:
    from errata.cli.score_commands import score as command

    with tempfile.TemporaryDirectory() as out:
        command(str(folder), f"{out}/scores.parquet", method=method.split("+"), ray=ray)


def start_ray(workers: int) -> str:
    """The address of a new local cluster with that many workers of one core each."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": workers, "include_dashboard": False, "object_store_memory": 500 << 20}
    return Cluster(initialize_head=True, head_node_args=node).address


def waited() -> dict[int, float]:
    """How long each Ray worker has waited for a processor, in seconds."""
    delays = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_bytes().startswith(b"ray::"):
                delays[int(folder.name)] = int((folder / "schedstat").read_text().split()[1]) / 1e9
        except OSError:  # the process has ended
            continue
    return delays


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


def work(folder: Path, what: str) -> None:
    """Score some samples that do not count, then the run; print times and the peak of the memory."""
    workers, method = what.split(" ", 1) if what[0] in "12" else ("", what)
    ray = start_ray(int(workers)) if workers else None

    def once(where: Path) -> None:
        cleanlab(where) if method == "cleanlab" else score(where, method, ray)

    with tempfile.TemporaryDirectory() as first:
        make(Path(first), SHARD * (4 if workers else 1))  # so that all workers have started
        once(Path(first))
    samples = SHARD * sum(1 for _ in (folder / "shards").iterdir())
    times = max(1, FEWEST_SCORED // samples)
    before, start, processor = waited(), time.perf_counter(), time.process_time()
    for _ in range(times):
        once(folder)
    wall, processor = time.perf_counter() - start, time.process_time() - processor
    delays = sorted(seconds - before.get(worker, 0) for worker, seconds in waited().items())[-int(workers or 1) :]
    waiting = sum(delays) / len(delays) if workers else 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(json.dumps([wall / times, processor / times, waiting / times, peak]))


def measure(folder: Path, what: str) -> list[float]:
    """Wall time, processor time and waiting time in seconds, and peak memory in GB, of a process of its own."""
    command = [sys.executable, __file__, "--folder", str(folder), "--work", what]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("samples", type=int, nargs="*")
    parser.add_argument("--method", action="append", help="several methods in one pass: A+B")
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--cleanlab", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="use and keep the shards in this folder")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--work")
    given = parser.parse_args()
    if given.work:
        work(given.folder, given.work)
        return
    for samples in given.samples:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) if given.keep is None else given.keep / str(samples)
            if not (folder / "shards").exists():
                make(folder, samples)
            works = given.method or ["Unmixed-MeanProb-LM"]
            works = [f"{workers} {works[0]}" for workers in (1, 2)] if given.ray else works
            works += ["cleanlab"] * given.cleanlab
            runs = {what: [] for what in works}
            for _ in range(given.repeats):
                for what in works:
                    runs[what].append(measure(folder, what))
            for what, results in runs.items():
                wall, processor = min(run[0] for run in results), min(run[1] for run in results)
                least = min(run[0] - run[2] for run in results)
                peak = max(run[3] for run in results)
                each = [seconds / samples * 1e6 for seconds in (wall, processor)]
                shown = f"wall {wall:8.2f} s, {each[0]:5.2f} us per sample; processor {each[1]:5.2f} us per sample"
                if what[0] in "12":
                    shown = f"wall {wall:8.2f} s, without waiting for a processor {least:8.2f} s"
                print(f"{samples:>11,} {what:<22} {shown}; {peak:5.2f} GB", flush=True)


if __name__ == "__main__":
    main()
