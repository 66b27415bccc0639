"""Run post-hoc tuning: train for longer, then tune windows and CTRL on a few samples of known truth."""

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.bench.plan import Cell, CellGroup, group_cells
from errata.bench.results import as_json
from errata.bench.running.campaign import Campaign, CampaignProgress, RunOptions
from errata.bench.running.cell_training import dynamics_folder
from errata.bench.running.tuning_candidates import SampleSplit, candidates, stopping_curve
from errata.bench.tuning_results import TuningResults
from errata.datasets.loading import LabelledSetting, load_setting
from errata.datasets.spec import Setting
from errata.dynamics.store import Dynamics
from errata.training.recipes import AnyRecipe
from errata.version import installed_version

if TYPE_CHECKING:
    from errata.training.jobs import SeedResult


@dataclass(frozen=True)
class TuningJob:
    """A seed that was trained for the longer horizon."""

    cell: Cell
    dynamics: Path
    recipe_epochs: int
    metadata: dict[str, Any]
    data_dir: Path | None
    out: Path


class TuningRun(Campaign):
    """Trains and tunes in-sample cells."""

    verb = "tuned"

    @staticmethod
    def score(job: TuningJob) -> float:
        """Evaluate every candidate on a seed and write the results; the seconds that took."""
        start = time.monotonic()
        dynamics = Dynamics.open(job.dynamics)
        split = SampleSplit.of(load_setting(job.cell.setting, job.data_dir), dynamics.ids)
        columns = {"setting": job.cell.setting, "seed": job.cell.seed, **job.metadata}
        found, curve = candidates(dynamics, split, job.recipe_epochs), stopping_curve(dynamics, split)
        TuningResults(job.out).add(job.cell, found.assign(**columns), curve.assign(**columns))
        return time.monotonic() - start

    def __init__(self, out: Path, options: RunOptions, progress: CampaignProgress) -> None:
        self._tuning = TuningResults(out)
        super().__init__(out, options, progress, self._tuning)

    def _work(self, group: CellGroup) -> Path:
        return self.results.work(f"{group.setting.name}-tuning")

    def _recipe(self, group: CellGroup) -> AnyRecipe:
        return longer_recipe(self.results.recipe(group.setting), group.setting)

    def _check(self, group: CellGroup, recipe: AnyRecipe, labelled: LabelledSetting) -> None:
        self._tuning.check(group.setting.name, self._metadata(recipe, labelled))

    def _job(
        self, cell: Cell, gathered: "SeedResult", recipe: AnyRecipe, labelled: LabelledSetting, metadata: dict[str, Any]
    ) -> TuningJob:
        (group,) = group_cells([cell])
        return TuningJob(
            cell=cell,
            dynamics=dynamics_folder(self._work(group), cell),
            recipe_epochs=self.results.recipe(group.setting).epochs,
            metadata=self._metadata(recipe, labelled) | metadata,
            data_dir=self.options.data_dir,
            out=self.results.folder,
        )

    def _metadata(self, recipe: AnyRecipe, labelled: LabelledSetting) -> dict[str, Any]:
        """What produced the results of a setting. `parameters` are those of the longer training."""
        parameters = asdict(recipe) | {"network": labelled.setting.network}
        del parameters["seed"]  # has its own column
        return {
            "epochs_of_recipe": self.results.recipe(labelled.setting).epochs,
            "horizon": recipe.epochs,
            "parameters": as_json(parameters),
            "data_hash": labelled.data.content_hash,
            "label_hash": labelled.noise["hash"],
            "complete": labelled.data.complete,
            "version": installed_version(),
        }


def longer_recipe(recipe: AnyRecipe, setting: Setting) -> AnyRecipe:
    """The recipe with more epochs: the paper's horizon for the setting's own recipe, else twice the epochs."""
    horizon = setting.horizon if recipe == setting.recipe else 0
    return replace(recipe, epochs=horizon or 2 * recipe.epochs)
