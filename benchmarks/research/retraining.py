"""Detectors that retrain models, on tables: held-out folds, INCV, SELF, and a detector trained on injected errors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import candidates
import tried
from errata.core.checks import Floats
from errata.core.smoothing import KNN
from errata.dynamics.store import Dynamics
from runs import KeptSpaces, Run, reduce_run, run_of

if TYPE_CHECKING:
    from errata.training.jobs import TrainingJob
    from errata.training.model_inputs import TableInputs
    from errata.training.recipes import Recipe

INCV_ROUNDS = 3
SELF_ROUNDS = 3
FOLDS = 4
NEIGHBOURLY = ("neighbours' probabilities", "neighbours' labels")
INJECTED = 0.05
FIRST_INJECTION = 1000  # differs from the noise seeds of the settings: the same seed would flip the same samples


@dataclass(frozen=True)
class Retrained:
    """A detector that trains `models` models in all. score: from a run and its table to scores (N,) by name."""

    name: str
    models: int
    score: "Callable[[Run, TableInputs], dict[str, Floats]]"


def held_out(run: Run, table: "TableInputs") -> Run:
    """The same run, with every sample predicted by the model that was not trained on it."""
    from errata.training.gather import gather

    recipe = recipe_of(run)
    (gathered,) = gather(
        table, run.labels, run.classes, recipe.widths, recipe, folds=FOLDS, seeds=(run.seed,), device="cpu"
    )
    return _again(run, gathered.dynamics)


def incv(run: Run, table: "TableInputs") -> Run:
    """A run on the samples that iterative cross-validation (Chen et al. 2019) selects; it predicts all samples.

    In every round a model trains on the selected samples and one half of the rest. Of the other half, samples whose
    label it predicts at its last epoch are selected. Not implemented: the removal of the largest losses in each round.
    """
    from errata.core.held_out_models import assign_folds
    from errata.training.jobs import TrainingJob

    kept = np.zeros(len(run.labels), dtype=np.bool_)
    for number in range(INCV_ROUNDS):
        rest = np.flatnonzero(~kept)
        if len(rest) < 2:
            break
        half = assign_folds(run.labels[rest], 2)
        recipe = recipe_of(run)
        jobs = [
            TrainingJob(
                f"round{number}-half{one}",
                recipe,
                np.union1d(np.flatnonzero(kept), rest[half != one]),
                rest[half == one],
            )
            for one in (0, 1)
        ]
        for job, dynamics in zip(jobs, _train(jobs, run, table), strict=True):
            assert dynamics.logits is not None
            kept[job.watched[dynamics.logits[-1].argmax(axis=1) == run.labels[job.watched]]] = True
    return _trained_on(run, table, kept)


def self_filtered(run: Run, table: "TableInputs") -> Run:
    """A run on the samples that SELF (Nguyen et al. 2020) selects; it predicts all samples.

    Samples whose label agrees with the moving average of the predictions are selected, again after each run on the
    selected samples. Not implemented: the averaged teacher network and its loss on the other samples.
    """
    for _ in range(SELF_ROUNDS):
        run = _trained_on(run, table, run.scores["EMA-LM"] < 0)
    return run


def learned_on_flips(run: Run, table: "TableInputs") -> dict[str, Floats]:
    """Scores (N,) of detectors that were trained on another run to recognise injected label errors."""
    from errata.core.metrics import auroc
    from errata.core.noise import inject, symmetric_matrix
    from errata.training.gather import gather
    from errata.training.jobs import TrainingOptions

    flipped = inject(run.labels, symmetric_matrix(run.classes, INJECTED), seed=FIRST_INJECTION + run.seed)
    recipe = recipe_of(run)
    common = (table, flipped.labels, run.classes, recipe.widths, recipe)
    (gathered,) = gather(*common, seeds=(run.seed,), options=TrainingOptions(swa=False, features=True), device="cpu")
    assert gathered.dynamics is not None
    context = KeptSpaces(gathered.dynamics.features, gathered.dynamics.inputs)
    lesson = run_of(run.setting, run.seed, flipped.labels, reduce_run(gathered.dynamics), context)
    neighbourly = [one for one in tried.all_candidates() if one.family in NEIGHBOURLY]
    best = max(neighbourly, key=lambda one: auroc(one.score(lesson), flipped.truth))
    return {
        "logistic regression on three evidences": _logistic(three_evidences, lesson, run, flipped.truth),
        "logistic regression on seven": _logistic(seven_evidences, lesson, run, flipped.truth),
        "the kNN that finds them best": best.score(run),
    }


def _logistic(evidences: Callable[[Run], Floats], lesson: Run, run: Run, truth: NDArray[np.bool_]) -> Floats:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    detector = make_pipeline(StandardScaler(), LogisticRegression()).fit(evidences(lesson), truth)
    return np.asarray(detector.decision_function(evidences(run)))


def three_evidences(run: Run) -> Floats:
    """MeanProb-LM and the margins of the neighbours' labels in both spaces, (N, 3)."""
    near = [candidates.smoothed(run, KNN(10, 0.0, 1.0, points)) for points in ("inputs", "features")]
    return np.column_stack([candidates.alone(run), *near])


