"""One page that holds a benchmark: tables to sort, figures, a page a setting; it opens without a network."""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.bench.evaluation import compare
from errata.bench.evaluation.leaderboard import leaderboard
from errata.bench.evaluation.render import html
from errata.bench.evaluation.tables import TABLES, Table, build
from errata.bench.evaluation.tables.leaderboard_table import leaderboard_table
from errata.bench.evaluation.tables.over_seeds import order_methods, order_settings, shown_method
from errata.bench.evaluation.tables.table import from_frame
from errata.bench.figures.drawing import Drawing
from errata.bench.figures.gallery import Gallery, Undrawn
from errata.bench.results import Results
from errata.datasets.noise_figures import figure_bytes
from errata.datasets.registry import dataset
from errata.datasets.registry import setting as find_setting
from errata.dynamics.files import replace_atomically
from errata.errors import ErrataError, StoreError
from errata.version import installed_version

if TYPE_CHECKING:
    import pandas as pd
    from jinja2 import Template

TITLE = "errata: the benchmark"
Progress = Callable[[int], object]


@dataclass(frozen=True)
class Part:
    """A table or a figure of a page; `kind` is its class there."""

    html: str
    kind: str = "wide"
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Page:
    """A page of the report, shown alone."""

    id: str
    title: str
    parts: Sequence[Part] = ()
    lead: str = ""
    facts: Sequence[tuple[str, str]] = field(default_factory=tuple)


def write_report(
    results: Results, path: Path, data_dir: Path | None = None, progress: Progress = lambda _: None
) -> list[str]:
    """Write the report; returns what it could not show, a sentence each. `progress` is told of every figure."""
    numbers = results.numbers()
    drawings, undrawn = _drawn(Gallery(results, data_dir=data_dir), progress)
    tables, untold = _tables(results)
    missing = [*untold, *(f"{figure.name}: {figure.reason}" for figure in undrawn)]
    names = order_settings(numbers["setting"].unique())
    menu = [
        ("Results", [_overview(results, numbers, missing), *tables]),
        ("Figures", [_figures(drawings)]),
        ("Settings", [_setting_page(results, numbers, name, drawings) for name in names]),
    ]
    text = _template().render(title=TITLE, menu=menu)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_atomically(path, lambda file: file.write(text.encode()))
    return missing


def figures_count(results: Results, data_dir: Path | None = None) -> int:
    """How many figures a report would have."""
    return len(Gallery(results, data_dir=data_dir))


def _drawn(gallery: Gallery, progress: Progress) -> tuple[dict[str, Drawing], list[Undrawn]]:
    drawings, undrawn = {}, []
    for figure in gallery:
        if isinstance(figure, Drawing):
            drawings[figure.name] = figure
        else:
            undrawn.append(figure)
        progress(1)
    return drawings, undrawn


def _tables(results: Results) -> tuple[list[Page], list[str]]:
    """A page a table; a table that cannot be made is told in a sentence."""
    pages, missing = [], []
    makers: dict[str, Callable[[], Table]] = {"leaderboard": lambda: leaderboard_table(leaderboard(results))}
    makers |= {name: partial(build, name, results) for name in TABLES}
    for name, make in makers.items():
        try:
            table = make()
        except ErrataError as error:
            missing.append(f"table {name}: {error}")
            continue
        pages.append(Page(f"table-{name}", name.replace("-", " ").capitalize(), [_table(table)]))
    return pages, missing


def _overview(results: Results, numbers: "pd.DataFrame", missing: Sequence[str]) -> Page:
    parts = []
    try:
        parts += [_table(table) for table in compare.tables(compare.compare(results))[-3:]]
    except StoreError as error:  # nothing of this is in the paper: the rest is worth a page all the same
        missing = [*missing, str(error)]
    facts = [
        ("settings", str(numbers["setting"].nunique())),
        ("cells", str(numbers.groupby(["setting", "gathering", "seed"]).ngroups)),
        ("methods", str(numbers.loc[numbers["metric"] == "fnr", "method"].nunique())),
        ("devices", ", ".join(sorted(numbers["device"].unique()))),
        ("versions", ", ".join(sorted(numbers["version"].unique()))),
        ("made by", f"errata {installed_version()}"),
    ]
    if missing:
        parts.append(Part("", title="Not shown", note="\n".join(missing)))
    lead = "False negative rates of every method at the noise rate, beside the published numbers."
    return Page("overview", "Overview", parts, lead, facts)


