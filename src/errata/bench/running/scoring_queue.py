"""Scoring beside training: on a GPU, cells are scored by other processes while the next group is trained."""

import shutil
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

from errata.bench.running.plan import Cell
from errata.errors import ErrataError

PROCESSES = 3  # the seeds of a group at once


class Job(Protocol):
    """What is handed to another process about a trained cell."""

    @property
    def cell(self) -> Cell:
        """The cell it is about."""


class AtOnce(Executor):
    """Does what is submitted then and there."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """The future is done, or has failed, when it comes back."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def scoring_pool(on_gpu: bool) -> Executor:
    """Other processes where a GPU would wait for scores; where the cores are needed for training, nobody."""
    return ProcessPoolExecutor(PROCESSES, get_context("spawn")) if on_gpu else AtOnce()


class Desk:
    """The cells that are trained and being scored, by group; a group's folder goes when all of it is scored."""

    def __init__(
        self,
        pool: Executor,
        make_results: Callable[[Any], float],
        done: Callable[[Cell, float], None],
        failed: Callable[[Cell, str], None],
    ) -> None:
        self._pool, self._make_results, self._done, self._failed = pool, make_results, done, failed
        self._waiting: list[tuple[dict[Cell, Future[float]], Callable[[bool], None]]] = []

    def hand_in(self, jobs: Sequence[Job], close: Callable[[bool], None]) -> None:
        """Score these; `close` is then told whether all went well."""
        self._waiting.append(({job.cell: self._pool.submit(self._make_results, job) for job in jobs}, close))

    def collect(self, *, wait: bool) -> None:
        """Take back what is scored; with `wait`, everything."""
        for group in list(self._waiting):
            futures, close = group
            if not wait and not all(future.done() for future in futures.values()):
                continue
            for cell, future in futures.items():
                error = future.exception()
                if error is None:
                    self._done(cell, future.result())
                else:
                    self._failed(cell, describe(error))
            close(all(future.exception() is None for future in futures.values()))
            self._waiting.remove(group)


def describe(error: BaseException) -> str:
    """One sentence for what errata says itself, the traceback for everything else."""
    return str(error) if isinstance(error, ErrataError) else "".join(traceback.format_exception(error))


def drop_folder(folder: Path) -> None:
    """Delete what a training left; what cannot be deleted is left."""
    shutil.rmtree(folder, ignore_errors=True)