def seven_evidences(run: Run) -> Floats:
    """In addition two measures of the sample and the margins of neighbour probabilities in both spaces, (N, 7)."""
    near = [candidates.smoothed(run, KNN(10, 0.0, 0.0, points)) for points in ("inputs", "features")]
    return np.column_stack([three_evidences(run), run.scores["Mean-CE"], run.scores["Mean-CPD"], *near])


def recipe_of(run: Run) -> "Recipe":
    """The recipe of a run."""
    from errata.training.recipes import Recipe

    values = {name: value for name, value in run.recipe.items() if name != "when"}
    schedule = tuple((int(start), float(factor)) for start, factor in values.pop("schedule"))
    return Recipe(**values | {"schedule": schedule, "widths": tuple(values["widths"])})


def _trained_on(run: Run, table: "TableInputs", kept: NDArray[np.bool_]) -> Run:
    from errata.training.jobs import TrainingJob

    everyone = np.arange(len(run.labels))
    (dynamics,) = _train([TrainingJob(f"seed{run.seed}", recipe_of(run), everyone[kept], everyone)], run, table)
    return _again(run, dynamics)


def _train(jobs: "Sequence[TrainingJob]", run: Run, table: "TableInputs") -> list[Dynamics]:
    from errata.training.engine import train
    from errata.training.gather import executor_for
    from errata.training.jobs import TrainingOptions

    make = executor_for(recipe_of(run).widths, table, run.labels, run.classes, "cpu", keep_passes=False)
    trained = train(jobs, run.labels, make, TrainingOptions("after epoch", swa=False))
    stopped = [one.stopped for one in trained if one.stopped is not None]
    if stopped:
        raise RuntimeError(stopped[0])
    return [one.dynamics for one in trained if one.dynamics is not None]


def _again(run: Run, dynamics: Dynamics | None) -> Run:
    """The run with other dynamics and the same neighbours."""
    assert dynamics is not None
    return run_of(run.setting, run.seed, run.labels, reduce_run(dynamics), run.context, run.recipe)


def _then(retrain: "Callable[[Run, TableInputs], Run]", run: Run, table: "TableInputs") -> dict[str, Floats]:
    again = retrain(run, table)
    return {"MeanProb-LM": candidates.alone(again), "the default": candidates.default(again)}


def _self(run: Run, table: "TableInputs") -> dict[str, Floats]:
    again = self_filtered(run, table)
    return {"EMA-LM": again.scores["EMA-LM"], "the default": candidates.default(again)}


RETRAINED = (
    Retrained("held-out folds", FOLDS, partial(_then, held_out)),
    Retrained("INCV", 2 * INCV_ROUNDS + 1, partial(_then, incv)),
    Retrained("SELF", 1 + SELF_ROUNDS, _self),
    Retrained("injected flips", 2, learned_on_flips),
)
