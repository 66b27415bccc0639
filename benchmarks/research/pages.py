"""Fill in the tables of docs/*.md and results/research/README.md from the stored results.

    python benchmarks/research/pages.py            # after new results
    python benchmarks/research/pages.py --check    # only list the pages that are out of date

A table stands between two comments, `<!-- table: MAKER -->` and `<!-- end of table -->`. MAKER is an errata command
that can print Markdown, a file that another benchmark wrote, or a name in MAKERS.
"""

import argparse
import json
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import chdir
from pathlib import Path

import pandas as pd

import cleaning
import review_tables
from errata.bench.evaluation import compare, published
from errata.bench.evaluation.fnr_tables import noise_rate_summary
from errata.bench.evaluation.leaderboard import ResultsWithDefault
from errata.bench.evaluation.result_table import MISSING
from errata.bench.plan import suite
from errata.bench.results import Results
from errata.bench.running.as_published import published_recipe
from errata.bench.tuning_results import CANDIDATES, CLUSTERED_METHOD, TuningResults, choose
from errata.core.default import DEFAULT
from errata.core.memorising import FEWEST_REJECTED
from errata.datasets.registry import setting as find_setting
from errata.training.recipes import AnyRecipe, Recipe

ROOT = Path(__file__).parents[2]
BEGINS, ENDS = "<!-- table: ", "<!-- end of table -->"
TABLE = re.compile(rf"({BEGINS}(?P<maker>.+?) -->\n)(?:(?!{BEGINS}).)*?({ENDS})", re.DOTALL)
TITLE = re.compile(r"\A\*\*.*\*\*\n\n")  # the text around a table says what it is
FOUND, PUBLISHED = Results(ROOT / "results"), Results(ROOT / "results" / "as-published")
RESEARCH = FOUND.folder / "research"
DOCS = ROOT / "docs"
PAGES = [*sorted([*DOCS.glob("*.md"), *(DOCS / "explanations").glob("*.md")]), RESEARCH / "README.md"]
METHODS_BY_NOISE = (
    *("Last-CE", "Last-LM", "Mean-CE", "Mean-JS", "Mean-LM", "Mean-CPD", "MeanProb-CE", "MeanProb-LM", "SWA-LM"),
    *("LateStopping-CPD", "CTRL-CE", "CTRL-LM", "CTRL-CPD", "CL-CC (IS)", "CL-PBNR (IS)"),
    *("kNN-MeanProb-LM", "kNN-RampProb-LM"),
    *(f"Unmixed-{name}" for name in ("MeanProb-LM", "kNN-MeanProb-LM", "kNN-RampProb-LM", "kNN-EarlyProb-LM")),
    *(f"Unmixed-HeldOut-{name}" for name in ("MeanProb-LM", "EarlyProb-LM")),
    *("CL-PBNR (OOS)", "Mean-LM (OOS)"),
)
BOOSTED_METHODS = (DEFAULT, "MeanProb-LM", "Mean-LM", "Mean-CE", "Last-CE", "CTRL-CE", "CL-PBNR (IS)")
SETTINGS_BY_NOISE = (
    *("digits-symmetric-20", *(name for name in suite("noise") if name.startswith("digits"))),
    *(name for name in suite("noise") if name.startswith("letter")),
    *("cifar10-symmetric-20", *(name for name in suite("noise") if name.startswith("cifar10"))),
)


def agreement() -> str:
    """Agreement with the paper by setting: cells inside the band, and rank correlation of the methods."""
    found, as_published = (compare.by_setting(compare.compare(results)) for results in (FOUND, PUBLISHED))
    shown = {row.setting: [f"{row.inside} of {row.cells}", f"{row.spearman:.2f}"] for row in as_published.itertuples()}
    rows = [
        [row.setting, f"{row.inside} of {row.cells}", f"{row.spearman:.2f}", *shown.get(row.setting, [MISSING] * 2)]
        for row in found.itertuples()
    ]
    return _pipes(["setting", "inside", "Spearman", "as published: inside", "Spearman"], rows)


