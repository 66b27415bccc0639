"""What a benchmark run and a tuning run share: train groups of cells, score them, record failures."""

import contextlib
import re
import shutil
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar

from filelock import BaseFileLock, FileLock, Timeout

from errata.bench.plan import Cell, CellGroup, group_cells
from errata.bench.results import Results, last_line
from errata.bench.running.cell_training import FOLDS, device_name, reason_to_skip, train_group, train_second_pass
from errata.bench.tuning_results import TuningResults
from errata.datasets.loading import LabelledSetting, load_setting
from errata.errors import ErrataError, MissingDataError
from errata.terminal import TrainingProgress
from errata.training.jobs import SeedResult
from errata.training.recipes import AnyRecipe, BoostingRecipe

PROCESSES = 3  # score three seeds of a group in parallel
SEED = re.compile(r"seed(\d+)")  # the beginning of the name of the folder of a run


@dataclass(frozen=True)
class RunOptions:
    """Device, data folder, extra methods, plugin files, and whether the dynamics are kept after scoring.

    as_published: see errata.bench.running.as_published. looks: 2 trains a second pass after each in-sample run.
    """

    device: str = "auto"
    data_dir: Path | None = None
    methods: tuple[str, ...] = ()
    plugins: tuple[Path, ...] = ()
    keep_dynamics: bool = False
    as_published: bool = False
    looks: int = 1


