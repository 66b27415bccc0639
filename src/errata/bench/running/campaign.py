"""What a benchmark run and a tuning run share: train groups of cells, score them, record failures."""

import shutil
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from errata.bench.plan import Cell, CellGroup, group_cells
from errata.bench.results import Results
from errata.bench.running.cell_training import device_name, train_group, training_device
from errata.bench.running.cost import FOLDS, reason_to_skip
from errata.bench.tuning_results import TuningResults
from errata.datasets.loading import LabelledSetting, load_setting
from errata.errors import ErrataError, MissingDataError
from errata.training.recipes import AnyRecipe

if TYPE_CHECKING:
    from errata.training.jobs import SeedResult

PROCESSES = 3  # score three seeds of a group in parallel


@dataclass(frozen=True)
class RunOptions:
    """Device, data folder, extra methods, plugin files, and whether the dynamics are kept after scoring."""

    device: str = "auto"
    data_dir: Path | None = None
    methods: tuple[str, ...] = ()
    plugins: tuple[Path, ...] = ()
    keep_dynamics: bool = False


class CampaignProgress(Protocol):
    """Receives the progress of a campaign."""

    def say(self, line: str) -> None:
        """Show a line about a cell or a group."""

    def begin(self, name: str, epochs: int) -> None:
        """The training of a group starts; epochs of all its models together."""

    def advance(self, epochs: int) -> None:
        """So many more epochs are trained."""


@dataclass
class CampaignOutcome:
    """Cells that were computed now, already there, failed or skipped; the last two with the reason."""

    done: list[Cell] = field(default_factory=list)
    reused: list[Cell] = field(default_factory=list)
    failed: dict[Cell, str] = field(default_factory=dict)
    skipped: dict[Cell, str] = field(default_factory=dict)

    def summary(self, what: str, where: Path) -> str:
        """The counts as one line, such as "3 cells done, ..."."""
        counts = f"{len(self.reused)} reused, {len(self.skipped)} skipped, {len(self.failed)} failed"
        return f"{len(self.done)} {what}, {counts}; results are in {where}"


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


class ScoringQueue:
    """Trained groups that wait to be scored.

    On a GPU machine, other processes score while the next group trains. On a CPU, training needs the cores, and cells
    are scored in this process.
    """

    def __init__(
        self,
        pool: Executor,
        score: Callable[[Any], float],
        on_done: Callable[[Cell, float], None],
        on_failure: Callable[[Cell, str], None],
    ) -> None:
        self._pool, self._score, self._on_done, self._on_failure = pool, score, on_done, on_failure
        self._waiting: list[tuple[dict[Cell, Future[float]], Callable[[bool], None]]] = []

    def submit(self, jobs: Mapping[Cell, Any], close: Callable[[bool], None]) -> None:
        """Score the cells of a group. `close` is then called with whether all succeeded."""
        self._waiting.append(({cell: self._pool.submit(self._score, job) for cell, job in jobs.items()}, close))

    def collect(self, *, wait: bool) -> None:
        """Report the groups that are scored. With `wait`, wait for all of them."""
        for group in list(self._waiting):
            futures, close = group
            if not wait and not all(future.done() for future in futures.values()):
                continue
            for cell, future in futures.items():
                error = future.exception()
                if error is None:
                    self._on_done(cell, future.result())
                else:
                    self._on_failure(cell, _describe(error))
            close(all(future.exception() is None for future in futures.values()))
            self._waiting.remove(group)