def families(results: Results) -> str:
    """Agreement with the paper by family of methods."""
    rows = []
    for row in compare.by_family(compare.compare(results)).itertuples():
        difference, size = f"{row.mean_difference:.2f}", f"{row.mean_absolute_difference:.2f}"
        rows.append([row.family, row.network, str(row.cells), str(row.inside), difference, size])
    titles = ["family", "network", "cells", "inside", "mean difference", "mean size of difference"]
    return _pipes(titles, rows, labels=2)


def recipes() -> str:
    """The training recipes of the tables."""
    titles = ["table", "found by the search: widths, rate, decay, epochs", "as published"]
    rows = []
    for path in sorted((FOUND.folder / "recipes").glob("*.json")):
        recipes = Recipe.load(path), published_recipe(find_setting(path.stem))
        rows.append([path.stem.removesuffix("-symmetric-20"), *map(_recipe, recipes)])
    return _pipes(titles, rows, labels=3)


def ctrl_configurations() -> str:
    """FNR of CTRL-CE on the evaluation part: the paper's, that of the choice here, and of the nearest configuration."""
    paper = published.fnr_optimized()
    paper = paper[(paper["tuning_fraction"] == 0) & (paper["method"] == CLUSTERED_METHOD)].set_index("setting")
    rows = []
    for name in suite("cifar"):
        candidates = TuningResults(FOUND.folder).read(name, CANDIDATES)
        candidates = candidates[candidates["method"] == CLUSTERED_METHOD]
        default = candidates[candidates["tuning_fraction"] == 0]
        every = 100 * candidates[candidates["tuning_fraction"] == 0.1].groupby("chosen")["value"].mean()
        printed = float(paper.loc[name, "fnr_percent"])
        nearest = (every - printed).abs().idxmin()
        chosen = f"{100 * default['value'].mean():.2f} ({'; '.join(default['chosen'].unique())})"
        rows.append([name, f"{printed:.2f}", chosen, f"{every[nearest]:.2f} ({nearest})"])
    return _pipes(["setting", "paper", "chosen here", "nearest to the paper"], rows)


def shared_windows() -> str:
    """Tuned cells of tables inside the band: each seed has the window that is best for it, or all seeds have one."""
    tuned = compare.compare_tuned(FOUND)
    tuned = tuned[(tuned["network"] == "mlp") & tuned["complete"]]
    option = ["tuning_fraction", "method", "place", "width", "chosen"]
    shared = []
    for name in tuned["setting"].unique():
        candidates = TuningResults(FOUND.folder).read(name, CANDIDATES).query("tuning_fraction > 0")
        means = candidates.groupby(option, as_index=False)[["tuning_value", "value"]].mean()
        shared.append(choose(means.assign(seed=0)).assign(setting=name))
    both = tuned.merge(pd.concat(shared), on=["setting", "tuning_fraction", "method"])
    both["difference_shared"] = 100 * both["value"] - both["paper"]
    band = (compare.BAND_RELATIVE * both["paper"]).clip(lower=compare.BAND_POINTS)
    both["inside_shared"] = both["difference_shared"].abs() <= band
    rows = []
    for name, cells in [*both.groupby("setting", sort=False), ("all", both)]:
        counts = [f"{cells[column].sum()} of {len(cells)}" for column in ("inside", "inside_shared")]
        means = [f"{cells[column].mean():.2f}" for column in ("difference", "difference_shared")]
        rows.append([str(name), counts[0], means[0], counts[1], means[1]])
    each, shared_by_all = "a window per seed: inside", "a window for all seeds: inside"
    return _pipes(["setting", each, "mean difference", shared_by_all, "mean difference"], rows)


def by_noise() -> str:
    """FNR in percent of methods by kind of noise, the lowest of each setting in bold."""
    means = noise_rate_summary(FOUND).pivot(index="method", columns="setting", values="mean_percent")
    scored = [name for name in METHODS_BY_NOISE if name in means.index]
    shown = means.round(1).reindex(index=scored, columns=SETTINGS_BY_NOISE)
    rows = []
    for name, values in shown.iterrows():
        least = values == shown.min()
        texts = [MISSING if value != value else f"{value:.1f}" for value in values]
        rows.append([str(name), *(f"**{text}**" if best else text for text, best in zip(texts, least, strict=True))])
    return _pipes(["", *(name.replace("-", " ") for name in SETTINGS_BY_NOISE)], rows)


