"""What fits in memory, asked before it is taken."""

import os
from pathlib import Path

from errata.errors import InputError
from errata.wording import gigabytes

_MEMINFO, _CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


def available_memory() -> int | None:
    """Bytes that can still be taken, or None where the system does not say."""
    free = [size for size in (_of_machine(), _of_container()) if size is not None]
    return min(free, default=None)


def check_fits(size: float, what: str) -> None:
    """Refuse what is larger than the memory that is left."""
    free = available_memory()
    if free is not None and size > free:
        raise InputError(f"{what} would take {gigabytes(size)} of memory, and {gigabytes(free)} are free")


def _of_machine() -> int | None:
    if _MEMINFO.is_file():
        for line in _MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _of_container() -> int | None:
    """What the limit of a control group leaves, if there is one."""
    try:
        limit = (_CGROUP / "memory.max").read_text(encoding="ascii").strip()
        used = (_CGROUP / "memory.current").read_text(encoding="ascii")
    except OSError:
        return None
    return None if limit == "max" else int(limit) - int(used)