def _figures(drawings: dict[str, Drawing]) -> Page:
    over_settings = [drawings[name] for name in ("heat-map", "critical-difference") if name in drawings]
    return Page("figures", "Over all settings", [_figure(drawing) for drawing in over_settings])


def _setting_page(results: Results, numbers: "pd.DataFrame", name: str, drawings: dict[str, Drawing]) -> Page:
    own = numbers[numbers["setting"] == name]
    setting = find_setting(name)
    first = own.iloc[0]
    facts = [
        ("data", dataset(setting.dataset).title + ("" if first["complete"] else " (incomplete: not comparable)")),
        ("wrong labels", f"{first['noisy']:,} of {first['samples']:,} ({first['noisy'] / first['samples']:.2%})"),
        ("training", _recipe_text(json.loads(first["parameters"]))),
        ("data hash", str(first["data_hash"])),
        ("label hash", str(first["label_hash"])),
        ("trained on", ", ".join(sorted(own["device"].unique()))),
    ]
    kinds = ("budget", "stop-epoch", "scores", "noise")
    shown = [drawings[f"{kind}-{name}"] for kind in kinds if f"{kind}-{name}" in drawings]
    parts = [_table(setting_table(own, name)), *(_figure(drawing) for drawing in shown)]
    return Page(f"setting-{name}", name, parts, facts=facts)


def _recipe_text(parameters: dict[str, Any]) -> str:
    if parameters["network"] == "boosting":
        shares = f"{parameters['row_share']:.0%} of the rows and {parameters['column_share']:.0%} of the columns"
        trees = f"{parameters['epochs']} rounds of trees of {parameters['leaves']} leaves from {shares}"
        return f"boosting, {trees}, learning rate {parameters['learning_rate']:g}, l2 {parameters['l2']:g}"
    network = "-".join([parameters["network"], *map(str, parameters["widths"])])
    drops = [f"times {factor:g} from epoch {start}" for start, factor in parameters["schedule"] if start]
    rate = ", ".join([f"learning rate {parameters['learning_rate']:g}", *drops])
    epochs = f"{parameters['epochs']} epochs" + (f" of 1/{parameters['parts']} pass" if parameters["parts"] > 1 else "")
    decay = f"weight decay {parameters['weight_decay']:g}"
    return f"{network}, {epochs}, batches of {parameters['batch_size']}, {parameters['optimizer']}, {rate}, {decay}"


def setting_table(own: "pd.DataFrame", name: str) -> Table:
    """Every number of a setting's methods, means over seeds."""
    import pandas as pd

    methods = own[own["method"].isin(own.loc[own["metric"] == "fnr", "method"])]
    mean = methods.pivot_table(index="method", columns="metric", values="value", aggfunc="mean")
    budget = methods.pivot_table(index="method", columns="metric", values="budget", aggfunc="mean")
    deviation = methods[methods["metric"] == "fnr"].groupby("method")["value"].std(ddof=0)
    columns = {"FNR (%)": 100 * mean["fnr"], "± std": 100 * deviation}
    columns |= {metric.upper(): mean[metric] for metric in ("auroc", "auprc") if metric in mean}
    if "fnr_at_operating_point" in mean:
        columns["flags"] = budget["fnr_at_operating_point"]
        columns["FNR (%) there"] = 100 * mean["fnr_at_operating_point"]
    table = (
        pd.DataFrame(columns)
        .loc[[name for name in order_methods(mean.index) if name in mean.index]]
        .rename_axis("method")
        .reset_index()
    )
    table["method"] = [shown_method(method) for method in table["method"]]
    digits = {"FNR (%)": 2, "± std": 2, "AUROC": 4, "AUPRC": 4, "flags": 0, "FNR (%) there": 2}
    return from_frame(table, f"{name}: all methods", digits={key: digits[key] for key in columns})


def _table(table: Table) -> Part:
    return Part(html(table))


def _figure(drawing: Drawing) -> Part:
    picture = base64.b64encode(figure_bytes(drawing.figure, "svg")).decode()
    alt = drawing.caption.replace('"', "&quot;")
    return Part(f'<img alt="{alt}" src="data:image/svg+xml;base64,{picture}">', "figure", note=drawing.caption)


def _template() -> "Template":
    from jinja2 import Environment

    text = (files("errata.bench") / "templates" / "report.html.j2").read_text(encoding="utf-8")
    return Environment(autoescape=True, trim_blocks=True).from_string(text)
