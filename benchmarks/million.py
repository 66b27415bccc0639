"""`errata find` on a Parquet file of 1,000,000 rows × 20 columns in 10 classes, a tenth of the labels wrong.

python benchmarks/million.py [--model auto|mlp|boosting] [--rows 1000000]

Prints peak memory, seconds and FNR.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import errata

COLUMNS, CLASSES, RATE = 20, 10, 0.1
MOST_GIGABYTES = 3  # target


def write(path: Path, rows: int) -> NDArray[np.bool_]:
    """One Gaussian per class, close to each other. Returns which labels are wrong, (rows,)."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, CLASSES, rows)
    values = rng.normal(size=(CLASSES, COLUMNS))[true] + rng.normal(size=(rows, COLUMNS))
    wrong = rng.random(rows) < RATE
    given = np.where(wrong, (true + rng.integers(1, CLASSES, rows)) % CLASSES, true)
    table = pd.DataFrame(values.astype(np.float32), columns=[f"column {number}" for number in range(COLUMNS)])
    table["label"] = [f"class {number}" for number in given]
    table.to_parquet(path)
    return wrong


def main() -> None:
    """Run find in its own process, and print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="auto")
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder) / "data.parquet", Path(folder) / "out"
        wrong = write(data, options.rows)
        command = ["find", str(data), "--label", "label", "--model", options.model, "--out", str(out)]
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "errata", *command], check=True)
        seconds = time.perf_counter() - started
        ranking = pd.read_parquet(out / "ranking.parquet", columns=["id", "score"])
        missed = errata.metrics.fnr(ranking["score"].to_numpy(), wrong[ranking["id"].to_numpy()])
    gigabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e9
    print(f"{options.rows:,} rows: {gigabytes:.2f} GB (target: {MOST_GIGABYTES}), {seconds:.0f} s, FNR {missed:.2%}")


if __name__ == "__main__":
    main()
