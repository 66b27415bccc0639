"""What a run and a tuning share: groups trained one after the other, each behind a lock, each failure on its own."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from errata.bench.running.cell_training import choose_device, gather, trained_on
from errata.bench.running.cost import FOLDS, reason_to_skip
from errata.bench.running.plan import Cell, Group, groups
from errata.bench.running.results import Results
from errata.bench.running.scoring_queue import Desk, Job, describe, drop_folder, scoring_pool
from errata.datasets.labelled import Labelled, load_setting
from errata.errors import MissingDataError
from errata.training.recipes import AnyRecipe

if TYPE_CHECKING:
    from errata.training.gather import SeedResult


class Watcher(Protocol):
    """Told of what is going on; the command line shows it."""

    def say(self, line: str) -> None:
        """A line about a cell or a group."""

    def begin(self, name: str, epochs: int) -> None:
        """A group is trained, for that many epochs of all its models together."""

    def advance(self, epochs: int) -> None:
        """So many more of them are done."""


@dataclass
class Outcome:
    """What became of the cells: done now, found done, failed and skipped, the latter two with the reason."""

    done: list[Cell] = field(default_factory=list)
    reused: list[Cell] = field(default_factory=list)
    failed: dict[Cell, str] = field(default_factory=dict)
    skipped: dict[Cell, str] = field(default_factory=dict)


def model_epochs(group: Group, recipe: AnyRecipe) -> int:
    """Epochs of all models of a group together."""
    return recipe.epochs * len(group.seeds) * (1 if group.gathering == "in-sample" else FOLDS)


def recipe_of(group: Group, results: Results) -> AnyRecipe:
    """The recipe chosen for the setting in this folder, else the setting's own."""
    chosen = results.recipe_path(group.setting.name)
    return type(group.setting.recipe).load(chosen) if chosen.exists() else group.setting.recipe


class Campaign(ABC):
    """Trains the groups of some cells and hands their dynamics on, to be made into results."""

    finished: ClassVar[str]  # as in "seed0: scored in 3 s"
    make_results: ClassVar[Callable[[Any], float]]  # from a job to results on disk; the seconds it took

    def __init__(
        self, out: Path, watcher: Watcher, device: str, data_dir: Path | None, *, keep_dynamics: bool = False
    ) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self.results = Results(out)
        self._watcher, self._device, self.data_dir, self._keep = watcher, device, data_dir, keep_dynamics
        self._machine = choose_device(device)
        self._outcome = Outcome()

    @abstractmethod
    def has(self, cell: Cell) -> bool:
        """Whether the results of a cell are there."""

    @abstractmethod
    def record_failure(self, cell: Cell, reason: str) -> None:
        """Keep the reason why a cell has no results."""

    @abstractmethod
    def work_name(self, group: Group) -> str:
        """The name of the folder a group is trained in."""

    @abstractmethod
    def recipe(self, group: Group) -> AnyRecipe:
        """How the group is trained."""

    @abstractmethod
    def check(self, group: Group, recipe: AnyRecipe, labelled: Labelled) -> None:
        """Refuse before it is trained what could not be kept afterwards."""

    @abstractmethod
    def job(
        self, cell: Cell, gathered: "SeedResult", recipe: AnyRecipe, labelled: Labelled, about: dict[str, Any]
    ) -> Job:
        """What is to be made into the results of a cell; `about` says where and how long it was trained."""

    def run(self, cells: Sequence[Cell]) -> Outcome:
        """Every cell that is not there yet, seeds of a setting side by side."""
        self._outcome.reused = [cell for cell in cells if self.has(cell)]
        with scoring_pool(on_gpu=not self._machine.startswith("cpu")) as pool:
            desk = Desk(pool, type(self).make_results, self._done, self._fail)
            for group in groups([cell for cell in cells if cell not in self._outcome.reused]):
                self._take(group, desk)
                desk.collect(wait=False)
            desk.collect(wait=True)
        return self._outcome

    def epochs(self, cells: Sequence[Cell]) -> int:
        """Epochs of all models that are still to be trained."""
        missing = groups([cell for cell in cells if not self.has(cell)])
        return sum(model_epochs(group, self.recipe(group)) for group in missing)

    def work(self, group: Group) -> Path:
        """The folder a group is trained in."""
        return self.results.work(self.work_name(group))

    def _take(self, group: Group, desk: Desk) -> None:
        """Train a group and hand it in, unless another process is at it; its lock is held until there are results."""
        from filelock import FileLock, Timeout

        work = self.work(group)
        work.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(work.with_name(f"{work.name}.lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            self._skip(group, "another process is at it")
            return

        def close(well: bool) -> None:
            if well and not self._keep:
                drop_folder(work)
            lock.release()

        jobs = self._attempt(self._still_missing(group))
        if jobs:
            desk.hand_in(jobs, close)
        else:
            lock.release()

    def _still_missing(self, group: Group) -> Group:
        """The group without the seeds that another process finished since this one looked."""
        done = [seed for seed in group.seeds if self.has(group.cell(seed))]
        self._outcome.reused += map(group.cell, done)
        return replace(group, seeds=tuple(seed for seed in group.seeds if seed not in done))

    def _attempt(self, group: Group) -> list[Job]:
        """Train a group; whatever goes wrong is written down, and the other groups are trained."""
        try:
            return self._train(group) if group.seeds else []
        except MissingDataError as error:
            self._skip(group, str(error))
        except Exception as error:
            for seed in group.seeds:
                self._fail(group.cell(seed), describe(error))
        return []

    def _train(self, group: Group) -> list[Job]:
        recipe = self.recipe(group)
        labelled = load_setting(group.setting.name, self.data_dir)
        reason = reason_to_skip(group, recipe, labelled, self._machine, self.results.folder)
        if reason is not None:
            self._skip(group, reason)
            return []
        self.check(group, recipe, labelled)
        for remark in labelled.data.remarks if not labelled.data.complete else ():
            self._watcher.say(f"{group.name}: incomplete data: {remark}")
        self._watcher.begin(group.name, model_epochs(group, recipe))
        start = time.monotonic()
        trained = gather(group, labelled, recipe, self._device, self.work(group), self._watcher.advance)
        seconds = (time.monotonic() - start) / len(group.seeds)
        self._watcher.say(f"{group.name}: trained {recipe.epochs} epochs, {seconds:,.0f} s a seed")
        about = {"device": trained_on(recipe, self._machine), "seconds": seconds}
        jobs = []
        for gathered in trained:
            if gathered.dynamics is None:
                self._fail(group.cell(gathered.seed), gathered.stopped or "no dynamics")
            else:
                jobs.append(self.job(group.cell(gathered.seed), gathered, recipe, labelled, about))
        return jobs

    def _done(self, cell: Cell, seconds: float) -> None:
        self._outcome.done.append(cell)
        self._watcher.say(f"{cell.name}: {self.finished} in {seconds:,.0f} s")

    def _fail(self, cell: Cell, reason: str) -> None:
        self.record_failure(cell, reason)
        self._outcome.failed[cell] = reason
        self._watcher.say(f"{cell.name}: failed: {reason.strip().splitlines()[-1]}")

    def _skip(self, group: Group, reason: str) -> None:
        self._outcome.skipped |= {group.cell(seed): reason for seed in group.seeds}
        self._watcher.say(f"{group.name}: skipped: {reason}")
