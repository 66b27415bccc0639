"""Shared by all speed comparisons: a row of the table, timing, peak memory, printing."""

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
    """One comparison: the `work`, `against` what, how many times faster errata is, and the target ratio."""

    work: str
    against: str
    ratio: float
    reach: float
    detail: str


def timed(function: Callable[[], object], repeat: int = 3) -> float:
    """Seconds of the fastest of `repeat` calls. Call the function once before, if its first call compiles."""
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def peak_growth(function: Callable[[], object]) -> int:
    """The peak growth in bytes of the resident memory while `function` runs (Linux)."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # otherwise memory that malloc kept from an earlier call would hide the growth
    Path("/proc/self/clear_refs").write_text("5")  # resets the recorded peak
    before = _resident("VmRSS")
    function()
    return max(0, _resident("VmHWM") - before)


def _resident(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"/proc/self/status has no {field}")
    return 1024 * int(found[1])


def print_rows(rows: Iterable[Row]) -> None:
    """Print the comparisons as one table; a ratio below its target is red."""
    table = Table("work", "against", "times faster", "reach", "detail")
    for row in rows:
        colour = "green" if row.ratio >= row.reach else "red"
        table.add_row(row.work, row.against, f"[{colour}]{row.ratio:.1f}[/]", f"{row.reach:g}", row.detail)
    console = Console()
    if not console.is_terminal:
        console.width = 200  # no line breaks in a file or a pipe
    console.print(table)
