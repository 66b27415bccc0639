"""What post-hoc tuning can choose from in one training: every window of three methods, every configuration of CTRL.

Windows start and end on 50 equally spaced epochs of the longer training. CTRL is clustered over the epochs of the
setting's own recipe: the paper's tuned FNR of CTRL equals its default FNR to the last digit wherever its tuning ends
at the configuration that CTRL chooses by itself, so the epochs were the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from errata.core import ctrl, metrics
from errata.core.aggregations import CTRL
from errata.core.checks import Floats
from errata.core.jit import row_blocks
from errata.core.methods import Method, parse
from errata.core.replay import ask
from errata.core.windows import Window, epoch_grid, grid_windows, window_scores
from errata.datasets.labelled import TUNING_FRACTIONS, Labelled
from errata.dynamics.store import Dynamics

if TYPE_CHECKING:
    import pandas as pd

Mask = NDArray[np.bool_]


WINDOWED = tuple(map(parse, ("Last-CE", "Mean-CE", "MeanProb-LM")))
CLUSTERED = parse("CTRL-CE")
STOPPED = (*WINDOWED, *map(parse, ("Mean-LM", "Last-LM")))
"""Methods whose FNR is followed over the epoch at which training stops."""

NO_TUNING = 0.0
"""The tuning fraction of the defaults."""

_NUMBERS_AT_ONCE = 1 << 26  # scores of windows that are held together: half a GB


@dataclass(frozen=True, eq=False)
class Parts:
    """What is known of the N samples of a run, and for what: each (N,).

    wrong: False where it is not known. tuning: by fraction, the samples that may be looked at to choose.
    """

    wrong: Mask
    known: Mask
    tuning: Mapping[float, Mask]
    evaluation: Mask

    @classmethod
    def of(cls, labelled: Labelled, rows: NDArray[np.int64]) -> "Parts":
        """Of the rows of a setting that a run has recorded."""
        truth = labelled.truth[rows].astype(np.float64)
        tuning = {fraction: labelled.tuning(fraction)[rows] for fraction in TUNING_FRACTIONS}
        return cls(truth == 1, ~np.isnan(truth), tuning, labelled.evaluation[rows])

    def unfit(self, fraction: float) -> str:
        """Why nothing can be chosen on the tuning set of that fraction, or nothing if it can."""
        wrong = self.wrong[self.tuning[fraction]]
        if not wrong.any():
            return "no wrong label to tune on"
        return "no right label to tune on" if wrong.all() else ""

    def fnr(self, scores: Floats, part: Mask) -> float:
        """FNR on a part of the samples, at as many of them as are wrong."""
        return metrics.fnr(scores[part], self.wrong[part])


class Option(NamedTuple):
    """Something to choose: as it is written, how many epochs it spans, and its scores (N,)."""

    chosen: str
    width: int
    scores: Floats


def candidates(dynamics: Dynamics, parts: Parts, recipe_epochs: int) -> "pd.DataFrame":
    """A row a tuning fraction, method and option: chosen, width, place, tuning_value and value, both FNR.

    `value` is on the evaluation part, `tuning_value` on the tuning set. At fraction 0, and where a tuning set is unfit,
    the only option is the default, which nobody tuned: the whole window of the recipe's epochs, its last epoch, or what
    CTRL chooses by itself.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for method in WINDOWED:
        default = _default_window(dynamics, method, recipe_epochs)
        rows += _rows(method, default, _windows(dynamics, method), parts)
    rows += _rows(CLUSTERED, *_clustered(dynamics, parts, recipe_epochs), parts)
    table = pd.DataFrame(rows)
    counts = {fraction: int(parts.wrong[tuned].sum()) for fraction, tuned in parts.tuning.items()}
    return table.assign(
        tuning_value=table["tuning_value"].astype("Float64"),  # missing where nothing was tuned
        tuning_wrong=table["tuning_fraction"].map(counts | {NO_TUNING: 0}),
        evaluated=int(parts.evaluation.sum()),
        noisy=int(parts.wrong[parts.evaluation].sum()),
    )


def _rows(method: Method, default: Option, options: Iterator[Option], parts: Parts) -> Iterator[dict[str, Any]]:
    base: dict[str, Any] = {"method": method.name, "tuning_value": None, "place": 0}
    untuned = base | {"width": default.width, "value": parts.fnr(default.scores, parts.evaluation)}
    yield untuned | {"tuning_fraction": NO_TUNING, "chosen": default.chosen}
    unfit = {fraction: parts.unfit(fraction) for fraction in parts.tuning}
    for fraction, reason in unfit.items():
        if reason:
            yield untuned | {"tuning_fraction": fraction, "chosen": f"{default.chosen} (default: {reason})"}
    for place, option in enumerate(options):
        tuned = base | {"chosen": option.chosen, "width": option.width, "place": place}
        tuned["value"] = parts.fnr(option.scores, parts.evaluation)
        for fraction in (fraction for fraction, reason in unfit.items() if not reason):
            tuning_value = parts.fnr(option.scores, parts.tuning[fraction])
            yield tuned | {"tuning_fraction": fraction, "tuning_value": tuning_value}