def boosting() -> str:
    """Boosted settings: rounds, FNR in percent of methods and test accuracy, means over seeds."""
    numbers = ResultsWithDefault(FOUND.folder).numbers()
    boosted = numbers[numbers["setting"].str.endswith("-boosting") & (numbers["gathering"] == "in-sample")]
    means = boosted[boosted["metric"] == "fnr"].pivot_table(index="setting", columns="method", values="value")
    accuracy = boosted[boosted["metric"] == "test_accuracy"].groupby("setting")["value"].mean()
    rows = []
    for name, values in means[list(BOOSTED_METHODS)].iterrows():
        rounds = json.loads(boosted.loc[boosted["setting"] == name, "parameters"].iloc[0])["epochs"]
        shown = [f"{100 * value:.2f}" for value in values]
        rows.append([str(name).removesuffix("-boosting"), str(rounds), *shown, f"{100 * accuracy[name]:.1f}"])
    return _pipes(["", "rounds", *BOOSTED_METHODS, "test accuracy %"], rows)


def memorising() -> str:
    """Runs that memorise. The default is marked where it uses neither neighbours nor held-out predictions."""
    methods = ("MeanProb-LM", "kNN-MeanProb-LM", "Unmixed-kNN-MeanProb-LM", "default", "features alone", "logits alone")
    rows = []
    for run in pd.read_csv(RESEARCH / "memorising.csv").to_dict("records"):
        name = run["setting"] if run["network"] == "MLP" else f"2,000 images of CIFAR-10, {run['network']}"
        shares = [f"{100 * run[share]:.0f} %" for share in ("last epoch", "late fit")]
        back = (
            f"{100 * run['reversals']:.0f} % of {run['ruled out']}" if run["ruled out"] >= FEWEST_REJECTED else MISSING
        )
        missed = {method: f"{run[method]:.1f}" for method in methods}
        for ranks_by, method in (("method", "default"), ("features alone method", "features alone")):
            missed[method] += "" if "kNN" in run[ranks_by] or "HeldOut" in run[ranks_by] else " (not used)"
        counted = [str(run[of]) for of in ("epochs used", "epochs of logits alone")]
        rows.append([name, str(run["epochs"]), *shares, back, *missed.values(), *counted])
    statistics = ["epochs", "labels fitted", "late fit", "reversals"]
    titles = [method.replace(" alone", " only") for method in methods]
    return _pipes(["", *statistics, *titles, "epochs used", "from logits only"], rows)


def cleaned() -> str:
    """Test accuracy after cleaning and the share of the gap closed, one column per setting."""
    columns = {
        ("cleaning", "satellite-symmetric-20"): "Satellite, the recipe found",
        ("cleaning", "letter-symmetric-20"): "Letter, the recipe found",
        ("cleaning", "cifar10n-worse"): "CIFAR-10N worse, one seed",
        ("cleaning-printed", "satellite-symmetric-20"): "Satellite, the printed recipe",
    }
    shown: dict[str, list[str]] = {}
    for file, setting in columns:
        closed = cleaning.Table(RESEARCH / f"{file}.csv").closed()
        for row in closed[closed["setting"] == setting].itertuples():
            named = {"as given": "labels as given", "true labels": "true labels"}
            title = named.get(row.action, f"{str(row.detector).replace('default', 'the default')}, {row.action}")
            share = "" if row.action in named else f" ({100 * row.gap_closed:.0f}%)"
            shown.setdefault(title, []).append(f"{100 * row.accuracy:.2f}{share}")
    return _pipes(["", *columns.values()], [[title, *texts] for title, texts in shown.items()])


