"""Processor time of `errata find` on a small table, from the start of Python to the report.

python benchmarks/first_result.py      compared with importing torch and LightGBM, which it has to do
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from sklearn.datasets import load_wine

from common import Row, print_rows

WARM, FIRST = 3.0, 10.0  # seconds


def run() -> list[Row]:
    """178 rows of 13 numbers: with machine code of earlier runs, and without."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        load_wine(as_frame=True).frame.to_csv(folder / "wine.csv", index=False)
        find = ["-m", "errata", "find", "wine.csv", "--label", "target", "--overwrite"]
        imports = min(_seconds(["-c", "import torch, lightgbm"], folder) for _ in range(3))
        _seconds(find, folder)
        warm = min(_seconds(find, folder) for _ in range(3))
        first = _seconds(find, folder, NUMBA_CACHE_DIR=str(folder / "empty"))
    rows = []
    for work, seconds, most in (("178 x 13", warm, WARM), ("the same, nothing compiled", first, FIRST)):
        detail = f"{seconds:.1f} s of processor time (at most {most:g}); imports {imports:.1f} s"
        rows.append(Row(f"errata find, {work}", "import torch, lightgbm", imports / seconds, imports / most, detail))
    return rows


def _seconds(arguments: list[str], folder: Path, **environment: str) -> float:
    """Processor time of a Python process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=os.environ | environment, check=True, stdout=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    print_rows(run())
