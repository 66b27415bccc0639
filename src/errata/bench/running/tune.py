"""Post-hoc tuning: train for longer, then choose windows and CTRL's configuration on a few samples of known truth."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.bench.running.campaign import Campaign, Outcome, Watcher, recipe_of
from errata.bench.running.cell_training import dynamics_folder
from errata.bench.running.plan import Cell, Group, groups
from errata.bench.running.results import as_json
from errata.bench.running.tune_files import TuningFiles
from errata.bench.running.tune_search import Parts, candidates, stopping_curve
from errata.datasets.labelled import Labelled, load_setting
from errata.datasets.settings import Setting
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.training.recipes import AnyRecipe
from errata.version import installed_version

if TYPE_CHECKING:
    from errata.training.gather import SeedResult


@dataclass(frozen=True)
class TuningJob:
    """A seed that is trained for the longer horizon, as it is handed to another process."""

    cell: Cell
    dynamics: Path
    recipe_epochs: int
    about: dict[str, Any]
    data_dir: Path | None
    out: Path


def search_and_keep(job: TuningJob) -> float:
    """Try every option on a seed and write the results; returns the seconds it took."""
    start = time.monotonic()
    dynamics = Dynamics.open(job.dynamics)
    parts = Parts.of(load_setting(job.cell.setting, job.data_dir), dynamics.ids)
    columns = {"setting": job.cell.setting, "seed": job.cell.seed, **job.about}
    found, curve = candidates(dynamics, parts, job.recipe_epochs), stopping_curve(dynamics, parts)
    TuningFiles(job.out).add(job.cell, found.assign(**columns), curve.assign(**columns))
    return time.monotonic() - start


def longer(recipe: AnyRecipe, setting: Setting) -> AnyRecipe:
    """The recipe for the horizon of tuning: the paper's, where both are; else twice the epochs, as the paper says.

    Twice is also for a recipe that was chosen in the place of the setting's own, and for settings the paper has not.
    """
    papers = setting.horizon if recipe == setting.recipe else 0
    return replace(recipe, epochs=papers or 2 * recipe.epochs)


def tune(
    cells: Sequence[Cell], out: Path, watcher: Watcher, *, device: str = "auto", data_dir: Path | None = None
) -> Outcome:
    """Tune every cell that is not there yet, seeds of a setting side by side; cells are in-sample."""
    for cell in cells:
        if cell.gathering != "in-sample":
            raise InputError(f"{cell.name}: tuning is in-sample")
    return Tuning(out, watcher, device, data_dir).run(cells)


class Tuning(Campaign):
    """One call of `tune`."""

    finished = "tuned"
    make_results = search_and_keep

    def __init__(self, out: Path, watcher: Watcher, device: str, data_dir: Path | None) -> None:
        super().__init__(out, watcher, device, data_dir)
        self._files = TuningFiles(out)

    def has(self, cell: Cell) -> bool:
        """Whether the seed is tuned."""
        return self._files.has(cell)

    def record_failure(self, cell: Cell, reason: str) -> None:
        """Keep the reason beside the tuning."""
        self._files.fail(cell, reason)

    def work_name(self, group: Group) -> str:
        """A folder a setting."""
        return f"{group.setting.name}-tuning"

    def recipe(self, group: Group) -> AnyRecipe:
        """For the longer horizon."""
        return longer(recipe_of(group, self.results), group.setting)

    def check(self, group: Group, recipe: AnyRecipe, labelled: Labelled) -> None:
        """Seeds of one setting are of one recipe and of the same labels."""
        self._files.check(group.setting.name, self._about(group, recipe, labelled))

    def job(
        self, cell: Cell, gathered: "SeedResult", recipe: AnyRecipe, labelled: Labelled, about: dict[str, Any]
    ) -> TuningJob:
        """Search windows and configurations on its dynamics."""
        (group,) = groups([cell])
        own = recipe_of(group, self.results).epochs
        where = dynamics_folder(self.work(group), cell)
        everything = self._about(group, recipe, labelled) | about
        return TuningJob(cell, where, own, everything, self.data_dir, self.results.folder)

    def _about(self, group: Group, recipe: AnyRecipe, labelled: Labelled) -> dict[str, Any]:
        return _about(labelled, recipe, recipe_of(group, self.results).epochs)


def _about(labelled: Labelled, recipe: AnyRecipe, recipe_epochs: int) -> dict[str, Any]:
    """What produced the results of a setting; `parameters` are those of the longer training."""
    parameters = asdict(recipe) | {"network": labelled.setting.network}
    del parameters["seed"]  # has a column
    return {
        "epochs_of_recipe": recipe_epochs,
        "horizon": recipe.epochs,
        "parameters": as_json(parameters),
        "data_hash": labelled.data.content_hash,
        "label_hash": labelled.noise["hash"],
        "complete": labelled.data.complete,
        "version": installed_version(),
    }
