"""FNR curves: by budget, and by the epoch at which training stops."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from errata.bench.evaluation.summaries import display_name, over_seeds
from errata.bench.figures.figure_files import line_styles, new_figure, setting_title
from errata.bench.results import Results, as_scores
from errata.bench.tuning_results import CURVE, TuningResults
from errata.core.metrics import budget_curve, ideal_fnr, random_fnr
from errata.errors import InputError, StoreError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

POINTS = 400
IDEAL, RANDOM = "ideal", "random"
EARLY = 0.2  # of the epochs of the recipe
STOP_COLUMNS = ("setting", "seed", "epoch", "method", "value", "epochs_of_recipe", "complete")


def budget_numbers(results: Results, setting: str, methods: Sequence[str], *, complete: bool) -> "pd.DataFrame":
    """FNR of a setting at about 400 budgets, including the noise rate.

    One row per method and budget, in percent: mean and population standard deviation over seeds. `ideal` and `random`
    are among the methods.
    """
    import pandas as pd

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
    tables = [
        _curve(IDEAL, budget, np.asarray(ideal_fnr(budget, errors / samples))[None]),
        _curve(RANDOM, budget, np.asarray(random_fnr(budget))[None]),
        *(
            _curve(method, budget, np.stack(curves[method])[:, inspected])
            for method in dict.fromkeys(methods)
            if method in curves
        ),
    ]
    numbers = pd.concat(tables, ignore_index=True)
    return numbers.assign(setting=setting, complete=complete, noise_rate_percent=100 * errors / samples)


def _curve(method: str, budget: NDArray[np.float64], fnr: NDArray[np.float64]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(
        {
            "method": method,
            "seeds": 0 if method in (IDEAL, RANDOM) else len(fnr),
            "budget_percent": 100 * budget,
            "fnr_percent": 100 * fnr.mean(axis=0),
            "std_percent": 100 * fnr.std(axis=0),
        }
    )


def budget_figure(numbers: "pd.DataFrame") -> "Figure":
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
            budget, fnr = curves[method]["budget_percent"], curves[method]["fnr_percent"]
            here = np.flatnonzero(np.isclose(budget, rate))[:1].tolist()
            label = display_name(method)
            axes.plot(budget, fnr, label=label, markevery=here, markersize=6, linewidth=1.5, **style)
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


def stop_numbers(results: Results, setting: str) -> "pd.DataFrame":
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


def stop_figure(numbers: "pd.DataFrame") -> "Figure":
    """One line per method with a band of ± one standard deviation over seeds; a dotted line at the recipe's epochs.

    The first epochs may lie above the top of the figure: every method fails there, and the rest would look flat.
    """
    figure, ((axes,),) = new_figure(7, 4.6)
    for method, style in line_styles(numbers["method"].unique().tolist()).items():
        ordered = numbers[numbers["method"] == method].sort_values("epochs")
        epochs, fnr, std = (ordered[name].to_numpy() for name in ("epochs", "fnr_percent", "std_percent"))
        axes.fill_between(epochs, fnr - std, fnr + std, color=style["color"], alpha=0.2, linewidth=0)
        axes.plot(epochs, fnr, label=display_name(method), markevery=0.1, markersize=5, linewidth=1.5, **style)
    recipe = int(numbers["epochs_of_recipe"].iloc[0])
    axes.axvline(recipe, color="k", linestyle=":", linewidth=1.2, label=f"recipe: {recipe} epochs")
    later = numbers[numbers["epochs"] >= min(recipe * EARLY, numbers["epochs"].max())]
    top = 1.1 * (later["fnr_percent"] + later["std_percent"]).max()
    axes.set(xlabel="epochs of training", ylabel="FNR at the noise rate (%)", ylim=(0, max(1.0, top)))
    axes.margins(x=0.01)
    axes.set_title(setting_title(numbers), size=10)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure
