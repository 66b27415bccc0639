"""Measured FNR at the noise rate beside the published: differences, the band, and the order of the methods."""

from typing import TYPE_CHECKING, Any

from errata.bench.evaluation import published
from errata.bench.evaluation.tables.detection import noise_rate_summary
from errata.bench.evaluation.tables.over_seeds import order_settings, shown_method
from errata.bench.evaluation.tables.table import INCOMPLETE, Table, from_frame, group_starts
from errata.bench.results import Results
from errata.core.aggregations import CTRL, SWA
from errata.core.composed_method import ComposedMethod
from errata.core.methods import Method, parse
from errata.datasets.registry import setting as find_setting
from errata.errors import StoreError

if TYPE_CHECKING:
    import pandas as pd

BAND_POINTS = 1.0
BAND_RELATIVE = 0.10
BAND = f"within {100 * BAND_RELATIVE:g} % or {BAND_POINTS:g} point"
AT_LEAST_AS_GOOD = "equal or better"
FAMILIES = ("in-sample", "CTRL", "out-of-sample")
FEWEST_RANKED = 3  # an order of fewer methods says nothing


def compare(results: Results) -> "pd.DataFrame":
    """A row a setting, gathering and method that both have, in percent; `inside` is missing on incomplete data."""
    summary = noise_rate_summary(results)
    both = summary.merge(published.fnr_at_noise_rate(), on=["setting", "gathering", "method"], suffixes=("", "_paper"))
    if both.empty:
        raise StoreError(f"{results.folder} holds no cell of a setting and method that the paper reports")
    methods = [parse(name) for name in both["method"]]
    cells = both[["setting", "gathering", "method"]].assign(
        family=[_family(method) for method in methods],
        network=[find_setting(name).network for name in both["setting"]],
        ours=both["mean_percent"],
        std=both["std_percent"],
        seeds=both["seeds"],
        paper=both["fnr_percent"],
        paper_std=both["std_percent_paper"],
        difference=both["mean_percent"] - both["fnr_percent"],
        rule=[AT_LEAST_AS_GOOD if _is_swa(method) else BAND for method in methods],
        complete=both["complete"],
    )
    cells["inside"] = _inside(cells)
    order = {name: place for place, name in enumerate(published.paper_order())}
    places = {name: place for place, name in enumerate(order_settings(cells["setting"]))}
    return cells.sort_values(
        ["setting", "method"], key=lambda column: column.map(places if column.name == "setting" else order)
    ).reset_index(drop=True)


def by_method(cells: "pd.DataFrame") -> "pd.DataFrame":
    """How often each method is inside the band, over settings of complete data."""
    return _shares(cells, ["method", "gathering"])


def by_family(cells: "pd.DataFrame") -> "pd.DataFrame":
    """The same for in-sample methods without CTRL, CTRL, and out-of-sample methods, a network at a time."""
    shares = _shares(cells, ["family", "network"])
    return shares.sort_values("family", key=lambda names: names.map(FAMILIES.index), kind="stable", ignore_index=True)


def by_setting(cells: "pd.DataFrame") -> "pd.DataFrame":
    """The same for each setting, and how well the order of the methods agrees with the paper's."""
    import pandas as pd

    shares = _shares(cells, ["setting"])
    orders = [
        {"setting": name, **_rank_correlations(group)} for name, group in _counted(cells).groupby("setting", sort=False)
    ]
    return shares.merge(pd.DataFrame(orders, columns=["setting", "spearman", "kendall"]), on="setting", how="left")


def tables(cells: "pd.DataFrame") -> list[Table]:
    """What `compare` gives as a table a setting, then the summaries by family, setting and method."""
    return [
        *(_setting_table(str(name), group) for name, group in cells.groupby("setting", sort=False)),
        *_summaries(cells),
    ]


def _family(method: Method) -> str:
    in_sample, ctrl, out_of_sample = FAMILIES
    if method.gathering == "out-of-sample":
        return out_of_sample
    return ctrl if isinstance(method, ComposedMethod) and isinstance(method.aggregation, CTRL) else in_sample


def _is_swa(method: Method) -> bool:
    """Its weights are averaged with batch statistics taken anew, which the paper seems not to do: better is as good."""
    return isinstance(method, ComposedMethod) and isinstance(method.aggregation, SWA)


