"""Checks that data fits into memory before it is read."""

import os
from pathlib import Path

from errata.errors import InputError
from errata.wording import gigabytes

MEMINFO, CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
FEWER_SAMPLES = "close other programs, use fewer samples, or a machine with more memory"
SMALLER_BACKBONE = "close other programs, or pass a smaller `backbone=`"


def available_memory() -> int | None:
    """Free memory in bytes, or None if the system does not report it."""
    free = [size for size in (_free_on_machine(), _free_in_container()) if size is not None]
    return min(free, default=None)


def check_fits(size: float, what: str, advice: str = FEWER_SAMPLES) -> None:
    """Raise an error, with advice, if `size` bytes do not fit into the free memory."""
    free = available_memory()
    if free is not None and size > free:
        raise InputError(f"{what} would take {gigabytes(size)} of memory, but {gigabytes(free)} are free: {advice}")


def _free_on_machine() -> int | None:
    if MEMINFO.is_file():
        for line in MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _free_in_container() -> int | None:
    """The memory that the limit of a control group leaves, if there is a limit."""
    try:
        limit = (CGROUP / "memory.max").read_text(encoding="ascii").strip()
        used = (CGROUP / "memory.current").read_text(encoding="ascii")
    except OSError:
        return None
    return None if limit == "max" else int(limit) - int(used)
