"""FNR at the noise rate compared with the published numbers: differences, tolerance, and the order of the methods."""

from typing import Any

import pandas as pd
from scipy.stats import kendalltau, spearmanr

from errata.bench.evaluation import published
from errata.bench.evaluation.fnr_tables import TUNING_KEY, noise_rate_summary, tuned_summary
from errata.bench.evaluation.result_table import INCOMPLETE, ResultTable
from errata.bench.evaluation.summaries import display_name, order_settings
from errata.bench.results import Results
from errata.bench.tuning_results import TuningResults
from errata.core.aggregations import CTRL, SWA
from errata.core.composed_method import ComposedMethod
from errata.core.methods import Method, parse
from errata.datasets.registry import setting as find_setting
from errata.errors import StoreError

BAND_POINTS = 1.0
BAND_RELATIVE = 0.10
BAND = f"within {100 * BAND_RELATIVE:g} % or {BAND_POINTS:g} point"
AT_LEAST_AS_GOOD = "equal or better"
FAMILIES = ("in-sample", "CTRL", "out-of-sample")
FEWEST_RANKED = 3  # methods needed for a rank correlation
KEY = ["setting", "gathering", "method"]


def compare(results: Results) -> pd.DataFrame:
    """One row per setting, gathering and method that both have, in percent. `inside` is missing for incomplete data."""
    cells = _beside_paper(noise_rate_summary(results), published.fnr_at_noise_rate(), KEY)
    if cells.empty:
        raise StoreError(f"{results.folder} has no results for a setting and method that the paper reports.")
    methods = [parse(name) for name in cells["method"]]
    cells.insert(len(KEY), "family", [_family(method) for method in methods])
    cells.insert(len(cells.columns) - 2, "rule", [AT_LEAST_AS_GOOD if _is_swa(method) else BAND for method in methods])
    cells["inside"] |= cells["complete"] & (cells["rule"] == AT_LEAST_AS_GOOD) & (cells["difference"] <= 0)
    order = {name: place for place, name in enumerate(published.paper_method_names())}
    places = {name: place for place, name in enumerate(order_settings(cells["setting"]))}
    return cells.sort_values(
        ["setting", "method"], key=lambda column: column.map(places if column.name == "setting" else order)
    ).reset_index(drop=True)


def compare_tuned(results: Results) -> pd.DataFrame:
    """One row per setting, tuning fraction above 0 and method that both have, in percent; none without tuning."""
    if not TuningResults(results.folder).settings():
        return pd.DataFrame(columns=["complete"])
    cells = _beside_paper(tuned_summary(results), published.fnr_optimized(), TUNING_KEY)
    return cells[cells["tuning_fraction"] > 0].reset_index(drop=True)


