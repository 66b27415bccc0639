"""What every speed comparison shares: one row of the table, a clock, a memory gauge, and the printing."""

import ctypes
import gc
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One comparison: `work` done by errata, `against` what, how many times faster, and the ratio it should reach."""

    work: str
    against: str
    ratio: float
    reach: float
    detail: str


def timed(function: Callable[[], object], repeat: int = 3) -> float:
    """Seconds of the fastest of `repeat` calls; call once beforehand where the first call compiles."""
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def peak_growth(function: Callable[[], object]) -> int:
    """Bytes by which the resident memory of this process grows at most while `function` runs (Linux)."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # memory an earlier call has freed but malloc keeps would hide what this one needs
    Path("/proc/self/clear_refs").write_text("5")  # sets the recorded peak back to what is resident now
    before = _resident("VmRSS")
    function()
    return max(0, _resident("VmHWM") - before)


def _resident(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"/proc/self/status has no {field}")
    return 1024 * int(found[1])


def print_rows(rows: Iterable[Row]) -> None:
    """Print the comparisons as one table; a ratio below what it should reach is red."""
    table = Table("work", "against", "times faster", "reach", "detail")
    for row in rows:
        colour = "green" if row.ratio >= row.reach else "red"
        table.add_row(row.work, row.against, f"[{colour}]{row.ratio:.1f}[/]", f"{row.reach:g}", row.detail)
    console = Console()
    if not console.is_terminal:
        console.width = 200  # a file or a pipe has room for a row on a line
    console.print(table)
