"""Run cells: train, score, keep; go on where a run was killed, and let no failure hide the others."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.bench.running.campaign import Campaign, Outcome, Watcher, recipe_of
from errata.bench.running.cell_scoring import score_cell
from errata.bench.running.cell_training import dynamics_folder, test_accuracy
from errata.bench.running.plan import Cell, Group
from errata.bench.running.plugins import plugin_methods
from errata.bench.running.results import Results
from errata.core.default import own_methods
from errata.core.methods import paper_methods, parse
from errata.datasets.labelled import Labelled, load_setting
from errata.dynamics.store import Dynamics
from errata.training.recipes import AnyRecipe

if TYPE_CHECKING:
    from errata.training.gather import SeedResult


@dataclass(frozen=True)
class How:
    """How cells are run: device, data folder, methods beyond the paper's, plugins, and whether dynamics are kept."""

    device: str = "auto"
    data_dir: Path | None = None
    methods: tuple[str, ...] = ()
    plugins: tuple[Path, ...] = ()
    keep_dynamics: bool = False


def run(cells: Sequence[Cell], out: Path, how: How, watcher: Watcher) -> Outcome:
    """Run every cell that is not there yet, seeds of a setting side by side."""
    return Run(out, how, watcher).run(cells)


@dataclass(frozen=True)
class ScoringJob:
    """A trained cell, as it is handed to another process."""

    cell: Cell
    dynamics: Path
    recipe: AnyRecipe
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


class Run(Campaign):
    """One call of `run`."""

    finished = "scored"
    make_results = score_and_keep

    def __init__(self, out: Path, how: How, watcher: Watcher) -> None:
        # A plugin that cannot be loaded is refused before anything is trained.
        self._methods, self._how = (*how.methods, *plugin_methods(how.plugins)), how
        super().__init__(out, watcher, how.device, how.data_dir, keep_dynamics=how.keep_dynamics)

    def has(self, cell: Cell) -> bool:
        """Whether the cell is scored."""
        return self.results.has(cell)

    def record_failure(self, cell: Cell, reason: str) -> None:
        """Keep the reason beside the results."""
        self.results.fail(cell, reason)

    def work_name(self, group: Group) -> str:
        """A folder a setting and gathering."""
        return f"{group.setting.name}-{group.gathering}"

    def recipe(self, group: Group) -> AnyRecipe:
        """As chosen for the setting, else its own."""
        return recipe_of(group, self.results)

    def check(self, group: Group, recipe: AnyRecipe, labelled: Labelled) -> None:
        """A cell can always be kept."""

    def job(
        self, cell: Cell, gathered: "SeedResult", recipe: AnyRecipe, labelled: Labelled, about: dict[str, Any]
    ) -> ScoringJob:
        """Score its dynamics by all methods; the model itself is tested here, where it was trained."""
        measured = {}
        if cell.gathering == "in-sample" and len(labelled.data.test_labels):
            measured["test_accuracy"] = test_accuracy(labelled, recipe, gathered, self._how.device)
        return ScoringJob(
            cell=cell,
            dynamics=dynamics_folder(self.results.work(f"{cell.setting}-{cell.gathering}"), cell),
            recipe=recipe,
            methods=methods_of(cell, self._methods),
            measured=measured,
            about=about,
            data_dir=self.data_dir,
            out=self.results.folder,
            plugins=self._how.plugins,
        )


def methods_of(cell: Cell, extra: Sequence[str]) -> list[str]:
    """The paper's methods for the gathering, errata's own, and those asked for besides."""
    every = (*paper_methods(), *own_methods(), *map(parse, extra))
    return list(dict.fromkeys(method.name for method in every if method.gathering == cell.gathering))
