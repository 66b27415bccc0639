"""The results as one HTML page that works offline: sortable tables, figures, and one section per setting."""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment

from errata.bench.evaluation import compare
from errata.bench.evaluation.leaderboard import leaderboard, leaderboard_table
from errata.bench.evaluation.result_table import ResultTable, html
from errata.bench.evaluation.summaries import display_name, order_methods, order_settings
from errata.bench.evaluation.table_registry import TABLES, build
from errata.bench.figures.gallery import DrawnFigure, Gallery
from errata.bench.results import Results
from errata.datasets.noise_figures import figure_bytes
from errata.datasets.registry import dataset
from errata.datasets.registry import setting as find_setting
from errata.dynamics.files import write_file
from errata.errors import ErrataError, StoreError
from errata.terminal import progress_bar
from errata.version import installed_version

TITLE = "errata: the benchmark"


@dataclass(frozen=True)
class PageBlock:
    """A table, a figure or a text of a section. kind: its CSS class."""

    html: str
    kind: str = "wide"
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class PageSection:
    """A section of the page. Only one section is visible at a time."""

    id: str
    title: str
    blocks: Sequence[PageBlock] = ()
    lead: str = ""
    facts: Sequence[tuple[str, str]] = ()


def write_report(results: Results, path: Path, data_dir: Path | None = None) -> list[str]:
    """Write the page. Returns one sentence per part that is missing."""
    numbers = results.numbers()
    names = order_settings(numbers["setting"].unique())
    numbers = numbers[numbers["setting"].isin(names)]
    figures: dict[str, DrawnFigure] = {}
    tables, missing = _table_sections(results)
    gallery = Gallery(results, data_dir=data_dir)
    with progress_bar("drawing", len(gallery)) as advance:
        for figure in gallery:
            if isinstance(figure, DrawnFigure):
                figures[figure.name] = figure
            else:
                missing.append(f"{figure.name}: {figure.reason}")
            advance()
    overall = [_figure_block(figures[name]) for name in ("heat-map", "critical-difference") if name in figures]
    menu = [
        ("Results", [_overview(results, numbers, missing), *tables]),
        ("Figures", [PageSection("figures", "Over all settings", overall)]),
        ("Settings", [_setting_section(numbers[numbers["setting"] == name], name, figures) for name in names]),
    ]
    template = (files("errata.bench") / "templates" / "report.html.j2").read_text(encoding="utf-8")
    text = Environment(autoescape=True, trim_blocks=True).from_string(template).render(title=TITLE, menu=menu)
    write_file(path, text)
    return missing


def _table_sections(results: Results) -> tuple[list[PageSection], list[str]]:
    """One section per table, and one sentence per table that cannot be built."""
    sections, missing = [], []
    builders: dict[str, Callable[[], ResultTable]] = {"leaderboard": lambda: leaderboard_table(leaderboard(results))}
    builders |= {name: partial(build, name, results) for name in TABLES}
    for name, build_table in builders.items():
        try:
            block = PageBlock(html(build_table()))
        except ErrataError as error:
            missing.append(f"table {name}: {error}")
        else:
            sections.append(PageSection(f"table-{name}", name.replace("-", " ").capitalize(), [block]))
    return sections, missing


def _overview(results: Results, numbers: pd.DataFrame, missing: Sequence[str]) -> PageSection:
    blocks = []
    try:
        compared = compare.summary_tables(compare.compare(results), compare.compare_tuned(results))
        blocks += [PageBlock(html(table)) for table in compared]
    except StoreError as error:  # no setting of the paper: the other sections are still useful
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
        blocks.append(PageBlock("", title="Not shown", note="\n".join(missing)))
    lead = "False negative rates of every method at the noise rate, compared with the published numbers."
    return PageSection("overview", "Overview", blocks, lead, facts)


def _setting_section(numbers: pd.DataFrame, name: str, figures: dict[str, DrawnFigure]) -> PageSection:
    setting, first = find_setting(name), numbers.iloc[0]
    facts = [
        ("data", dataset(setting.dataset).title + ("" if first["complete"] else " (incomplete: not comparable)")),
        ("wrong labels", f"{first['noisy']:,} of {first['samples']:,} ({first['noisy'] / first['samples']:.2%})"),
        ("training", _recipe_text(json.loads(first["parameters"]))),
        ("data hash", str(first["data_hash"])),
        ("label hash", str(first["label_hash"])),
        ("trained on", ", ".join(sorted(numbers["device"].unique()))),
    ]
    drawn = (figures.get(f"{kind}-{name}") for kind in ("budget", "stop-epoch", "scores", "noise"))
    blocks = [PageBlock(html(setting_table(numbers, name))), *(_figure_block(one) for one in drawn if one)]
    return PageSection(f"setting-{name}", name, blocks, facts=facts)


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


def setting_table(numbers: pd.DataFrame, name: str) -> ResultTable:
    """All metrics of the methods on one setting, as means over seeds."""
    methods = numbers[numbers["method"].isin(numbers.loc[numbers["metric"] == "fnr", "method"])]
    mean = methods.pivot_table(index="method", columns="metric", values="value", aggfunc="mean")
    budget = methods.pivot_table(index="method", columns="metric", values="budget", aggfunc="mean")
    deviation = methods[methods["metric"] == "fnr"].groupby("method")["value"].std(ddof=0)
    columns = {"FNR (%)": 100 * mean["fnr"], "± std": 100 * deviation}
    columns |= {metric.upper(): mean[metric] for metric in ("auroc", "auprc") if metric in mean}
    if "fnr_at_operating_point" in mean:
        columns["flags"] = budget["fnr_at_operating_point"]
        columns["FNR (%) there"] = 100 * mean["fnr_at_operating_point"]
    order = [method for method in order_methods(mean.index) if method in mean.index]
    table = pd.DataFrame(columns).loc[order]
    table.insert(0, "method", [display_name(method) for method in order])
    digits = {"FNR (%)": 2, "± std": 2, "AUROC": 4, "AUPRC": 4, "flags": 0, "FNR (%) there": 2}
    return ResultTable(f"{name}: all methods", [*table], list(table.itertuples(index=False)), table, digits=digits)


def _figure_block(drawn: DrawnFigure) -> PageBlock:
    picture = base64.b64encode(figure_bytes(drawn.figure, "svg")).decode()
    alt = drawn.caption.replace('"', "&quot;")
    return PageBlock(f'<img alt="{alt}" src="data:image/svg+xml;base64,{picture}">', "figure", note=drawn.caption)
