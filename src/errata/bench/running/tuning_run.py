"""Run post-hoc tuning: train for longer, then tune windows and CTRL on a few samples of known truth."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from errata.bench.plan import CellGroup
from errata.bench.results import as_json
from errata.bench.running.campaign import Campaign, CampaignProgress, RunOptions, TrainedCell
from errata.bench.running.tuning_candidates import SampleSplit, candidates, stopping_curve
from errata.bench.tuning_results import TuningResults
from errata.datasets.loading import LabelledSetting, load_setting
from errata.datasets.spec import Setting
from errata.dynamics.store import Dynamics
from errata.training.recipes import AnyRecipe
from errata.version import installed_version


class TuningRun(Campaign):
    """Trains and tunes in-sample cells."""

    verb = "tuned"

    def __init__(self, out: Path, options: RunOptions, progress: CampaignProgress) -> None:
        self._tuning = TuningResults(out)
        super().__init__(out, options, progress, self._tuning)

    @staticmethod
    def score(trained: TrainedCell) -> None:
        """Evaluate every candidate on a seed and write the results."""
        cell, dynamics = trained.cell, Dynamics.open(trained.dynamics)
        split = SampleSplit.of(load_setting(cell.setting, trained.options.data_dir), dynamics.ids)
        columns = {"setting": cell.setting, "seed": cell.seed, **trained.metadata}
        found = candidates(dynamics, split, trained.metadata["epochs_of_recipe"])
        TuningResults(trained.out).add(cell, found.assign(**columns), stopping_curve(dynamics, split).assign(**columns))

    def _work(self, group: CellGroup) -> Path:
        return self.results.work(f"{group.setting.name}-tuning")

    def _recipe(self, group: CellGroup) -> AnyRecipe:
        return longer_recipe(self.results.recipe(group.setting), group.setting)

    def _metadata(self, recipe: AnyRecipe, labelled: LabelledSetting) -> dict[str, Any]:
        """What produced the results of a setting. `parameters` are those of the longer training."""
        parameters = asdict(recipe) | {"network": labelled.setting.network}
        del parameters["seed"]  # has its own column
        metadata = {
            "epochs_of_recipe": self.results.recipe(labelled.setting).epochs,
            "horizon": recipe.epochs,
            "parameters": as_json(parameters),
            "data_hash": labelled.data.content_hash,
            "label_hash": labelled.noise["hash"],
            "complete": labelled.data.complete,
            "version": installed_version(),
        }
        self._tuning.check(labelled.setting.name, metadata)
        return metadata


def longer_recipe(recipe: AnyRecipe, setting: Setting) -> AnyRecipe:
    """The recipe with more epochs: the paper's horizon for the setting's own recipe, else twice the epochs."""
    horizon = setting.horizon if recipe == setting.recipe else 0
    return replace(recipe, epochs=horizon or 2 * recipe.epochs)