@dataclass
class CampaignOutcome:
    """Cells that were computed now, already there, failed or skipped; the last two with the reason."""

    done: list[Cell] = field(default_factory=list)
    reused: list[Cell] = field(default_factory=list)
    failed: dict[Cell, str] = field(default_factory=dict)
    skipped: dict[Cell, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainedCell:
    """A cell to score, possibly in another process.

    model_metrics: metrics of the model itself, such as its test accuracy. metadata: columns of the results.
    second: the dynamics of the second pass, if there is one.
    """

    cell: Cell
    dynamics: Path
    recipe: AnyRecipe
    model_metrics: dict[str, float]
    metadata: dict[str, Any]
    options: RunOptions
    out: Path
    second: Path | None = None


class InlineExecutor(Executor):
    """Runs submitted work at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Return a future that is already done or failed."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Campaign(ABC):
    """Trains the cells that have no results yet, and has their dynamics scored.

    On a GPU machine, other processes score while the next group trains. On a CPU, training needs the cores, and cells
    are scored in this process.
    """

    verb: ClassVar[str]  # as in "seed0: scored in 3 s"

    def __init__(
        self, out: Path, options: RunOptions, progress: TrainingProgress, store: Results | TuningResults
    ) -> None:
        """store: where the results of this campaign are."""
        out.mkdir(parents=True, exist_ok=True)
        self.results, self.options = Results(out), options
        self._store, self.progress = store, progress
        self.outcome = CampaignOutcome()
        self._waiting: list[tuple[Path, BaseFileLock, dict[Cell, Future[float]]]] = []  # trained, not yet reported

    @cached_property
    def _machine(self) -> str:
        """The device that trains; cells on a cluster do not use the one of this process."""
        return device_name(self.options.device)

    @staticmethod
    @abstractmethod
    def score(trained: TrainedCell) -> None:
        """Write the results of a cell."""

    @abstractmethod
    def _work(self, group: CellGroup) -> Path:
        """The folder in which a group is trained."""

    @abstractmethod
    def recipe(self, group: CellGroup) -> AnyRecipe:
        """The recipe that a group is trained by."""

    def _metadata(self, recipe: AnyRecipe, labelled: LabelledSetting) -> dict[str, Any]:
        """Columns of the results. Raises before training if the results could not be stored."""
        return {}

    def _model_metrics(
        self, cell: Cell, gathered: SeedResult, recipe: AnyRecipe, labelled: LabelledSetting
    ) -> dict[str, float]:
        return {}

    def run(self, cells: Sequence[Cell]) -> CampaignOutcome:
        """Compute every cell that has no results yet. The seeds of a setting train together."""
        self.outcome.reused = [cell for cell in cells if self._store.has(cell)]
        self._remove_leftovers(self.outcome.reused)
        groups = group_cells([cell for cell in cells if cell not in self.outcome.reused])
        on_gpu = not self._machine.startswith("cpu")  # a device that is not there is refused before training
        self.progress.total(sum(model_epochs(group, self.recipe(group)) for group in groups))
        with ProcessPoolExecutor(PROCESSES, get_context("spawn")) if on_gpu else InlineExecutor() as pool:
            for group in groups:
                self._run_group(group, pool)
                self._collect(wait=False)
            self._collect(wait=True)
        return self.outcome

    def _remove_leftovers(self, done: Sequence[Cell]) -> None:
        """Delete the training of these cells that a process left when it was killed after scoring them."""
        for group in group_cells(done):
            work = self._work(group)
            if self.options.keep_dynamics or not _mark(work).exists():
                continue
            with contextlib.suppress(Timeout), FileLock(work.with_name(f"{work.name}.lock"), timeout=0):
                trained = {int(found[1]) for path in work.glob("*") if (found := SEED.match(path.name))}
                if all(self._store.has(group.cell(seed)) for seed in trained):
                    _remove(work)

    def _run_group(self, group: CellGroup, pool: Executor) -> None:
        """Train a group and have it scored, unless another process works on it. Its lock is held until then."""
        work = self._work(group)
        lock = self.lock(group)
        if lock is None:
            return
        trained = self._train(self.unfinished(group))  # another process may have finished some seeds meanwhile
        futures = {one.cell: pool.submit(_timed, self.score, one) for one in trained}
        self._waiting.append((work, lock, futures))

    def unfinished(self, group: CellGroup) -> CellGroup:
        """The group with the seeds that have no results yet; the others are reused."""
        done = [seed for seed in group.seeds if self._store.has(group.cell(seed))]
        self.outcome.reused += map(group.cell, done)
        return replace(group, seeds=tuple(seed for seed in group.seeds if seed not in done))

    def lock(self, group: CellGroup) -> BaseFileLock | None:
        """A lock on a group; None, and the group is skipped, if another process works on it."""
        work = self._work(group)
        work.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(work.with_name(f"{work.name}.lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            self.skip(group, "another process works on it")
            return None
        return lock

    def _collect(self, *, wait: bool) -> None:
        """Report the groups that are scored. With `wait`, wait for all of them."""
        for group in list(self._waiting):
            work, lock, futures = group
            if not wait and not all(future.done() for future in futures.values()):
                continue
            errors = {cell: future.exception() for cell, future in futures.items()}
            for cell, error in errors.items():
                if error is None:
                    self._store.publish(cell)
                    self.outcome.done.append(cell)
                    self.progress.say(f"{cell.name}: {self.verb} in {futures[cell].result():,.0f} s")
                else:
                    self.report_failure(cell, _describe(error))
            if futures and not any(errors.values()):
                if self.options.keep_dynamics:
                    _mark(work).unlink(missing_ok=True)
                else:
                    _remove(work)
            lock.release()
            self._waiting.remove(group)

    def _train(self, group: CellGroup) -> list[TrainedCell]:
        """Train a group. Errors are recorded, and the campaign goes on with the next group."""
        try:
            return self._trained_cells(group) if group.seeds else []
        except MissingDataError as error:
            self.skip(group, str(error))
        except Exception as error:
            for seed in group.seeds:
                self.report_failure(group.cell(seed), _describe(error))
        return []

    def _trained_cells(self, group: CellGroup) -> list[TrainedCell]:
        recipe = self.recipe(group)
        labelled = load_setting(group.setting.name, self.options.data_dir)
        reason = reason_to_skip(group, recipe, labelled, self._machine, self.results.folder)
        if reason is not None:
            self.skip(group, reason)
            return []
        metadata = self._metadata(recipe, labelled)
        for remark in labelled.data.remarks if not labelled.data.complete else ():
            self.progress.say(f"{group.name}: incomplete data: {remark}")
        self.progress.begin(group.name, model_epochs(group, recipe))
        start = time.monotonic()
        _mark(self._work(group)).touch()
        seeds = train_group(
            group,
            labelled,
            recipe,
            self.options.device,
            self._work(group),
            self.progress.advance,
            as_published=self.options.as_published,
        )
        seconds = (time.monotonic() - start) / len(group.seeds)
        self.progress.say(f"{group.name}: trained {recipe.epochs} epochs, {seconds:,.0f} s per seed")
        device = "cpu" if isinstance(recipe, BoostingRecipe) else self._machine.removesuffix(" auto")
        metadata |= {"device": device, "seconds": seconds}
        trained = []
        for gathered in seeds:
            cell = group.cell(gathered.seed)
            if gathered.dynamics is None or gathered.dynamics.path is None:
                self.report_failure(cell, gathered.stopped or "no dynamics")
                continue
            trained.append(
                TrainedCell(
                    cell,
                    gathered.dynamics.path,
                    recipe,
                    self._model_metrics(cell, gathered, recipe, labelled),
                    metadata,
                    self.options,
                    self.results.folder,
                    self._second_pass(group, gathered, recipe, labelled),
                )
            )
        return trained

    def _second_pass(
        self, group: CellGroup, gathered: SeedResult, recipe: AnyRecipe, labelled: LabelledSetting
    ) -> Path | None:
        """Train the second pass of a seed; None if none is wanted."""
        if self.options.looks == 1 or group.gathering == "out-of-sample":
            return None
        start = time.monotonic()
        path = train_second_pass(labelled, gathered, recipe, self.options.device, self._work(group))
        self.progress.say(f"{group.name} seed {gathered.seed}: second pass, {time.monotonic() - start:,.0f} s")
        return path

    def report_failure(self, cell: Cell, reason: str) -> None:
        """Record why a cell failed."""
        self._store.write_failure(cell, reason)
        self.outcome.failed[cell] = reason
        self.progress.say(f"{cell.name}: failed: {last_line(reason)}")

    def skip(self, group: CellGroup, reason: str) -> None:
        """Record why a group was not computed."""
        self.outcome.skipped |= {group.cell(seed): reason for seed in group.seeds}
        self.progress.say(f"{group.name}: skipped: {reason}")


def _timed(score: Callable[[TrainedCell], None], trained: TrainedCell) -> float:
    """Score a cell; the seconds that took."""
    start = time.monotonic()
    score(trained)
    return time.monotonic() - start


def model_epochs(group: CellGroup, recipe: AnyRecipe) -> int:
    """Epochs of all models of a group together."""
    return recipe.epochs * len(group.seeds) * (1 if group.gathering == "in-sample" else FOLDS)


def _describe(error: BaseException) -> str:
    """The message of an error that errata raised; the traceback of any other error."""
    return str(error) if isinstance(error, ErrataError) else "".join(traceback.format_exception(error))


def _mark(work: Path) -> Path:
    """A file beside the folder of a group: the folder is to be deleted when the group is scored."""
    return work.with_name(f"{work.name}.unfinished")


def _remove(work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)
    _mark(work).unlink(missing_ok=True)
