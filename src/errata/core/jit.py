"""Compiled loops, run on all cores in blocks of rows.

Kernels release the GIL, and do not use the threads of numba. Blocks of rows run on Python threads, so that results do
not depend on the number of cores and processes can be forked.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

from numba import njit

BLOCK_ELEMENTS = 1 << 17  # numbers in a block of rows; it and derived arrays fit into the cache

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile with numba on first call and cache the machine code on disk."""
    return cast(Function, njit(nogil=True, cache=True, error_model="numpy")(function))


def row_blocks(rows: int, block: int) -> Iterator[slice]:
    """Consecutive slices of at most `block` rows that cover `rows` rows."""
    return (slice(start, min(start + block, rows)) for start in range(0, rows, block))


def over_blocks(rows: int, block: int, work: Callable[[slice], None]) -> None:
    """Call `work` on every block of rows, on one thread per core; raises the first error."""
    blocks = list(row_blocks(rows, block))
    workers = min(len(blocks), os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count() or 1)
    if workers <= 1:
        for rows_of_block in blocks:
            work(rows_of_block)
        return
    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(work, blocks):
            pass
