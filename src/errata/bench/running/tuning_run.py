"""Post-hoc tuning: train for longer, then evaluate all windows of three methods and all configurations of CTRL.

Windows start and end on 50 equally spaced epochs of the longer training. CTRL uses the epochs of the setting's own
recipe. The paper did the same: where its tuning selects CTRL's own configuration, the tuned and the default FNR agree
to the last digit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from errata.bench.plan import CellGroup
from errata.bench.results import as_json
from errata.bench.running.campaign import Campaign, RunOptions, TrainedCell
from errata.bench.tuning_results import CLUSTERED_METHOD, WINDOWED_METHODS, TuningResults
from errata.core import ctrl, metrics
from errata.core.aggregations import CTRL
from errata.core.checks import Floats
from errata.core.jit import row_blocks
from errata.core.methods import Method, parse
from errata.core.replay import replay_arrays
from errata.core.windows import Window, epoch_grid, grid_windows, window_scores
from errata.datasets.loading import TUNING_FRACTIONS, LabelledSetting, load_setting
from errata.datasets.spec import Setting
from errata.dynamics.store import Dynamics
from errata.terminal import TrainingProgress
from errata.training.recipes import AnyRecipe
from errata.version import installed_version

Mask = NDArray[np.bool_]

CURVE_METHODS = (*WINDOWED_METHODS, "Mean-LM", "Last-LM")  # in the curve of FNR by stopping epoch
NO_TUNING = 0.0  # the tuning fraction of the default options
_SCORES_IN_MEMORY = 1 << 26  # window scores computed at once: half a GB


class TuningRun(Campaign):
    """Trains and tunes in-sample cells."""

    verb = "tuned"

    def __init__(self, out: Path, options: RunOptions, progress: TrainingProgress) -> None:
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

    def recipe(self, group: CellGroup) -> AnyRecipe:
        """The recipe of the setting, for more epochs."""
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


@dataclass(frozen=True, eq=False)
class SampleSplit:
    """How N samples are used, as masks (N,).

    wrong: False where the truth is unknown. tuning: by fraction, the samples that tuning may use.
    """

    wrong: Mask
    known: Mask
    tuning: Mapping[float, Mask]
    evaluation: Mask

    @classmethod
    def of(cls, labelled: LabelledSetting, rows: NDArray[np.int64]) -> "SampleSplit":
        """The split of the recorded rows of a setting."""
        truth = labelled.truth[rows].astype(np.float64)
        tuning = {fraction: labelled.tuning(fraction)[rows] for fraction in TUNING_FRACTIONS}
        return cls(truth == 1, ~np.isnan(truth), tuning, labelled.evaluation[rows])

    def why_not_tunable(self, fraction: float) -> str:
        """Why the tuning set of that fraction cannot be used; empty if it can."""
        wrong = self.wrong[self.tuning[fraction]]
        if not wrong.any():
            return "no wrong label to tune on"
        return "no right label to tune on" if wrong.all() else ""

    def fnr(self, scores: Floats, part: Mask) -> float:
        """FNR on a part of the samples, at the number of errors in it."""
        return metrics.fnr(scores[part], self.wrong[part])


class TuningOption(NamedTuple):
    """A candidate: its name, the number of epochs it uses, and its scores (N,)."""

    name: str
    width: int
    scores: Floats


def candidates(dynamics: Dynamics, split: SampleSplit, recipe_epochs: int) -> pd.DataFrame:
    """One row per tuning fraction, method and option: chosen, width, place, tuning_value and value.

    `value` is the FNR on the evaluation part, `tuning_value` that on the tuning set. At fraction 0, and where a tuning
    set cannot be used, the only option is the default: all epochs of the recipe, its last epoch, or CTRL's own choice.
    """
    rows: list[dict[str, Any]] = []
    for method in map(parse, WINDOWED_METHODS):
        end, one_epoch = recipe_epochs - 1, _reads_one_epoch(method)
        default = next(_window_options(dynamics, method, [(end, end) if one_epoch else (0, end)]))
        windows = (
            [(epoch, epoch) for epoch in epoch_grid(dynamics.epochs).tolist()]
            if one_epoch
            else grid_windows(dynamics.epochs)
        )
        rows += _rows(method.name, default, _window_options(dynamics, method, windows), split)
    rows += _rows(CLUSTERED_METHOD, *_ctrl_options(dynamics, split, recipe_epochs), split)
    table = pd.DataFrame(rows)
    counts = {fraction: int(split.wrong[tuned].sum()) for fraction, tuned in split.tuning.items()}
    return table.assign(
        tuning_value=table["tuning_value"].astype("Float64"),  # missing where nothing was tuned
        tuning_wrong=table["tuning_fraction"].map(counts | {NO_TUNING: 0}),
        evaluated=int(split.evaluation.sum()),
        noisy=int(split.wrong[split.evaluation].sum()),
    )


def _rows(
    method: str, default: TuningOption, options: Iterator[TuningOption], split: SampleSplit
) -> Iterator[dict[str, Any]]:
    base: dict[str, Any] = {"method": method, "tuning_value": None, "place": 0}
    untuned = base | {"width": default.width, "value": split.fnr(default.scores, split.evaluation)}
    yield untuned | {"tuning_fraction": NO_TUNING, "chosen": default.name}
    reasons = {fraction: split.why_not_tunable(fraction) for fraction in split.tuning}
    for fraction, reason in reasons.items():
        if reason:
            yield untuned | {"tuning_fraction": fraction, "chosen": f"{default.name} (default: {reason})"}
    for place, option in enumerate(options):
        tuned = base | {"chosen": option.name, "width": option.width, "place": place}
        tuned["value"] = split.fnr(option.scores, split.evaluation)
        for fraction in (fraction for fraction, reason in reasons.items() if not reason):
            tuning_value = split.fnr(option.scores, split.tuning[fraction])
            yield tuned | {"tuning_fraction": fraction, "tuning_value": tuning_value}


def _window_options(dynamics: Dynamics, method: Method, windows: list[Window]) -> Iterator[TuningOption]:
    for some in row_blocks(len(windows), max(1, _SCORES_IN_MEMORY // dynamics.samples)):
        scored = window_scores(dynamics.replayable(), method, windows[some])
        for (start, end), scores in zip(windows[some], scored, strict=True):
            name = str(end) if _reads_one_epoch(method) else f"{start}-{end}"
            yield TuningOption(name, end + 1 - start, scores)


def _reads_one_epoch(method: Method) -> bool:
    return method.reduction.aggregation.reads == "last epoch"


def _ctrl_options(
    dynamics: Dynamics, split: SampleSplit, recipe_epochs: int
) -> tuple[TuningOption, Iterator[TuningOption]]:
    """CTRL's own choice, which knows the number of wrong labels as in the benchmark, and all its configurations."""
    method = parse(CLUSTERED_METHOD)
    aggregation = method.reduction.aggregation
    assert isinstance(aggregation, CTRL)
    (rows,) = replay_arrays(dynamics.window((0, recipe_epochs - 1)).replayable(), [method])
    curves = ctrl.smoothed(rows["curve"], len(np.unique(dynamics.labels)), aggregation.smooth)
    votes = ctrl.votes(curves, dynamics.labels)
    (own,) = ctrl.select(curves, votes, rows["correct"], [int(split.wrong.sum())], aggregation.alpha)

    def option(configuration: ctrl.Configuration, counted: ctrl.Votes) -> TuningOption:
        name = f"{configuration.windows},{configuration.clusters},{configuration.selected}"
        return TuningOption(name, recipe_epochs, counted.astype(np.float64))

    return option(own.configuration, own.votes), map(option, ctrl.CONFIGURATIONS, votes)


def stopping_curve(dynamics: Dynamics, split: SampleSplit) -> pd.DataFrame:
    """FNR of methods that use the epochs 0 to `epoch`: `value` on all samples, `evaluation_value` on 90 % of them.

    The paper's figure shows `evaluation_value`.
    """
    windows = [(0, epoch) for epoch in epoch_grid(dynamics.epochs).tolist()]
    rows = [
        {
            "epoch": epoch,
            "method": method.name,
            "value": split.fnr(scores, split.known),
            "evaluation_value": split.fnr(scores, split.evaluation),
        }
        for method in map(parse, CURVE_METHODS)
        for (_, epoch), scores in zip(windows, window_scores(dynamics.replayable(), method, windows), strict=True)
    ]
    return pd.DataFrame(rows)
