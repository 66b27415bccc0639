"""Kernels: loops over arrays, compiled when there are many numbers, and run on all cores in blocks of rows.

Compiled kernels release the GIL, and do not use the threads of numba. Blocks of rows run on Python threads, so that
results do not depend on the number of cores and processes can be forked.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, update_wrapper
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

INTERPRETED_NUMBERS = 200_000  # in the arguments of all calls of a kernel: as slow to interpret as it is to compile
BLOCK_ELEMENTS = 1 << 17  # numbers in a block of rows; it and derived arrays fit into the cache

_most_cpus = 1 << 30

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """A kernel: Python runs the first calls, and numba compiles it for the rest and caches the machine code on disk.

    Small data then needs neither numba nor its compiler, which take longer. The results are the same bit for bit, so a
    kernel converts numbers of arrays to np.float64 where numba would do so and numpy would not, and calls `math`.
    """
    return cast(Function, Kernel(cast(FunctionType, function)))


class Kernel:
    """A function of arrays, which is compiled after it was interpreted for `numbers_left` numbers."""

    def __init__(self, function: FunctionType) -> None:
        update_wrapper(self, function)
        self._function = function
        self.numbers_left = INTERPRETED_NUMBERS

    def __call__(self, *arguments: Any) -> Any:
        """Call the function, interpreted or compiled."""
        if self.numbers_left > 0:
            self.numbers_left -= _numbers(arguments)
        if self.numbers_left > 0:
            with np.errstate(all="ignore"):
                return self.interpreted(*arguments)
        return self.machine_code(*arguments)

    @cached_property
    def interpreted(self) -> Callable[..., Any]:
        """The function, in which calls of other kernels are interpreted too."""
        return self._linked(lambda kernel: kernel.interpreted)

    @cached_property
    def machine_code(self) -> Callable[..., Any]:
        """The function, which numba compiles on the first call for each combination of types."""
        from numba import njit

        linked = self._linked(lambda kernel: kernel.machine_code)
        return cast(Callable[..., Any], njit(nogil=True, cache=True, error_model="numpy")(linked))

    def _linked(self, link: "Callable[[Kernel], Callable[..., Any]]") -> Callable[..., Any]:
        """The function with its kernels replaced."""
        code, names = self._function.__code__, self._function.__globals__
        kernels = {name: names[name] for name in code.co_names if isinstance(names.get(name), Kernel)}
        linked = FunctionType(code, names | {name: link(kernel) for name, kernel in kernels.items()})
        return update_wrapper(linked, self._function)


def _numbers(arguments: tuple[Any, ...]) -> int:
    """How many numbers the arrays in arguments and tuples of arguments have."""
    arrays = [one.size for one in arguments if isinstance(one, np.ndarray)]
    return sum(arrays) + sum(_numbers(one) for one in arguments if isinstance(one, tuple))


def limit_cpus(most: int) -> None:
    """Use at most that many CPUs from now on. A task on a cluster sets the number that it requested."""
    global _most_cpus
    _most_cpus = most


def usable_cpus() -> int:
    """The number of CPUs that this process may use."""
    return min(_most_cpus, _cpus_of_process())


def _cpus_of_process() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def row_blocks(rows: int, block: int) -> Iterator[slice]:
    """Consecutive slices of at most `block` rows that cover `rows` rows."""
    return (slice(start, min(start + block, rows)) for start in range(0, rows, block))


def over_blocks(rows: int, block: int, work: Callable[[slice], None]) -> None:
    """Call `work` on every block of rows, on one thread per core; raises the first error."""
    blocks = list(row_blocks(rows, block))
    workers = min(len(blocks), usable_cpus())
    if workers <= 1:
        for rows_of_block in blocks:
            work(rows_of_block)
        return
    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(work, blocks):
            pass
