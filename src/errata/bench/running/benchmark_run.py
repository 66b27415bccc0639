"""Run benchmark cells: train a model, score its dynamics by every method, store numbers and scores."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.bench.plan import Cell, CellGroup
from errata.bench.results import RATE_METRICS, Results, as_json
from errata.bench.running.campaign import Campaign, CampaignProgress, RunOptions
from errata.bench.running.cell_training import dynamics_folder, test_accuracy
from errata.bench.running.plugins import plugin_methods
from errata.core import metrics
from errata.core.checks import Floats
from errata.core.default import DEFAULT, own_methods
from errata.core.methods import paper_methods, parse
from errata.datasets.loading import LabelledSetting, load_setting
from errata.dynamics.ranking import RunAnalysis, analyse, rates_table
from errata.dynamics.scoring import method_results
from errata.dynamics.store import Dynamics
from errata.training.recipes import AnyRecipe
from errata.version import installed_version

if TYPE_CHECKING:
    import pandas as pd

    from errata.training.jobs import SeedResult

Bools = NDArray[np.bool_]
RANKING_METRICS = ("auroc", "auprc")


@dataclass(frozen=True)
class ScoringJob:
    """A trained cell.

    model_metrics: metrics of the model itself, such as its test accuracy. metadata: where and how long it was trained.
    """

    cell: Cell
    dynamics: Path
    recipe: AnyRecipe
    methods: list[str]
    model_metrics: dict[str, float]
    metadata: dict[str, Any]
    data_dir: Path | None
    out: Path
    plugins: tuple[Path, ...]


class BenchmarkRun(Campaign):
    """Trains and scores cells."""

    verb = "scored"

    @staticmethod
    def score(job: ScoringJob) -> float:
        """Score a cell and write its results; the seconds that took."""
        start = time.monotonic()
        plugin_methods(job.plugins)  # a new process has not loaded them
        labelled = load_setting(job.cell.setting, job.data_dir)
        Results(job.out).write(job.cell, *score_cell(job, labelled, Dynamics.open(job.dynamics)))
        return time.monotonic() - start

    def __init__(self, out: Path, options: RunOptions, progress: CampaignProgress) -> None:
        # A broken plugin raises here, before anything is trained.
        self._extra_methods = (*options.methods, *plugin_methods(options.plugins))
        super().__init__(out, options, progress, Results(out))

    def _work(self, group: CellGroup) -> Path:
        return self.results.work(f"{group.setting.name}-{group.gathering}")

    def _recipe(self, group: CellGroup) -> AnyRecipe:
        return self.results.recipe(group.setting)

    def _job(
        self, cell: Cell, gathered: "SeedResult", recipe: AnyRecipe, labelled: LabelledSetting, metadata: dict[str, Any]
    ) -> ScoringJob:
        model_metrics = {}
        if cell.gathering == "in-sample" and len(labelled.data.test_labels):
            model_metrics["test_accuracy"] = test_accuracy(labelled, recipe, gathered, self.options.device)
        every = (*paper_methods(), *own_methods(), *map(parse, self._extra_methods))
        methods = dict.fromkeys(method.name for method in every if method.gathering == cell.gathering)
        return ScoringJob(
            cell=cell,
            dynamics=dynamics_folder(self.results.work(f"{cell.setting}-{cell.gathering}"), cell),
            recipe=recipe,
            methods=list(methods),
            model_metrics=model_metrics,
            metadata=metadata,
            data_dir=self.options.data_dir,
            out=self.results.folder,
            plugins=self.options.plugins,
        )


def score_cell(job: ScoringJob, labelled: LabelledSetting, dynamics: Dynamics) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Numbers (one row per method and metric) and scores (one row per sample whose truth is known) of a training.

    The numbers also contain estimates of the noise rate, with the kind of estimate as method, and one row with the
    metric `default` for the method that errata ranks these dynamics by. As in the paper, CTRL receives the number of
    wrong labels for its ranking, and chooses its operating point without it.
    """
    import pandas as pd

    rows = np.asarray(dynamics.ids)
    truth = labelled.truth[rows].astype(np.float64)
    known = ~np.isnan(truth)
    wrong = truth[known] == 1
    scores = pd.DataFrame({"id": rows[known], "given": labelled.given[rows][known], "truth": wrong})
    numbers = [{"method": "", "metric": metric, "value": value} for metric, value in job.model_metrics.items()]
    for name, result in method_results(dynamics, job.methods, budget=int(wrong.sum())).items():
        scores[name] = result.scores[known]
        numbers += [{"method": name} | number for number in _ranking_numbers(result.scores[known], wrong)]
        if result.flags is not None:
            numbers.append({"method": name} | _operating_point(result.flags[known], wrong))
    analysis = analyse(dynamics)
    numbers += rate_numbers(analysis)
    numbers.append({"method": analysis.method.name, "metric": DEFAULT, "value": 1.0})
    columns = {
        "setting": job.cell.setting,
        "gathering": job.cell.gathering,
        "seed": job.cell.seed,
        "parameters": as_json(asdict(job.recipe.with_seed(job.cell.seed)) | {"network": labelled.setting.network}),
        "samples": len(wrong),
        "noisy": int(wrong.sum()),
        "data_hash": labelled.data.content_hash,
        "label_hash": labelled.noise["hash"],
        "complete": labelled.data.complete,
        "version": installed_version(),
    }
    frame = pd.DataFrame(numbers).astype({"budget": "Int64", "value": "float64"})
    return frame.assign(**columns, **job.metadata), scores


def _ranking_numbers(scores: Floats, wrong: Bools) -> list[dict[str, Any]]:
    """The metrics of a ranking. Budgets are numbers of samples."""
    errors = int(wrong.sum())
    numbers: list[dict[str, Any]] = [{"metric": "fnr", "budget": errors, "value": metrics.fnr(scores, wrong)}]
    if 0 < errors < len(wrong):
        numbers += [{"metric": name, "value": getattr(metrics, name)(scores, wrong)} for name in RANKING_METRICS]
    return numbers


def _operating_point(flags: Bools, wrong: Bools) -> dict[str, Any]:
    """FNR of a method's own flags, with the number of flagged samples as budget."""
    value = metrics.fnr(flags.astype(np.float64), wrong, int(flags.sum()))
    return {"metric": "fnr_at_operating_point", "budget": int(flags.sum()), "value": value}


def rate_numbers(analysis: RunAnalysis) -> list[dict[str, Any]]:
    """The estimated noise rates, without those that these dynamics do not allow."""
    estimates = rates_table(analysis).dropna(subset=["rate"])
    return [
        {"method": row["kind"], "metric": metric, "value": row[column]}
        for row in estimates.to_dict("records")
        for column, metric in RATE_METRICS.items()
    ]