def _default_window(dynamics: Dynamics, method: Method, recipe_epochs: int) -> Option:
    end = recipe_epochs - 1
    return next(_window_options(dynamics, method, [(end, end) if _reads_one_epoch(method) else (0, end)]))


def _windows(dynamics: Dynamics, method: Method) -> Iterator[Option]:
    """Every window of the grid; where only its end is read, every epoch of the grid."""
    if _reads_one_epoch(method):
        return _window_options(dynamics, method, [(epoch, epoch) for epoch in epoch_grid(dynamics.epochs).tolist()])
    return _window_options(dynamics, method, grid_windows(dynamics.epochs))


def _window_options(dynamics: Dynamics, method: Method, windows: list[Window]) -> Iterator[Option]:
    for some in row_blocks(len(windows), max(1, _NUMBERS_AT_ONCE // dynamics.samples)):
        scored = window_scores(dynamics.replayable(), method, windows[some])
        for (start, end), scores in zip(windows[some], scored, strict=True):
            chosen = str(end) if _reads_one_epoch(method) else f"{start}-{end}"
            yield Option(chosen, end + 1 - start, scores)


def _reads_one_epoch(method: Method) -> bool:
    return method.fold.aggregation.reads == "last epoch"


def _clustered(dynamics: Dynamics, parts: Parts, recipe_epochs: int) -> tuple[Option, Iterator[Option]]:
    """What CTRL chooses by itself, told only how many labels are wrong as in the benchmark, and all it can choose."""
    aggregation = CLUSTERED.fold.aggregation
    assert isinstance(aggregation, CTRL)
    (rows,) = ask(dynamics.window((0, recipe_epochs - 1)).replayable(), [CLUSTERED])
    own = ctrl.select(
        rows["curve"],
        dynamics.labels,
        rows["correct"],
        budget=int(parts.wrong.sum()),
        alpha=aggregation.alpha,
        smooth=aggregation.smooth,
    )
    votes = ctrl.votes(rows["curve"], dynamics.labels, smooth=aggregation.smooth)

    def option(configuration: ctrl.Configuration, counted: ctrl.Votes) -> Option:
        written = f"{configuration.windows},{configuration.clusters},{configuration.selected}"
        return Option(written, recipe_epochs, counted.astype(np.float64))

    return option(own.configuration, own.votes), map(option, ctrl.CONFIGURATIONS, votes)


def choose(table: "pd.DataFrame") -> "pd.DataFrame":
    """The best candidate a seed, tuning fraction and method: the smallest tuning_value.

    Of equals, the widest window, then the first: the earliest, or the first configuration. Besides what every seed
    chooses for itself, `shared_chosen` and `shared_value` are of the choice that is best for all seeds on average: the
    paper prints one window for its three seeds.
    """
    by = ["seed", "tuning_fraction", "method"]
    tuned = table[table["tuning_value"].notna()]
    together = tuned.groupby(["tuning_fraction", "method", "chosen"], as_index=False, sort=False)
    mean = together.agg(tuning_value=("tuning_value", "mean"), width=("width", "first"), place=("place", "first"))
    best = _best(mean, by[1:])[[*by[1:], "chosen"]].merge(table, on=[*by[1:], "chosen"])
    shared = best[[*by, "chosen", "value"]].rename(columns={"chosen": "shared_chosen", "value": "shared_value"})
    own = _best(table, by).merge(shared, on=by, how="left")
    own["shared_chosen"] = own["shared_chosen"].fillna(own["chosen"])
    own["shared_value"] = own["shared_value"].fillna(own["value"])
    first = [*by, "value", "chosen", "shared_value", "shared_chosen", "tuning_value"]
    return own[[*first, *(column for column in table.columns if column not in (*first, "width", "place"))]]


def _best(table: "pd.DataFrame", by: list[str]) -> "pd.DataFrame":
    methods = {method.name: number for number, method in enumerate((*WINDOWED, CLUSTERED))}
    rounded = table["tuning_value"].round(12)  # a mean over seeds must not depend on the order of adding up
    ranked = table.assign(rounded=rounded, narrowness=-table["width"], number=table["method"].map(methods))
    order = [*(column if column != "method" else "number" for column in by), "rounded", "narrowness", "place"]
    best = ranked.sort_values(order).drop_duplicates(by)
    return best.drop(columns=["rounded", "narrowness", "number"]).reset_index(drop=True)


def stopping_curve(dynamics: Dynamics, parts: Parts) -> "pd.DataFrame":
    """FNR of methods that see epochs 0 to `epoch`: `value` on all samples scored, `evaluation_value` on the 90 %.

    The paper's figure is of the latter.
    """
    import pandas as pd

    windows = [(0, epoch) for epoch in epoch_grid(dynamics.epochs).tolist()]
    rows = [
        {
            "epoch": epoch,
            "method": method.name,
            "value": parts.fnr(scores, parts.known),
            "evaluation_value": parts.fnr(scores, parts.evaluation),
        }
        for method in STOPPED
        for (_, epoch), scores in zip(windows, window_scores(dynamics.replayable(), method, windows), strict=True)
    ]
    return pd.DataFrame(rows)
