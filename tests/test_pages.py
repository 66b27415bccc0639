"""The tables on the pages under docs equal the stored results."""

from pathlib import Path

import pandas as pd
import pytest

import everywhere
import pages

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize(
    "path", [path for path in pages.PAGES if "<!-- table:" in path.read_text("utf-8")], ids=lambda path: path.name
)
def test_tables_are_those_of_the_results(path):
    page = path.read_text(encoding="utf-8")
    assert pages.filled(page) == page, "run `python benchmarks/research/pages.py`"


def test_the_numbers_of_the_readme_are_those_of_the_results():
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    research = DOCS.parent / "results" / "research"
    settings = pd.read_csv(research / "everywhere.csv")
    printed = settings.dropna(subset="paper_best")
    below = (printed["default"] < printed["paper_best"]).sum()
    assert f"| {100 * (1 - settings['share'].mean()):.0f} % fewer errors missed on average" in readme
    assert f"(MeanProb-LM), {len(settings)} settings" in readme
    assert f"fewer errors missed on {below} of {len(printed)} settings" in readme
    for name in ("wild", "keel"):
        rows = pd.read_csv(research / f"{name}.csv")
        methods = ["default", "cleanlab boosting", "cleanlab logistic"]
        case = [rows["noise"], rows["dataset"]]
        misses = rows[methods].mul(rows["errors"], axis=0).groupby(case).mean().round()
        won = (misses["default"] < misses[methods[1:]].min(axis=1)).sum()
        assert f"fewer errors missed in {won} of {len(misses)} cases" in readme
        rates = rows[methods].groupby(case).mean().loc["symmetric-20"].mean()
        default, boosting, logistic = (f"{rate:.1f}" for rate in rates)
        assert f"with 20 % symmetric noise {default} % missed instead of {boosting} or {logistic}" in readme


def test_all_that_is_marked_is_filled_in(monkeypatch):
    monkeypatch.setitem(pages.MAKERS, "one", lambda: "| a |")
    page = (
        "before\n<!-- table: one -->\nold\n<!-- end of table -->\nbetween\n<!-- table: one -->\n<!-- end of table -->\n"
    )
    filled = pages.filled(page)
    assert filled.count("| a |") == 2
    assert "old" not in filled
    assert filled.startswith("before\n")
    assert "\nbetween\n" in filled
    assert pages.filled(filled) == filled


@pytest.mark.parametrize(
    "page", ["<!-- table: one -->\ntext\n", "<!-- table: one -->\nx\n<!-- table: one -->\n<!-- end of table -->\n"]
)
def test_a_table_without_an_end_is_refused(page, monkeypatch):
    monkeypatch.setitem(pages.MAKERS, "one", lambda: "| a |")
    with pytest.raises(ValueError, match="begin"):
        pages.filled(page)


def test_the_table_of_all_settings_is_that_of_the_cells():
    results = DOCS.parent / "results"
    found = everywhere.in_parts(everywhere.table(list(everywhere.measured(results))))
    assert everywhere.markdown(found) == (results / "research" / "everywhere.md").read_text(encoding="utf-8")


def test_a_maker_that_is_none_is_refused():
    with pytest.raises(FileNotFoundError):
        pages.build_table("no such table")