def _beside_paper(summary: pd.DataFrame, paper: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Rows that both have, with their difference, and whether it is inside the band (missing for incomplete data)."""
    both = summary.merge(paper, on=key, suffixes=("", "_paper"))
    difference = both["mean_percent"] - both["fnr_percent"]
    inside = difference.abs() <= (BAND_RELATIVE * both["fnr_percent"]).clip(lower=BAND_POINTS)
    return both[key].assign(
        network=[find_setting(name).network for name in both["setting"]],
        ours=both["mean_percent"],
        std=both["std_percent"],
        seeds=both["seeds"],
        paper=both["fnr_percent"],
        paper_std=both["std_percent_paper"],
        difference=difference,
        complete=both["complete"],
        inside=inside.astype("boolean").where(both["complete"]),
    )


def _family(method: Method) -> str:
    in_sample, ctrl, out_of_sample = FAMILIES
    if method.gathering == "out-of-sample":
        return out_of_sample
    return ctrl if isinstance(method, ComposedMethod) and isinstance(method.aggregation, CTRL) else in_sample


def _is_swa(method: Method) -> bool:
    """The paper seems to evaluate SWA with dropout, and errata does not; a better result counts as agreement."""
    return isinstance(method, ComposedMethod) and isinstance(method.aggregation, SWA)


def by_method(cells: pd.DataFrame) -> pd.DataFrame:
    """Agreement with the paper by method, over settings with complete data."""
    return _agreement(cells, ["method", "gathering"])


def by_family(cells: pd.DataFrame) -> pd.DataFrame:
    """Agreement by network and family: in-sample methods without CTRL, CTRL, out-of-sample methods."""
    shares = _agreement(cells, ["family", "network"])
    return shares.sort_values("family", key=lambda names: names.map(FAMILIES.index), kind="stable", ignore_index=True)


def by_setting(cells: pd.DataFrame) -> pd.DataFrame:
    """Agreement by setting, with the rank correlations of the order of the methods."""
    complete = cells[cells["complete"]].groupby("setting", sort=False)
    orders = [{"setting": name, **_rank_correlations(group)} for name, group in complete]
    correlations = pd.DataFrame(orders, columns=["setting", "spearman", "kendall"])
    return _agreement(cells, ["setting"]).merge(correlations, on="setting", how="left")


def _agreement(cells: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """One row per group: cells, number and share inside the band, mean difference and mean absolute difference."""
    complete = cells[cells["complete"]].assign(size=lambda table: table["difference"].abs())
    shares = complete.groupby(by, sort=False).agg(
        cells=("inside", "size"),
        inside=("inside", "sum"),
        mean_difference=("difference", "mean"),
        mean_absolute_difference=("size", "mean"),
    )
    shares = shares.reset_index().astype({"inside": int})
    shares.insert(len(by) + 2, "share", shares["inside"] / shares["cells"])
    return shares


def _rank_correlations(group: pd.DataFrame) -> dict[str, float | None]:
    ours, paper = group["ours"], group["paper"]
    if len(group) < FEWEST_RANKED or ours.nunique() < 2 or paper.nunique() < 2:
        return {"spearman": None, "kendall": None}
    return {
        "spearman": float(spearmanr(ours, paper).statistic),
        "kendall": float(kendalltau(ours, paper).statistic),
    }


def tables(cells: pd.DataFrame, tuned: pd.DataFrame) -> list[ResultTable]:
    """The result of `compare` as one table per setting, followed by `summary_tables`."""
    return [
        *(_setting_table(str(name), group) for name, group in cells.groupby("setting", sort=False)),
        *summary_tables(cells, tuned),
    ]


def _setting_table(setting: str, cells: pd.DataFrame) -> ResultTable:
    shown = cells.astype({"std": object, "inside": object})
    shown["method"] = [display_name(name) for name in cells["method"]]
    shown.loc[cells["seeds"] == 1, "std"] = ""
    shown.loc[~cells["complete"], "inside"] = INCOMPLETE
    columns = ["method", "ours", "std", "seeds", "paper", "paper_std", "difference", "inside", "rule"]
    note = f"{INCOMPLETE} incomplete data: not comparable to the paper, and left out of the summaries"
    return ResultTable(
        title=f"{setting}: FNR (%) at the noise rate, ours and the paper's",
        columns=[name.replace("_", " ") for name in columns],
        rows=list(shown[columns].itertuples(index=False)),
        numbers=cells,
        digits=dict.fromkeys(("ours", "std", "paper", "paper std", "difference"), 2),
        notes=["" if cells["complete"].all() else note],
    )


def summary_tables(cells: pd.DataFrame, tuned: pd.DataFrame) -> list[ResultTable]:
    """Agreement with the paper by family, by setting and by method, and that of the tuned methods."""
    complete = cells[cells["complete"]]
    left_out = dict.fromkeys(cells.loc[~cells["complete"], "setting"])
    inside = int(complete["inside"].sum())
    notes = [
        f"{inside} of {len(complete)} cells are inside: {BAND}; for SWA, {AT_LEAST_AS_GOOD} counts too",
        f"{INCOMPLETE} left out, incomplete data: {', '.join(left_out)}" if left_out else "",
    ]
    settings_title = "Inside the band, and rank correlation of the methods with the paper, by setting"
    methods = by_method(cells).assign(method=lambda table: [display_name(name) for name in table["method"]])
    return [
        _summary_table(by_family(cells), "Inside the band, by family and network", labels=2, grouped=True, notes=notes),
        _summary_table(by_setting(cells), settings_title),
        _summary_table(methods, "Inside the band, by method", labels=2),
        *([_tuned_table(tuned)] if tuned["complete"].any() else []),
    ]


def _tuned_table(tuned: pd.DataFrame) -> ResultTable:
    complete = tuned[tuned["complete"]]
    shares = _agreement(tuned, ["network", "method"]).sort_values("network", kind="stable", ignore_index=True)
    shares["method"] = [display_name(name) for name in shares["method"]]
    note = f"{int(complete['inside'].sum())} of {len(complete)} tuned cells are inside: {BAND}"
    return _summary_table(
        shares, "Inside the band after tuning, by network and method", labels=2, grouped=True, notes=[note]
    )


def _summary_table(shares: pd.DataFrame, title: str, **options: Any) -> ResultTable:
    names = {
        "share": "inside (%)",
        "mean_difference": "mean difference",
        "mean_absolute_difference": "mean absolute difference",
    }
    digits = dict(zip(names.values(), (0, 2, 2), strict=True)) | {"spearman": 3, "kendall": 3}
    shown = shares.assign(share=100 * shares["share"]).rename(columns=names)
    rows = list(shown.itertuples(index=False))
    return ResultTable(title, [*shown], rows, numbers=shares, digits=digits, **options)
