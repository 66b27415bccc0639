"""Scoring beside training: on a GPU, cells are scored by other processes while the next group is trained."""

import shutil
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from errata.bench.plan import Cell
from errata.bench.plugins import plugin_methods
from errata.bench.results import Results
from errata.bench.scoring import score_cell
from errata.datasets.labelled import load_setting
from errata.dynamics.store import Dynamics
from errata.errors import ErrataError
from errata.training.recipes import Recipe

PROCESSES = 3  # the seeds of a group at once


@dataclass(frozen=True)
class ScoringJob:
    """A trained cell, as it is handed to another process."""

    cell: Cell
    dynamics: Path
    recipe: Recipe
    methods: list[str]
    measured: dict[str, float]
    about: dict[str, Any]
    data_dir: Path | None
    out: Path
    plugins: tuple[Path, ...]


def score_and_keep(job: ScoringJob) -> float:
    """Score a cell and write its results; returns the seconds it took."""
    start = time.monotonic()
    plugin_methods(job.plugins)  # another process has not seen them yet
    labelled = load_setting(job.cell.setting, job.data_dir)
    dynamics = Dynamics.open(job.dynamics)
    numbers, scores = score_cell(job.cell, labelled, dynamics, job.recipe, job.methods, job.measured, job.about)
    Results(job.out).write(job.cell, numbers, scores)
    return time.monotonic() - start


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
        self, pool: Executor, done: Callable[[Cell, float], None], failed: Callable[[Cell, str], None]
    ) -> None:
        self._pool, self._done, self._failed = pool, done, failed
        self._waiting: list[tuple[dict[Cell, Future[float]], Callable[[bool], None]]] = []

    def hand_in(self, jobs: list[ScoringJob], close: Callable[[bool], None]) -> None:
        """Score these; `close` is then told whether all went well."""
        self._waiting.append(({job.cell: self._pool.submit(score_and_keep, job) for job in jobs}, close))

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
