import re

import numpy as np
import pytest
from synthetic_results import write_cell

from errata.bench.results_page import write_report
from errata.core import metrics

SETTINGS = ("digits-symmetric-20", "cifar10n-worse")
METHODS = ("MeanProb-LM", "Mean-CE", "Last-CE", "CL-PBNR (IS)")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two settings, two seeds, four methods whose scores correlate with the truth."""
    root = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    truth = np.arange(300) % 5 == 0
    for setting in SETTINGS:
        for seed in range(2):
            scores = {
                name: truth * skill + rng.normal(size=300) for name, skill in zip(METHODS, (4, 3, 2, 1), strict=True)
            }
            fnr = {name: metrics.fnr(values, truth) for name, values in scores.items()}
            points = {"CL-PBNR (IS)": (40, 0.5)}
            complete = setting != "cifar10n-worse"
            folder = write_cell(
                root / "results",
                setting,
                seed,
                fnr,
                operating_points=points,
                accuracy=0.9,
                scores=scores,
                truth=truth,
                complete=complete,
            )
    return folder


@pytest.fixture(scope="module")
def report(results):
    path = results.folder.parent / "out" / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ERRATA_DATA", str(results.folder.parent / "nothing"))
        missing = write_report(results, path)
    assert any(sentence.startswith("noise-cifar10n-worse: cifar10 is not in") for sentence in missing)
    return path


def shown(page):
    return page.locator("main > section:visible")


def opened(page, title):
    """Wait until the section is shown: the browser updates it after the address."""
    from playwright.sync_api import expect

    expect(page.locator("h2.page:visible")).to_have_text(title)


def column(page, number):
    return page.locator(f"main > section:visible table tbody tr > :nth-child({number})").all_inner_texts()


def test_nothing_is_fetched_from_elsewhere(report):
    text = report.read_text()
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=\"(?!data:)", text)
    assert "@import" not in text


def test_a_page_opens_at_the_overview_and_each_link_shows_its_page_alone(report, page):
    page.goto(report.as_uri())
    assert shown(page).count() == 1
    assert page.locator("h2.page:visible").inner_text() == "Overview"
    links = page.locator("nav a")
    for number in range(links.count()):
        links.nth(number).click()
        opened(page, links.nth(number).inner_text())
        assert shown(page).count() == 1
        assert links.nth(number).get_attribute("aria-current") == "page"
    page.go_back()
    opened(page, links.nth(links.count() - 2).inner_text())


def test_there_is_a_page_a_setting_with_its_numbers_and_pictures(report, page, results):
    page.goto(f"{report.as_uri()}#setting-digits-symmetric-20")
    assert set(column(page, 1)) == {"MeanProb-LM", "Mean-CE", "Last-CE/JS", "CL-PBNR (IS)"}
    numbers = results.numbers()
    own = numbers[(numbers["setting"] == "digits-symmetric-20") & (numbers["metric"] == "fnr")]
    means = 100 * own.groupby("method")["value"].mean()
    texts = dict(zip(column(page, 1), column(page, 2), strict=True))
    assert texts["MeanProb-LM"] == f"{means['MeanProb-LM']:.2f}"
    pictures = page.locator("main > section:visible img")
    assert pictures.count() >= 3
    for number in range(pictures.count()):
        assert pictures.nth(number).evaluate("image => image.complete && image.naturalWidth > 0")
        assert pictures.nth(number).get_attribute("alt")
    page.goto(f"{report.as_uri()}#setting-cifar10n-worse")
    opened(page, "cifar10n-worse")
    assert "incomplete: not comparable" in shown(page).inner_text()


def test_a_click_on_a_column_sorts_up_then_down_by_number_not_by_text(report, page):
    page.goto(f"{report.as_uri()}#setting-digits-symmetric-20")
    header = page.locator("main > section:visible th button").nth(1)
    header.click()
    up = [float(text) for text in column(page, 2)]
    assert up == sorted(up)
    header.click()
    down = [float(text) for text in column(page, 2)]
    assert down == sorted(up, reverse=True)
    assert page.locator("main > section:visible th[aria-sort]").get_attribute("aria-sort") == "descending"


def test_what_is_missing_stays_last_whichever_way_it_is_sorted(report, page):
    page.goto(f"{report.as_uri()}#setting-digits-symmetric-20")
    header = page.locator("main > section:visible th button", has_text="flags")
    for _ in range(2):
        header.click()
        assert column(page, 4)[0] == "40"


def test_the_same_results_give_the_same_bytes(report, results, tmp_path, monkeypatch):
    monkeypatch.setenv("ERRATA_DATA", str(results.folder.parent / "nothing"))
    again = tmp_path / "again.html"
    write_report(results, again)
    assert again.read_bytes() == report.read_bytes()


def test_results_the_paper_knows_nothing_of_have_a_page_too(tmp_path):
    results = write_cell(tmp_path / "own", "digits-symmetric-20", 0, {"MeanProb-LM": 0.1})
    write_report(results, tmp_path / "own.html")
    assert "no results for a setting and method that the paper reports" in (tmp_path / "own.html").read_text()


def test_the_command_writes_it_and_says_what_it_could_not_show(results, tmp_path, monkeypatch, errata_command):
    monkeypatch.chdir(results.folder.parent)
    monkeypatch.setenv("ERRATA_DATA", str(tmp_path / "nothing"))
    code, out, _ = errata_command("bench", "report", "--out", tmp_path / "page.html")
    assert code == 0
    assert "not shown: table tuned" in out
    assert f"wrote {tmp_path / 'page.html'}" in " ".join(out.split())
    assert (tmp_path / "page.html").exists()