class Campaign(ABC):
    """Trains the cells that have no results yet, and has their dynamics scored."""

    verb: ClassVar[str]  # as in "seed0: scored in 3 s"

    def __init__(
        self, out: Path, options: RunOptions, progress: CampaignProgress, store: Results | TuningResults
    ) -> None:
        """store: where the results of this campaign are."""
        out.mkdir(parents=True, exist_ok=True)
        self.results, self.options = Results(out), options
        self._store, self._progress, self._machine = store, progress, device_name(options.device)
        self._outcome = CampaignOutcome()

    @staticmethod
    @abstractmethod
    def score(job: Any) -> float:
        """Write the results of a job; the seconds that took."""

    @abstractmethod
    def _work(self, group: CellGroup) -> Path:
        """The folder in which a group is trained."""

    @abstractmethod
    def _recipe(self, group: CellGroup) -> AnyRecipe: ...

    @abstractmethod
    def _job(
        self, cell: Cell, gathered: "SeedResult", recipe: AnyRecipe, labelled: LabelledSetting, metadata: dict[str, Any]
    ) -> Any:
        """The argument of `score` for a trained cell. metadata: device and seconds of the training."""

    def _check(self, group: CellGroup, recipe: AnyRecipe, labelled: LabelledSetting) -> None:  # noqa: B027
        """Raise before training if the results could not be stored."""

    def run(self, cells: Sequence[Cell]) -> CampaignOutcome:
        """Compute every cell that has no results yet. The seeds of a setting train together."""
        self._outcome.reused = [cell for cell in cells if self._store.has(cell)]
        on_gpu = not self._machine.startswith("cpu")
        pool = ProcessPoolExecutor(PROCESSES, get_context("spawn")) if on_gpu else InlineExecutor()
        with pool:
            queue = ScoringQueue(pool, type(self).score, self._report_done, self._report_failure)
            for group in group_cells([cell for cell in cells if cell not in self._outcome.reused]):
                self._run_group(group, queue)
                queue.collect(wait=False)
            queue.collect(wait=True)
        return self._outcome

    def epochs(self, cells: Sequence[Cell]) -> int:
        """Epochs still to train, summed over all models."""
        missing = group_cells([cell for cell in cells if not self._store.has(cell)])
        return sum(_model_epochs(group, self._recipe(group)) for group in missing)

    def _run_group(self, group: CellGroup, queue: ScoringQueue) -> None:
        """Train a group and submit it for scoring, unless another process works on it. Its lock is held until then."""
        from filelock import FileLock, Timeout

        work = self._work(group)
        work.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(work.with_name(f"{work.name}.lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            self._skip(group, "another process works on it")
            return

        def close(succeeded: bool) -> None:
            if succeeded and not self.options.keep_dynamics:
                shutil.rmtree(work, ignore_errors=True)
            lock.release()

        # Another process may have finished some seeds since this one checked.
        done = [seed for seed in group.seeds if self._store.has(group.cell(seed))]
        self._outcome.reused += map(group.cell, done)
        jobs = self._train(replace(group, seeds=tuple(seed for seed in group.seeds if seed not in done)))
        if jobs:
            queue.submit(jobs, close)
        else:
            lock.release()

    def _train(self, group: CellGroup) -> dict[Cell, Any]:
        """Train a group. Errors are recorded, and the campaign goes on with the next group."""
        try:
            return self._trained_jobs(group) if group.seeds else {}
        except MissingDataError as error:
            self._skip(group, str(error))
        except Exception as error:
            for seed in group.seeds:
                self._report_failure(group.cell(seed), _describe(error))
        return {}

    def _trained_jobs(self, group: CellGroup) -> dict[Cell, Any]:
        recipe = self._recipe(group)
        labelled = load_setting(group.setting.name, self.options.data_dir)
        reason = reason_to_skip(group, recipe, labelled, self._machine, self.results.folder)
        if reason is not None:
            self._skip(group, reason)
            return {}
        self._check(group, recipe, labelled)
        for remark in labelled.data.remarks if not labelled.data.complete else ():
            self._progress.say(f"{group.name}: incomplete data: {remark}")
        self._progress.begin(group.name, _model_epochs(group, recipe))
        start = time.monotonic()
        trained = train_group(group, labelled, recipe, self.options.device, self._work(group), self._progress.advance)
        seconds = (time.monotonic() - start) / len(group.seeds)
        self._progress.say(f"{group.name}: trained {recipe.epochs} epochs, {seconds:,.0f} s per seed")
        metadata = {"device": training_device(recipe, self._machine), "seconds": seconds}
        jobs = {}
        for gathered in trained:
            cell = group.cell(gathered.seed)
            if gathered.dynamics is None:
                self._report_failure(cell, gathered.stopped or "no dynamics")
            else:
                jobs[cell] = self._job(cell, gathered, recipe, labelled, metadata)
        return jobs

    def _report_done(self, cell: Cell, seconds: float) -> None:
        self._outcome.done.append(cell)
        self._progress.say(f"{cell.name}: {self.verb} in {seconds:,.0f} s")

    def _report_failure(self, cell: Cell, reason: str) -> None:
        self._store.write_failure(cell, reason)
        self._outcome.failed[cell] = reason
        self._progress.say(f"{cell.name}: failed: {reason.strip().splitlines()[-1]}")

    def _skip(self, group: CellGroup, reason: str) -> None:
        self._outcome.skipped |= {group.cell(seed): reason for seed in group.seeds}
        self._progress.say(f"{group.name}: skipped: {reason}")


def _model_epochs(group: CellGroup, recipe: AnyRecipe) -> int:
    """Epochs of all models of a group together."""
    return recipe.epochs * len(group.seeds) * (1 if group.gathering == "in-sample" else FOLDS)


def _describe(error: BaseException) -> str:
    """The message of an error that errata raised; the traceback of any other error."""
    return str(error) if isinstance(error, ErrataError) else "".join(traceback.format_exception(error))
