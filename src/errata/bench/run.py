"""Run cells: train, score, keep; go on where a run was killed, and let no failure hide the others."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from errata.bench.cost import FOLDS, reason_to_skip
from errata.bench.desk import Desk, ScoringJob, describe, drop_folder, scoring_pool
from errata.bench.plan import Cell, Group, groups
from errata.bench.plugins import plugin_methods
from errata.bench.results import Results
from errata.bench.training import choose_device, dynamics_folder, gather, test_accuracy
from errata.core.methods import paper_methods, parse
from errata.datasets.labelled import Labelled, load_setting
from errata.errors import MissingDataError
from errata.training.recipes import Recipe

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from filelock import BaseFileLock


@dataclass
class Outcome:
    """What became of the cells of a run: done now, found done, failed and skipped, the latter two with the reason."""

    done: list[Cell] = field(default_factory=list)
    reused: list[Cell] = field(default_factory=list)
    failed: dict[Cell, str] = field(default_factory=dict)
    skipped: dict[Cell, str] = field(default_factory=dict)


@dataclass(frozen=True)
class How:
    """How cells are run: device, data folder, methods beyond the paper's, plugins, and whether dynamics are kept."""

    device: str = "auto"
    data_dir: Path | None = None
    methods: tuple[str, ...] = ()
    plugins: tuple[Path, ...] = ()
    keep_dynamics: bool = False


class Watcher(Protocol):
    """Told of what is going on; the command line shows it."""

    def say(self, line: str) -> None:
        """A line about a cell or a group."""

    def begin(self, name: str, epochs: int) -> None:
        """A group is trained, for that many epochs of all its models together."""

    def advance(self, epochs: int) -> None:
        """So many more of them are done."""


def run(cells: Sequence[Cell], out: Path, how: How, watcher: Watcher) -> Outcome:
    """Run every cell that is not there yet, seeds of a setting side by side."""
    plugin_methods(how.plugins)  # one that cannot be loaded is refused before anything is trained
    out.mkdir(parents=True, exist_ok=True)
    device = choose_device(how.device)
    with scoring_pool(on_gpu=not device.startswith("cpu")) as pool:
        return _Run(out, how, device, watcher).run(cells, pool)


def missing(cells: Sequence[Cell], results: Results) -> list[Group]:
    """What is still to be trained, seeds of a setting together."""
    return groups([cell for cell in cells if not results.has(cell)])


def model_epochs(group: Group, recipe: Recipe) -> int:
    """Epochs of all models of a group together."""
    return recipe.epochs * len(group.seeds) * (1 if group.gathering == "in-sample" else FOLDS)


def recipe_of(group: Group, results: Results) -> Recipe:
    """The recipe chosen for the setting in this folder, else the setting's own."""
    chosen = results.recipe_path(group.setting.name)
    return Recipe.load(chosen) if chosen.exists() else group.setting.recipe


class _Run:
    """One call of `run`."""

    def __init__(self, out: Path, how: How, device: str, watcher: Watcher) -> None:
        self._results, self._how, self._device, self._watcher = Results(out), how, device, watcher
        self._outcome = Outcome()

    def run(self, cells: Sequence[Cell], pool: "Executor") -> Outcome:
        """All groups, one after the other."""
        self._outcome.reused = [cell for cell in cells if self._results.has(cell)]
        self._desk = Desk(pool, self._done, self._fail)
        for group in missing(cells, self._results):
            self._run_group(group)
            self._desk.collect(wait=False)
        self._desk.collect(wait=True)
        return self._outcome

    def _run_group(self, group: Group) -> None:
        """Train a group and hand it in, unless another process is at it; the lock is held until it is scored."""
        from filelock import FileLock, Timeout

        lock = FileLock(self._results.work(f"{_file_name(group)}.lock"))
        self._results.work("").mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            self._skip(group, "another process is at it")
            return
        handed_in = False
        try:
            jobs = self._trained(group)
            if jobs:
                self._desk.hand_in(jobs, lambda well: self._close(group, lock, well))
                handed_in = True
        except MissingDataError as error:
            self._skip(group, str(error))
        except Exception as error:  # whatever it is, it is written down, and the other groups are run
            for seed in group.seeds:
                self._fail(group.cell(seed), describe(error))
        finally:
            if not handed_in:
                lock.release()

    def _trained(self, group: Group) -> list[ScoringJob]:
        """Train all seeds; those that have dynamics are to be scored."""
        recipe = recipe_of(group, self._results)
        labelled = load_setting(group.setting.name, self._how.data_dir)
        reason = reason_to_skip(group, recipe, labelled, self._device, self._results.folder)
        if reason is not None:
            self._skip(group, reason)
            return []
        for remark in labelled.data.remarks if not labelled.data.complete else ():
            self._watcher.say(f"{group.name}: incomplete data: {remark}")
        return self._train(group, recipe, labelled)

    def _train(self, group: Group, recipe: Recipe, labelled: Labelled) -> list[ScoringJob]:
        work = self._results.work(_file_name(group))
        self._watcher.begin(group.name, model_epochs(group, recipe))
        start = time.monotonic()
        trained = gather(group, labelled, recipe, self._how.device, work, self._watcher.advance)
        seconds = (time.monotonic() - start) / len(group.seeds)
        self._watcher.say(f"{group.name}: trained, {seconds:,.0f} s a seed")
        about = {"device": self._device.removesuffix(" auto"), "seconds": seconds}
        jobs = []
        for gathered in trained:
            cell = group.cell(gathered.seed)
            if gathered.dynamics is None:
                self._fail(cell, gathered.stopped or "no dynamics")
                continue
            measured = {}
            if group.gathering == "in-sample" and len(labelled.data.test_labels):
                measured["test_accuracy"] = test_accuracy(labelled, recipe, gathered, self._how.device)
            where = dynamics_folder(work, cell)
            jobs.append(
                ScoringJob(
                    cell=cell,
                    dynamics=where,
                    recipe=recipe,
                    methods=_methods(group, (*self._how.methods, *plugin_methods(self._how.plugins))),
                    measured=measured,
                    about=about,
                    data_dir=self._how.data_dir,
                    out=self._results.folder,
                    plugins=self._how.plugins,
                )
            )
        return jobs

    def _close(self, group: Group, lock: "BaseFileLock", well: bool) -> None:
        if well and not self._how.keep_dynamics:
            drop_folder(self._results.work(_file_name(group)))
        lock.release()

    def _done(self, cell: Cell, seconds: float) -> None:
        self._outcome.done.append(cell)
        self._watcher.say(f"{cell.name}: scored in {seconds:,.0f} s")

    def _fail(self, cell: Cell, reason: str) -> None:
        self._results.fail(cell, reason)
        self._outcome.failed[cell] = reason
        self._watcher.say(f"{cell.name}: failed: {reason.strip().splitlines()[-1]}")

    def _skip(self, group: Group, reason: str) -> None:
        self._outcome.skipped |= {group.cell(seed): reason for seed in group.seeds}
        self._watcher.say(f"{group.name}: skipped: {reason}")


def _file_name(group: Group) -> str:
    return f"{group.setting.name}-{group.gathering}"


def _methods(group: Group, extra: Iterable[str]) -> list[str]:
    """The paper's methods for the gathering, and those asked for besides."""
    names = [method.name for method in (*paper_methods(), *map(parse, extra)) if method.gathering == group.gathering]
    return list(dict.fromkeys(names))
