"""Figures of one setting: FNR by budget, FNR by the epoch at which training stops, and histograms of the scores."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from errata.bench.evaluation.summaries import display_name, over_seeds
from errata.bench.results import SCORES, Results, as_scores
from errata.bench.tuning_results import CURVE, TuningResults
from errata.core.metrics import budget_curve, fnr, ideal_fnr, random_fnr
from errata.errors import InputError, StoreError

Floats = NDArray[np.float64]
# One method of each kind: mean probabilities, mean losses, last epoch, clustering, confident learning.
DEFAULT_METHODS = ("MeanProb-LM", "Mean-CE", "Last-CE", "CTRL-CE", "LateStopping-CPD", "CL-PBNR (OOS)")
# One marker more than dashes: 56 different pairs.
_DASHES = ((1, 0), (5, 2), (6, 2, 1, 2), (3, 1, 1, 1, 1, 1), (9, 2), (2, 2), (9, 2, 3, 2))
_MARKERS = "osD^vPX<"
POINTS = 400
IDEAL, RANDOM = "ideal", "random"
EARLY = 0.2  # of the epochs of the recipe
STOP_COLUMNS = ("setting", "seed", "epoch", "method", "value", "epochs_of_recipe", "complete")
BINS = 60
FEW = 128  # up to this many different values, each has its own bin
TAIL = 0.0005  # share of the scores at each end that goes to the outermost bins


def setting_title(numbers: pd.DataFrame) -> str:
    """The setting of the numbers, and whether its data was incomplete."""
    first = numbers.iloc[0]
    return str(first["setting"]) + ("" if first["complete"] else ", incomplete data")


def line_styles(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, dashes and marker per method, different without colours too. Default methods always look the same."""
    order = list(dict.fromkeys([*DEFAULT_METHODS, *methods]))
    return {
        method: {
            "color": colormaps["tab10"](order.index(method) % 10),
            "dashes": _DASHES[order.index(method) % len(_DASHES)],
            "marker": _MARKERS[order.index(method) % len(_MARKERS)],
        }
        for method in methods
    }


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **grid: Any) -> tuple[Figure, Any]:
    """A figure (size in inches) without a window, and its axes (rows, columns)."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **grid)


def budget_numbers(results: Results, setting: str, methods: Sequence[str], *, complete: bool) -> pd.DataFrame:
    """FNR of a setting at about 400 budgets, including the noise rate.

    One row per method and budget, in percent: mean and population standard deviation over seeds. `ideal` and `random`
    are among the methods.
    """
    curves: dict[str, list[pd.Series[float]]] = {}
    sizes = set()
    for cell in results.cells():
        if cell.setting != setting:
            continue
        for method, ranking in results.ranks(cell).groupby("method", observed=True):
            sizes.add((int(ranking["size"].sum()), int(ranking["errors"].sum())))
            if method in methods:
                curves.setdefault(str(method), []).append(budget_curve(*as_scores(ranking))["fnr"])
    if not curves:
        raise InputError(f"{setting} was not run with any of {', '.join(methods)}.")
    if len(sizes) > 1:
        raise InputError(f"The cells of {setting} have different samples or errors.")
    samples, errors = sizes.pop()
    inspected = np.unique(np.append(np.round(np.linspace(0, samples, POINTS)).astype(np.int64), errors))
    budget = inspected / samples
    by_method = {
        IDEAL: np.asarray(ideal_fnr(budget, errors / samples))[None],
        RANDOM: np.asarray(random_fnr(budget))[None],
    } | {method: np.stack(curves[method])[:, inspected] for method in methods if method in curves}
    tables = [
        pd.DataFrame(
            {
                "method": method,
                "seeds": 0 if method in (IDEAL, RANDOM) else len(values),
                "budget_percent": 100 * budget,
                "fnr_percent": 100 * values.mean(axis=0),
                "std_percent": 100 * values.std(axis=0),
            }
        )
        for method, values in by_method.items()
    ]
    numbers = pd.concat(tables, ignore_index=True)
    return numbers.assign(setting=setting, complete=complete, noise_rate_percent=100 * errors / samples)


def budget_figure(numbers: pd.DataFrame) -> Figure:
    """All budgets on the left; budgets around the noise rate, where methods differ most, on the right."""
    rate = float(numbers["noise_rate_percent"].iloc[0])
    figure, ((whole, near),) = new_figure(10, 4.4, columns=2)
    curves = {str(name): curve for name, curve in numbers.groupby("method", sort=False)}
    methods = [method for method in curves if method not in (IDEAL, RANDOM)]
    for axes in (whole, near):
        for name, colour in ((RANDOM, "0.55"), (IDEAL, "k")):
            plain = {"linestyle": ":", "color": colour, "linewidth": 1.2, "label": name}
            axes.plot(curves[name]["budget_percent"], curves[name]["fnr_percent"], **plain)
        for method, style in line_styles(methods).items():
            budget, missed = curves[method]["budget_percent"], curves[method]["fnr_percent"]
            here = np.flatnonzero(np.isclose(budget, rate))[:1].tolist()
            label = display_name(method)
            axes.plot(budget, missed, label=label, markevery=here, markersize=6, linewidth=1.5, **style)
        axes.axvline(rate, color="0.8", linewidth=0.8, zorder=0)
        axes.set(xlabel="budget: samples inspected (%)", ylabel="FNR: errors missed (%)")
    whole.set(xlim=(0, 100), ylim=(0, 100))
    whole.set_title(f"{setting_title(numbers)}: {rate:.1f} % wrong labels", size=10)
    left, right = 0.5 * rate, min(100.0, 2 * rate)
    shown = numbers[numbers["method"].isin(methods) & numbers["budget_percent"].between(left, right)]
    near.set(xlim=(left, right), ylim=(0, max(1.0, 1.03 * shown["fnr_percent"].max())))
    near.set_title("around the noise rate (marked)", size=10)
    whole.legend(frameon=False, fontsize=9)
    return figure


def stop_numbers(results: Results, setting: str) -> pd.DataFrame:
    """FNR of a setting by the number of training epochs, from its tuning.

    One row per method and number of epochs: mean and population standard deviation over seeds, in percent.
    """
    stored = TuningResults(results.folder)
    path = stored.path(setting, CURVE)
    if not path.exists():
        raise InputError(f"{setting} was not tuned. `errata bench tune` trains it for longer.")
    curve = stored.read(setting, CURVE)
    absent = [column for column in STOP_COLUMNS if column not in curve]
    if absent or curve.empty:
        raise StoreError(f"{path} has no {f'column {absent[0]}' if absent else 'row'}.")
    curve = curve.assign(epochs=curve["epoch"] + 1)  # `epoch` is the last one, counted from 0
    summary = over_seeds(curve, ["setting", "method", "epochs", "epochs_of_recipe"])
    return summary.rename(columns={"mean_percent": "fnr_percent"})


def stop_figure(numbers: pd.DataFrame) -> Figure:
    """One line per method with a band of ± one standard deviation over seeds; a dotted line at the recipe's epochs.

    The first epochs may lie above the top of the figure: every method fails there, and the rest would look flat.
    """
    figure, ((axes,),) = new_figure(7, 4.6)
    for method, style in line_styles(numbers["method"].unique().tolist()).items():
        ordered = numbers[numbers["method"] == method].sort_values("epochs")
        epochs, mean, std = (ordered[name].to_numpy() for name in ("epochs", "fnr_percent", "std_percent"))
        axes.fill_between(epochs, mean - std, mean + std, color=style["color"], alpha=0.2, linewidth=0)
        axes.plot(epochs, mean, label=display_name(method), markevery=0.1, markersize=5, linewidth=1.5, **style)
    recipe = int(numbers["epochs_of_recipe"].iloc[0])
    axes.axvline(recipe, color="k", linestyle=":", linewidth=1.2, label=f"recipe: {recipe} epochs")
    later = numbers[numbers["epochs"] >= min(recipe * EARLY, numbers["epochs"].max())]
    top = 1.1 * (later["fnr_percent"] + later["std_percent"]).max()
    axes.set(xlabel="epochs of training", ylabel="FNR at the noise rate (%)", ylim=(0, max(1.0, top)))
    axes.margins(x=0.01)
    axes.set_title(setting_title(numbers), size=10)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def histogram_numbers(results: Results, setting: str, methods: Sequence[str], *, complete: bool) -> pd.DataFrame:
    """Counts of right and wrong labels by score, for the first seed with stored scores.

    One row per method and bin, from `low` to `high`; the outermost bins contain everything beyond. `threshold` is the
    score at which the number of inspected samples equals the number of errors, `fnr_percent` the FNR there.
    """
    found: dict[str, pd.DataFrame] = {}
    cells = [cell for cell in results.cells() if cell.setting == setting]
    stored = [cell for cell in cells if results.file(cell, SCORES).exists()]
    for cell in stored:
        if set(methods) <= set(found):
            break
        scores = results.scores(cell)
        wrong = scores["truth"].to_numpy(dtype=np.bool_)
        for method in set(methods) & set(scores.columns) - set(found):
            counted = _count(scores[method].to_numpy(dtype=np.float64), wrong)
            found[method] = counted.assign(setting=setting, complete=complete, method=method, seed=cell.seed)
    if not found:
        raise InputError(
            f"The per-sample scores of {setting} are not stored. `errata bench run` in a new folder creates them."
            if len(stored) < len(cells)
            else f"{setting} was not run with any of {', '.join(methods)}."
        )
    return pd.concat([found[method] for method in dict.fromkeys(methods) if method in found], ignore_index=True)


def _count(scores: Floats, wrong: NDArray[np.bool_]) -> pd.DataFrame:
    """Right and wrong labels in each bin of the scores."""
    edges = _edges(scores)
    inside = np.clip(scores, edges[0], edges[-1])
    errors = int(wrong.sum())
    return pd.DataFrame(
        {
            "low": edges[:-1],
            "high": edges[1:],
            "right": np.histogram(inside[~wrong], edges)[0],
            "wrong": np.histogram(inside[wrong], edges)[0],
            "threshold": np.sort(scores)[len(scores) - errors],
            "fnr_percent": 100 * fnr(scores, wrong),
        }
    )


def _edges(scores: Floats) -> Floats:
    """Bins of equal width without the tails; one bin per value if there are few values."""
    finite = scores[np.isfinite(scores)]
    values = np.unique(finite)
    if 1 < len(values) <= FEW:
        middles = (values[1:] + values[:-1]) / 2
        return np.concatenate(([2 * values[0] - middles[0]], middles, [2 * values[-1] - middles[-1]]))
    if len(values) <= 1:
        return np.array([-0.5, 0.5]) + (values[0] if len(values) else 0)
    low, high = np.quantile(finite, [TAIL, 1 - TAIL])
    return np.linspace(low, high, BINS + 1) if high > low else np.linspace(values[0], values[-1], BINS + 1)


def histogram_figure(numbers: pd.DataFrame) -> Figure:
    """One panel per method."""
    methods = numbers["method"].unique()
    columns = min(2, len(methods))
    rows = -(-len(methods) // columns)
    figure, panels = new_figure(4.6 * columns + 0.4, 2.5 * rows + 0.6, rows, columns)
    for axes, method in zip(panels.flat, methods, strict=False):
        _draw_histogram(axes, numbers[numbers["method"] == method])
    for axes in panels.flat[len(methods) :]:
        axes.remove()
    for axes in panels[:, 0]:
        axes.set_ylabel("% of right or of wrong", size=9)
    handles = panels.flat[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    seeds = ", ".join(map(str, numbers["seed"].unique()))
    figure.suptitle(f"{setting_title(numbers)}, seed {seeds}: scores, higher is more suspicious", size=10)
    return figure


def _draw_histogram(axes: Any, bins: pd.DataFrame) -> None:
    """Shares of right and of wrong labels. The FNR is the share of the wrong labels below the threshold."""
    edges = np.append(bins["low"].to_numpy(), bins["high"].iloc[-1])
    for kind, colour, hatch in (("right", "tab:blue", None), ("wrong", "tab:orange", "////")):
        shares = 100 * bins[kind] / max(1, bins[kind].sum())
        axes.stairs(shares, edges, fill=True, color=colour, alpha=0.5, hatch=hatch, label=f"{kind} label")
        axes.stairs(shares, edges, color=colour, linewidth=1)
    threshold = np.clip(bins["threshold"].iloc[0], edges[0], edges[-1])
    axes.axvline(threshold, color="k", linestyle="--", linewidth=1, label="budget of the noise rate")
    axes.set_title(f"{display_name(bins['method'].iloc[0])}: FNR {bins['fnr_percent'].iloc[0]:.1f} %", size=10)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.margins(x=0.01)
