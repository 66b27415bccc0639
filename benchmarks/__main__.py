"""`python benchmarks`: every speed comparison in one table; exit code 1 if a ratio is below its target."""

import sys

from rich.console import Console

import confident_learning
import ctrl
import neighbours
import recorder
import replay
import windows
from common import print_rows

rows = []
for module in (recorder, replay, windows, ctrl, confident_learning, neighbours):
    Console(stderr=True).print(f"running {module.__name__} ...")
    rows += module.run()
print_rows(rows)
sys.exit(any(row.ratio < row.reach for row in rows))
