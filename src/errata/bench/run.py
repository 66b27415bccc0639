"""Run cells: train, score, keep; go on where a run was killed, and let no failure hide the others."""

import shutil
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from errata.bench.cost import FOLDS, reason_to_skip
from errata.bench.plan import Cell, Group, groups
from errata.bench.results import Results
from errata.bench.scoring import score_cell
from errata.bench.training import choose_device, gather, test_accuracy
from errata.core.methods import parse
from errata.datasets.labelled import Labelled, load_setting
from errata.errors import ErrataError, MissingDataError
from errata.training.recipes import Recipe


@dataclass
class Outcome:
    """What became of the cells of a run: done now, found done, failed and skipped, the latter two with the reason."""

    done: list[Cell] = field(default_factory=list)
    reused: list[Cell] = field(default_factory=list)
    failed: dict[Cell, str] = field(default_factory=dict)
    skipped: dict[Cell, str] = field(default_factory=dict)


@dataclass(frozen=True)
class How:
    """How cells are run: device, data folder, methods beyond the paper's, and whether dynamics are kept."""

    device: str = "auto"
    data_dir: Path | None = None
    methods: tuple[str, ...] = ()
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
    results, outcome = Results(out), Outcome()
    out.mkdir(parents=True, exist_ok=True)
    for group in groups(cells):
        outcome.reused += [group.cell(seed) for seed in group.seeds if results.has(group.cell(seed))]
    for group in missing(cells, results):
        _run_group(group, results, how, outcome, watcher)
    return outcome


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


def _run_group(group: Group, results: Results, how: How, outcome: Outcome, watcher: Watcher) -> None:
    from filelock import FileLock, Timeout

    cells = [group.cell(seed) for seed in group.seeds]
    lock = results.work(f"{group.setting.name}-{group.gathering}.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lock, timeout=0):
            _run_alone(group, results, how, outcome, watcher)
    except Timeout:
        _skip(cells, "another process is at it", outcome, watcher)


def _run_alone(group: Group, results: Results, how: How, outcome: Outcome, watcher: Watcher) -> None:
    cells = [group.cell(seed) for seed in group.seeds]
    try:
        recipe = recipe_of(group, results)
        labelled = load_setting(group.setting.name, how.data_dir)
        device = choose_device(how.device)
        reason = reason_to_skip(group, recipe, labelled, device, results.folder)
        if reason is not None:
            _skip(cells, reason, outcome, watcher)
            return
        for remark in labelled.data.remarks if not labelled.data.complete else ():
            watcher.say(f"{group.name}: incomplete data: {remark}")
        _train_and_score(group, labelled, recipe, device, results, how, outcome, watcher)
    except MissingDataError as error:
        _skip(cells, str(error), outcome, watcher)
    except Exception as error:  # whatever it is, it is written down, and the other groups are run
        text = str(error) if isinstance(error, ErrataError) else "".join(traceback.format_exception(error))
        for cell in cells:
            if cell not in outcome.done:
                _fail(cell, text, results, outcome, watcher)


def _train_and_score(
    group: Group,
    labelled: Labelled,
    recipe: Recipe,
    device: str,
    results: Results,
    how: How,
    outcome: Outcome,
    watcher: Watcher,
) -> None:
    work = results.work(f"{group.setting.name}-{group.gathering}")
    watcher.begin(group.name, model_epochs(group, recipe))
    start = time.monotonic()
    trained = list(gather(group, labelled, recipe, how.device, work, watcher.advance))
    seconds = (time.monotonic() - start) / len(group.seeds)
    for gathered in trained:
        cell = group.cell(gathered.seed)
        if gathered.dynamics is None:
            _fail(cell, gathered.stopped or "no dynamics", results, outcome, watcher)
            continue
        start = time.monotonic()
        measured = {}
        if group.gathering == "in-sample" and len(labelled.data.test_labels):
            measured["test_accuracy"] = test_accuracy(labelled, recipe, gathered, how.device)
        about = {"device": device.removesuffix(" auto"), "seconds": seconds}
        methods = _methods(group, how.methods)
        numbers, scores = score_cell(cell, labelled, gathered.dynamics, recipe, methods, measured, about)
        results.write(cell, numbers, scores)
        outcome.done.append(cell)
        watcher.say(f"{cell.name}: trained in {seconds:,.0f} s, scored in {time.monotonic() - start:,.0f} s")
    if not how.keep_dynamics:
        shutil.rmtree(work, ignore_errors=True)


def _methods(group: Group, extra: Iterable[str]) -> list[str]:
    """The paper's methods for the gathering, and those asked for besides."""
    from errata.core.methods import paper_methods

    names = [method.name for method in (*paper_methods(), *map(parse, extra)) if method.gathering == group.gathering]
    return list(dict.fromkeys(names))


def _fail(cell: Cell, reason: str, results: Results, outcome: Outcome, watcher: Watcher) -> None:
    results.fail(cell, reason)
    outcome.failed[cell] = reason
    watcher.say(f"{cell.name}: failed: {reason.strip().splitlines()[-1]}")


def _skip(cells: Iterable[Cell], reason: str, outcome: Outcome, watcher: Watcher) -> None:
    for cell in cells:
        outcome.skipped[cell] = reason
        watcher.say(f"{cell.name}: skipped: {reason}")
