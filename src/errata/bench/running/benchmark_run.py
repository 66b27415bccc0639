"""Run benchmark cells: train a model, score its dynamics by every method, store numbers and scores."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from errata.bench.plan import Cell, CellGroup
from errata.bench.results import RATE_METRICS, Results, as_json
from errata.bench.running.as_published import published_method, published_recipe
from errata.bench.running.campaign import Campaign, RunOptions, TrainedCell
from errata.bench.running.cell_training import test_accuracy
from errata.core import metrics
from errata.core.composed_method import ComposedMethod
from errata.core.default import (
    DEFAULT,
    MEAN_OF_ALL_EPOCHS,
    MEAN_OF_EARLY_EPOCHS,
    WITH_FEATURES,
    WITH_INPUTS,
    WITH_INPUTS_FROM_SUMS,
    parse_or_default,
)
from errata.core.method_registry import load_file, load_plugins
from errata.core.methods import Method, paper_methods, parse
from errata.core.sample_context import SampleContext
from errata.datasets.loading import LabelledSetting, load_setting
from errata.datasets.registry import setting as find_setting
from errata.dynamics.ranking import RunAnalysis, analyse, rates_table, second_pass_helps, with_second_pass
from errata.dynamics.scoring import method_results
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.terminal import TrainingProgress
from errata.training.jobs import SeedResult
from errata.training.recipes import AnyRecipe
from errata.version import installed_version

TWO_PASSES = "fnr_two_passes"
"""The metric of --looks 2, stored with the default method: the FNR of both passes together."""


class BenchmarkRun(Campaign):
    """Trains and scores cells."""

    verb = "scored"

    def __init__(
        self, out: Path, options: RunOptions, progress: TrainingProgress, results: Results | None = None
    ) -> None:
        """results: in the folder `out`, by default those that stay in it."""
        plugin_methods(options.plugins)  # a broken plugin raises before anything is trained
        self.store = results or Results(out)
        super().__init__(out, options, progress, self.store)

    @staticmethod
    def score(trained: TrainedCell) -> None:
        """Score a cell and write its results."""
        plugins = plugin_methods(trained.options.plugins)  # a new process has not loaded them
        context = Dynamics.open(trained.dynamics).context
        own = () if trained.options.as_published else methods_besides_the_papers(context)
        every = (*paper_methods(), *own, *map(parse, (*trained.options.methods, *plugins)))
        methods = {method.name: method for method in every if method.gathering == trained.cell.gathering}
        if trained.options.as_published:
            dataset = find_setting(trained.cell.setting).dataset
            methods = {name: published_method(method, dataset) for name, method in methods.items()}
        Results(trained.out).write(trained.cell, *_score_cell(trained, methods))

    def _work(self, group: CellGroup) -> Path:
        return self.results.work(f"{group.setting.name}-{group.gathering}")

    def recipe(self, group: CellGroup) -> AnyRecipe:
        """The recipe that was found, the published one, or that of the setting."""
        default = published_recipe(group.setting) if self.options.as_published else group.setting.recipe
        return self.results.recipe(group.setting, default)

    def _model_metrics(
        self, cell: Cell, gathered: SeedResult, recipe: AnyRecipe, labelled: LabelledSetting
    ) -> dict[str, float]:
        if cell.gathering == "out-of-sample" or not len(labelled.data.test_labels):
            return {}
        as_published = self.options.as_published
        return {
            "test_accuracy": test_accuracy(labelled, recipe, gathered, self.options.device, as_published=as_published)
        }


def plugin_methods(files: Iterable[Path] = ()) -> tuple[str, ...]:
    """Load the files and every installed plugin; the names in their `METHODS`. A file must list one or more.

    The default is left out: it always runs.
    """
    listed = {f"the plugin {name!r}": getattr(module, "METHODS", ()) for name, module in load_plugins().items()}
    for file in files:
        listed[str(file)] = getattr(load_file(Path(file)), "METHODS", ())
        if not listed[str(file)]:
            raise InputError(f"{file} has no METHODS, a list of the names of methods to run")
    names: list[str] = []
    for where, methods in listed.items():
        try:
            names += [method.name for method in map(parse_or_default, methods) if method is not None]
        except InputError as error:
            raise InputError(f"METHODS of {where}: {error}") from error
    return tuple(dict.fromkeys(names))


def _score_cell(trained: TrainedCell, methods: Mapping[str, Method]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Numbers (one row per method and metric) and scores (one row per sample whose truth is known) of a training.

    methods: by the name under which their results are stored. Unless trained as published, the numbers also contain
    estimates of the noise rate, with the kind of estimate as method, and one row with the metric `default` for the
    method that errata ranks these dynamics by. As in the paper, CTRL receives the number of wrong labels for its
    ranking, and chooses its operating point without it. Budgets are numbers of samples.
    """
    dynamics = Dynamics.open(trained.dynamics)
    labelled = load_setting(trained.cell.setting, trained.options.data_dir)
    rows = np.asarray(dynamics.ids)
    truth = labelled.truth[rows].astype(np.float64)
    known = ~np.isnan(truth)
    wrong = truth[known] == 1
    errors = int(wrong.sum())
    numbers: list[dict[str, Any]] = []

    def add(method: str, metric: str, value: float, budget: int | None = None) -> None:
        budgets = {} if budget is None else {"budget": budget}
        numbers.append({"method": method, "metric": metric, **budgets, "value": value})

    scores = pd.DataFrame({"id": rows[known], "given": labelled.given[rows][known], "truth": wrong})
    for metric, value in trained.model_metrics.items():
        add("", metric, value)
    results = method_results(dynamics, [method.name for method in methods.values()], budget=errors)
    for name, result in zip(methods, results.values(), strict=True):
        scores[name] = result.scores[known]
        add(name, "fnr", metrics.fnr(result.scores[known], wrong), errors)
        if 0 < errors < len(wrong):
            add(name, "auroc", metrics.auroc(result.scores[known], wrong))
            add(name, "auprc", metrics.auprc(result.scores[known], wrong))
        if result.flags is not None:
            flags = result.flags[known].astype(np.float64)
            flagged = int(flags.sum())
            add(name, "fnr_at_operating_point", metrics.fnr(flags, wrong, flagged), flagged)
    if not trained.options.as_published:
        analysis = analyse(dynamics)
        numbers += rate_numbers(analysis)
        add(analysis.method.name, DEFAULT, 1.0)
        if trained.second is not None:
            helps = second_pass_helps(analysis)
            ranked = with_second_pass(analysis, Dynamics.open(trained.second)) if helps else analysis
            both = ranked.result.scores
            add(analysis.method.name, TWO_PASSES, metrics.fnr(both[known], wrong), errors)
    columns = {
        "setting": trained.cell.setting,
        "gathering": trained.cell.gathering,
        "seed": trained.cell.seed,
        "parameters": as_json(
            asdict(trained.recipe.with_seed(trained.cell.seed))
            | {"network": labelled.setting.network}
            | ({"as_published": True} if trained.options.as_published else {})
        ),
        "samples": len(wrong),
        "noisy": errors,
        "data_hash": labelled.data.content_hash,
        "label_hash": labelled.noise["hash"],
        "complete": labelled.data.complete,
        "version": installed_version(),
    }
    frame = pd.DataFrame(numbers).astype({"budget": "Int64", "value": "float64"})
    return frame.assign(**columns, **trained.metadata), scores


def rate_numbers(analysis: RunAnalysis) -> list[dict[str, Any]]:
    """The estimated noise rates, without those that these dynamics do not allow."""
    estimates = rates_table(analysis).dropna(subset=["rate"])
    return [
        {"method": row["kind"], "metric": metric, "value": row[column]}
        for row in estimates.to_dict("records")
        for column, metric in RATE_METRICS.items()
    ]


def methods_besides_the_papers(context: SampleContext) -> list[Method]:
    """The methods that the benchmark runs beside the paper's: every default, and neighbours without unmixing.

    context: what is known about the samples; methods that need more are left out.
    """
    not_unmixed = ("kNN-MeanProb-LM", "kNN-RampProb-LM")
    names = (*not_unmixed, MEAN_OF_ALL_EPOCHS, MEAN_OF_EARLY_EPOCHS, WITH_INPUTS_FROM_SUMS, WITH_FEATURES, WITH_INPUTS)
    methods = map(parse, names)
    return [
        method
        for method in methods
        if isinstance(method, ComposedMethod) and all(step.can_apply(context) for step in method.steps)
    ]
