"""From the dynamics of a cell to its numbers and its per-sample scores."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.bench.evaluation.rate_scores import rate_numbers
from errata.bench.running.plan import Cell
from errata.bench.running.results import as_json
from errata.core import metrics
from errata.core.checks import Floats
from errata.core.default import DEFAULT
from errata.datasets.labelled import Labelled
from errata.dynamics.default import find_method
from errata.dynamics.scoring import verdicts
from errata.dynamics.store import Dynamics
from errata.training.recipes import AnyRecipe
from errata.version import installed_version

if TYPE_CHECKING:
    import pandas as pd

Bools = NDArray[np.bool_]
RANKING_METRICS = ("auroc", "auprc")


def score_cell(
    cell: Cell,
    labelled: Labelled,
    dynamics: Dynamics,
    recipe: AnyRecipe,
    methods: list[str] | None,
    measured: dict[str, float],
    about: dict[str, Any],
) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Numbers (a row a method and metric) and scores (a row a scored sample) of one training.

    Estimates of the noise rate are among the numbers, with the kind of estimate in place of a method, and which method
    errata would rank these dynamics by.

    Detection is scored on the samples whose truth is known; CTRL is told how many of these are wrong, as in the paper,
    but chooses its operating point by itself.
    measured: numbers of the model itself, such as its test accuracy. about: where and how long it was trained.
    """
    import pandas as pd

    rows = np.asarray(dynamics.ids)
    truth = labelled.truth[rows].astype(np.float64)
    known = ~np.isnan(truth)
    wrong = truth[known] == 1
    said = verdicts(dynamics, methods, budget=int(wrong.sum()))
    table = pd.DataFrame({"id": rows[known], "given": labelled.given[rows][known], "truth": wrong})
    numbers = [{"method": "", "metric": metric, "value": value} for metric, value in measured.items()]
    for name, verdict in said.items():
        table[name] = verdict.scores[known]
        numbers += [{"method": name} | number for number in _numbers(verdict.scores[known], wrong)]
        if verdict.flags is not None:
            numbers.append({"method": name} | _at_operating_point(verdict.flags[known], wrong))
    numbers += rate_numbers(dynamics)
    numbers.append({"method": find_method(dynamics, None).name, "metric": DEFAULT, "value": 1.0})
    columns = {
        "setting": cell.setting,
        "gathering": cell.gathering,
        "seed": cell.seed,
        "parameters": as_json(asdict(recipe.with_seed(cell.seed)) | {"network": labelled.setting.network}),
        "samples": len(wrong),
        "noisy": int(wrong.sum()),
        "data_hash": labelled.data.content_hash,
        "label_hash": labelled.noise["hash"],
        "complete": labelled.data.complete,
        "version": installed_version(),
    }
    frame = pd.DataFrame(numbers).astype({"budget": "Int64", "value": "float64"})
    return frame.assign(**columns, **about), table


def _numbers(scores: Floats, wrong: Bools) -> list[dict[str, Any]]:
    """The metrics of a ranking; those at a budget with that budget, in samples."""
    errors = int(wrong.sum())
    numbers: list[dict[str, Any]] = [{"metric": "fnr", "budget": errors, "value": metrics.fnr(scores, wrong)}]
    if 0 < errors < len(wrong):
        numbers += [{"metric": name, "value": getattr(metrics, name)(scores, wrong)} for name in RANKING_METRICS]
    return numbers


def _at_operating_point(flags: Bools, wrong: Bools) -> dict[str, Any]:
    """FNR where the method itself stops, and how many samples it flags."""
    value = metrics.fnr(flags.astype(np.float64), wrong, int(flags.sum()))
    return {"metric": "fnr_at_operating_point", "budget": int(flags.sum()), "value": value}