def learning() -> str:
    """Runs that do not memorise and have wrong labels, as means over seeds."""
    images, others = (pd.read_csv(RESEARCH / f"learning{of}.csv") for of in ("-images", ""))
    by = ["data", "network", "wrong"]
    means = pd.concat([others.groupby(by, sort=False).mean().reset_index(), images]).dropna(subset="default")
    shares, methods = ["late fit", "reversals"], ["whole run", "cut at late fit", "neighbours", "default"]
    rows = []
    for run in means.to_dict("records"):
        percents = [f"{100 * run[of]:.0f} %" for of in ("wrong", *shares)]
        missed = [MISSING if run[of] != run[of] else f"{run[of]:.1f}" for of in methods]
        rows.append([f"{run['data']}, {run['network']}", *percents, *missed])
    titles = ["wrong labels", "late fit", "reversals", "whole run", "cut at late fit", "feature neighbours", "default"]
    return _pipes(["", *titles], rows)


def beside_the_paper() -> str:
    """FNR in percent on the settings that the paper has too: its numbers and ours."""
    measured = pd.read_csv(RESEARCH / "everywhere.csv").dropna(subset="paper")
    columns = ["paper", "alone", "paper_best", "default"]
    rows = [
        [name, *(f"{value:.2f}" for value in values)] for name, *values in measured[["setting", *columns]].to_numpy()
    ]
    titles = ["setting", "MeanProb-LM, paper", "MeanProb-LM, ours", "best of the paper's 25", "default, ours"]
    return _pipes(titles, rows)


def reviews(maker: Callable[[], list[list[str]]]) -> str:
    """A table of simulated reviews."""
    titles, *rows = maker()
    return _pipes(titles, rows)


MAKERS: dict[str, Callable[[], str]] = {
    "agreement": agreement,
    "families": lambda: families(FOUND),
    "shared windows": shared_windows,
    "families, as published": lambda: families(PUBLISHED),
    "recipes": recipes,
    "ctrl configurations": ctrl_configurations,
    "by noise": by_noise,
    "boosting": boosting,
    "memorising": memorising,
    "learning": learning,
    "beside the paper": beside_the_paper,
    "cleaned": cleaned,
    **{
        f"reviews: {maker.__name__}": lambda maker=maker: reviews(maker)
        for maker in (review_tables.coverage, review_tables.width, review_tables.found, review_tables.certificates)
    },
}


def build_table(maker: str) -> str:
    """The table of a maker."""
    if maker in MAKERS:
        return MAKERS[maker]()
    if maker.startswith("errata "):
        return TITLE.sub("", _output_of([*shlex.split(maker)[1:], "--format", "markdown"]))
    return (ROOT / maker).read_text(encoding="utf-8")


def filled(page: str) -> str:
    """A page with all its tables filled in."""
    tables = len(TABLE.findall(page))
    if not tables == page.count(BEGINS) == page.count(ENDS):
        raise ValueError(f"{page.count(BEGINS)} tables begin and {page.count(ENDS)} end")
    return TABLE.sub(lambda found: f"{found[1]}\n{build_table(found['maker']).strip()}\n\n{found[3]}", page)


def _output_of(arguments: list[str]) -> str:
    from typer.testing import CliRunner

    from errata.cli.app import app

    with chdir(ROOT):
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    if result.exit_code != 0:
        raise SystemExit(result.output)
    return result.stdout


def _recipe(recipe: AnyRecipe) -> str:
    assert isinstance(recipe, Recipe)
    widths = "-".join(map(str, recipe.widths))
    return f"{widths}, {recipe.learning_rate:g}, {recipe.weight_decay:g}, {recipe.epochs}"


def _pipes(titles: Sequence[str], rows: Sequence[Sequence[str]], labels: int = 1) -> str:
    rule = ["---" if column < labels else "---:" for column in range(len(titles))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, rule, *rows))


def main(check: bool) -> None:
    """Fill in every page, or list those that are out of date."""
    stale = []
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        anew = filled(page)
        if anew != page:
            stale.append(path.name)
            if not check:
                path.write_text(anew, encoding="utf-8")
    print(f"{'out of date' if check else 'filled in'}: {', '.join(stale) or 'none'}")
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a page is out of date")
    main(parser.parse_args().check)