def _inside(cells: "pd.DataFrame") -> "pd.Series[Any]":
    band = (BAND_RELATIVE * cells["paper"]).clip(lower=BAND_POINTS)
    inside = cells["difference"].abs() <= band
    inside |= (cells["rule"] == AT_LEAST_AS_GOOD) & (cells["difference"] <= 0)
    return inside.astype("boolean").where(cells["complete"])


def _counted(cells: "pd.DataFrame") -> "pd.DataFrame":
    return cells[cells["complete"]]


def _shares(cells: "pd.DataFrame", by: list[str]) -> "pd.DataFrame":
    """A row a group: cells, how many and what share of them are inside, the mean difference and its mean size."""
    counted = _counted(cells).assign(size=lambda table: table["difference"].abs())
    grouped = counted.groupby(by, sort=False)
    shares = grouped.agg(
        cells=("inside", "size"),
        inside=("inside", "sum"),
        mean_difference=("difference", "mean"),
        mean_absolute_difference=("size", "mean"),
    ).reset_index()
    shares["inside"] = shares["inside"].astype(int)
    shares.insert(len(by) + 2, "share", shares["inside"] / shares["cells"])
    return shares


def _rank_correlations(group: "pd.DataFrame") -> dict[str, float | None]:
    from scipy.stats import kendalltau, spearmanr

    ours, paper = group["ours"], group["paper"]
    if len(group) < FEWEST_RANKED or ours.nunique() < 2 or paper.nunique() < 2:
        return {"spearman": None, "kendall": None}
    return {
        "spearman": float(spearmanr(ours, paper).statistic),
        "kendall": float(kendalltau(ours, paper).statistic),
    }


def _setting_table(setting: str, cells: "pd.DataFrame") -> Table:
    complete = bool(cells["complete"].all())
    shown = cells.astype({"std": object, "inside": object})
    shown["method"] = [shown_method(name) for name in cells["method"]]
    shown.loc[cells["seeds"] == 1, "std"] = ""
    shown.loc[~cells["complete"], "inside"] = INCOMPLETE
    columns = ["method", "ours", "std", "seeds", "paper", "paper_std", "difference", "inside", "rule"]
    notes = [f"{INCOMPLETE} incomplete data: not comparable to the paper, and left out of the summaries"]
    return from_frame(
        shown[columns].rename(columns={"paper_std": "paper std"}),
        f"{setting}: FNR (%) at the noise rate, ours and the paper's",
        digits=dict.fromkeys(("ours", "std", "paper", "paper std", "difference"), 2),
        notes=[] if complete else notes,
        numbers=cells,
    )


def _summaries(cells: "pd.DataFrame") -> list[Table]:
    counted = _counted(cells)
    left_out = dict.fromkeys(cells.loc[~cells["complete"], "setting"])
    inside = int(counted["inside"].sum())
    notes = [
        f"{inside} of {len(counted)} cells are inside: {BAND}; for SWA {AT_LEAST_AS_GOOD} counts too",
        *([f"{INCOMPLETE} left out for incomplete data: {', '.join(left_out)}"] if left_out else []),
    ]
    families, settings, methods = by_family(cells), by_setting(cells), by_method(cells)
    methods["method"] = [shown_method(name) for name in methods["method"]]
    return [
        _summary_table(families, "Inside the band, by family and network", 2, notes),
        _summary_table(
            settings,
            "Inside the band, and rank correlation of the order of methods with the paper's, by setting",
            1,
            [],
        ),
        _summary_table(methods, "Inside the band, by method", 2, []),
    ]


def _summary_table(shares: "pd.DataFrame", title: str, labels: int, notes: list[str]) -> Table:
    names = {
        "share": "inside (%)",
        "mean_difference": "mean difference",
        "mean_absolute_difference": "mean size of difference",
    }
    digits = dict(zip(names.values(), (0, 2, 2), strict=True)) | {"spearman": 3, "kendall": 3}
    return from_frame(
        shares.assign(share=100 * shares["share"]).rename(columns=names),
        title,
        labels=labels,
        digits=digits,
        rules=group_starts(shares["family"]) if "family" in shares else (),
        notes=notes,
        numbers=shares,
    )
